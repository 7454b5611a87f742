//! Reads a WAL of two files (segment and sidecar) as one log. Records are returned in the order of
//! their sequence numbers, which is the order in which they were written.
//!
//! Each batch is completely in one of the two files, and sequence numbers have no gaps. If a power
//! cut removes a batch from either file, there is a gap, and recovery ends the history at the gap.
//! Corruption in one of the files is reported directly before the next batch of that file, or at
//! the end of the log; batches of the other file may be returned earlier. A read error of one file
//! is returned after all batches of the other file.
use crate::{
    Error, Result,
    placement::{LogEvent, LogReader},
};
use std::{collections::VecDeque, mem};
use terrace_format::{Batch, SeqNo};

/// The files of a WAL: the segment, if there is one, then the sidecar.
pub(super) struct MergedWal {
    inputs: Vec<MergeInput>,
    /// The index of the file from which the last record was returned.
    current: usize,
    ours: bool,
}

/// One of the two files of the WAL, from which the next record is read ahead.
struct MergeInput {
    reader: Box<dyn LogReader>,
    /// Reports of corruption in the file between the last returned record and the next record.
    bad: VecDeque<LogEvent>,
    ahead: Ahead,
}

enum Ahead {
    /// No record is read ahead, because the last one was just returned to the caller. The caller
    /// may still have to [store](LogReader::store) that record, and this works only while the
    /// reader has not moved to the next one. The next record of the file is therefore read only in
    /// the next call.
    Nothing,
    /// The next record, which was read ahead, with the sequence number of its batch.
    Record(SeqNo, LogEvent),
    End(LogEvent),
    Unreadable(Error),
}

impl MergeInput {
    fn new(reader: Box<dyn LogReader>) -> MergeInput {
        let mut input = MergeInput { reader, bad: VecDeque::new(), ahead: Ahead::Nothing };
        input.look_ahead();
        input
    }

    fn look_ahead(&mut self) {
        while matches!(self.ahead, Ahead::Nothing) {
            match self.reader.next() {
                Ok(bad @ LogEvent::Bad { .. }) => self.bad.push_back(bad),
                Ok(end @ LogEvent::End { .. }) => self.ahead = Ahead::End(end),
                Ok(record) => self.ahead = Ahead::Record(sequence(&record), record),
                Err(error) => self.ahead = Ahead::Unreadable(error),
            }
        }
    }

    /// Returns the sort key of the next event of this file, which is the segment or the sidecar of
    /// a WAL. The file with the lower key returns its event first. A report of corruption sorts
    /// directly before the record that follows it.
    fn order(&self) -> (u8, SeqNo) {
        match &self.ahead {
            Ahead::Record(first, _) => (0, *first),
            _ if !self.bad.is_empty() => (1, SeqNo::ZERO),
            Ahead::Unreadable(_) => (2, SeqNo::ZERO),
            Ahead::End(_) | Ahead::Nothing => (3, SeqNo::ZERO),
        }
    }
}

/// Returns the sequence number of a record's batch; zero if the record is malformed.
fn sequence(record: &LogEvent) -> SeqNo {
    let LogEvent::Record { bytes, .. } = record else { return SeqNo::ZERO };
    bytes.first_chunk().map_or(SeqNo::ZERO, |first| SeqNo(u64::from_le_bytes(*first)))
}

fn is_head(record: &LogEvent) -> bool {
    let LogEvent::Record { bytes, .. } = record else { return false };
    Batch::decode(bytes.clone()).is_ok_and(|batch| batch.is_empty())
}

impl MergedWal {
    /// Merges a segment and its sidecar. The first record of the sidecar only shows which program
    /// wrote the file. It is skipped, unless there is no segment.
    pub fn new(segment: Option<Box<dyn LogReader>>, sidecar: Box<dyn LogReader>) -> MergedWal {
        let ours = segment.as_ref().map_or(sidecar.ours(), |segment| segment.ours());
        let mut sidecar = MergeInput::new(sidecar);
        let begins = |record: &LogEvent| matches!(record, LogEvent::Record { offset: 0, .. });
        if segment.is_some() && matches!(&sidecar.ahead, Ahead::Record(_, record) if begins(record) && is_head(record))
        {
            sidecar.ahead = Ahead::Nothing;
        }
        MergedWal { inputs: segment.map(MergeInput::new).into_iter().chain([sidecar]).collect(), current: 0, ours }
    }
}

impl LogReader for MergedWal {
    fn ours(&self) -> bool {
        self.ours
    }

    fn next(&mut self) -> Result<LogEvent> {
        self.inputs.iter_mut().for_each(MergeInput::look_ahead);
        let next = (0..self.inputs.len()).min_by_key(|at| self.inputs[*at].order()).unwrap_or(0);
        let input = &mut self.inputs[next];
        if let Some(bad) = input.bad.pop_front() {
            return Ok(bad);
        }
        self.current = next;
        match mem::replace(&mut input.ahead, Ahead::Nothing) {
            Ahead::Unreadable(error) => Err(error),
            Ahead::Record(_, record) => Ok(record),
            Ahead::End(end) => {
                input.ahead = Ahead::End(end.clone());
                Ok(end)
            }
            Ahead::Nothing => unreachable!("look_ahead leaves no input without an event"),
        }
    }

    fn store(&mut self, batch: Batch) -> Batch {
        self.inputs[self.current].reader.store(batch)
    }
}
