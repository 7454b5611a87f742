//! A write-ahead log in two files, read as one: by sequence, which is the order of writing.
//!
//! A batch lies whole in one of them, and sequences have no gaps; so what is missing from either, whatever a power cut made of
//! its pages, is a gap to whoever reads, and ends the history there. Damage is told where the next batch behind it in its file has
//! its turn, or at the end: others may belong to the history before that. What cannot be read in one file is told once the other is over.
use crate::{
    Error, Result,
    placement::{LogEvent, LogReader},
};
use std::{collections::VecDeque, mem};
use terrace_format::{Batch, SeqNo};

/// The files of a log; the segment, if there is one, before the small log.
pub(super) struct Merged {
    files: Vec<File>,
    /// That from which the last record came.
    told: usize,
    ours: bool,
}

/// One of them, read ahead to its next record.
struct File {
    reader: Box<dyn LogReader>,
    /// What is damaged before that.
    bad: VecDeque<LogEvent>,
    ahead: Ahead,
}

enum Ahead {
    /// It was told. Only now may the reader go on, which was to [store](LogReader::store) it.
    Nothing,
    /// A record, and the sequence of its batch.
    Record(SeqNo, LogEvent),
    End(LogEvent),
    Unreadable(Error),
}

impl File {
    fn new(reader: Box<dyn LogReader>) -> File {
        let mut file = File { reader, bad: VecDeque::new(), ahead: Ahead::Nothing };
        file.look_ahead();
        file
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

    /// Whose is the lowest is to tell something. Damage comes right before the record behind it.
    fn turn(&self) -> (u8, SeqNo) {
        match &self.ahead {
            Ahead::Record(first, _) => (0, *first),
            _ if !self.bad.is_empty() => (1, SeqNo::ZERO),
            Ahead::Unreadable(_) => (2, SeqNo::ZERO),
            Ahead::End(_) | Ahead::Nothing => (3, SeqNo::ZERO),
        }
    }
}

/// Of the batch in a record. One that is none has no turn to wait for.
fn sequence(record: &LogEvent) -> SeqNo {
    let LogEvent::Record { bytes, .. } = record else { return SeqNo::ZERO };
    bytes.first_chunk().map_or(SeqNo::ZERO, |first| SeqNo(u64::from_le_bytes(*first)))
}

fn is_head(record: &LogEvent) -> bool {
    let LogEvent::Record { bytes, .. } = record else { return false };
    Batch::decode(bytes.clone()).is_ok_and(|batch| batch.is_empty())
}

impl Merged {
    /// Of a log that has a small one. What that begins with only says who wrote it, unless it is all there is.
    pub fn new(segment: Option<Box<dyn LogReader>>, small: Box<dyn LogReader>) -> Merged {
        let ours = segment.as_ref().map_or(small.ours(), |segment| segment.ours());
        let mut small = File::new(small);
        let begins = |record: &LogEvent| matches!(record, LogEvent::Record { offset: 0, .. });
        if segment.is_some() && matches!(&small.ahead, Ahead::Record(_, record) if begins(record) && is_head(record)) {
            small.ahead = Ahead::Nothing;
        }
        Merged { files: segment.map(File::new).into_iter().chain([small]).collect(), told: 0, ours }
    }
}

impl LogReader for Merged {
    fn ours(&self) -> bool {
        self.ours
    }

    fn next(&mut self) -> Result<LogEvent> {
        self.files.iter_mut().for_each(File::look_ahead);
        let turn = (0..self.files.len()).min_by_key(|at| self.files[*at].turn()).unwrap_or(0);
        let file = &mut self.files[turn];
        if let Some(bad) = file.bad.pop_front() {
            return Ok(bad);
        }
        self.told = turn;
        match mem::replace(&mut file.ahead, Ahead::Nothing) {
            Ahead::Unreadable(error) => Err(error),
            Ahead::Record(_, record) => Ok(record),
            Ahead::End(end) => {
                file.ahead = Ahead::End(end.clone());
                Ok(end)
            }
            Ahead::Nothing => unreachable!("it was looked for above"),
        }
    }

    fn store(&mut self, batch: Batch) -> Batch {
        self.files[self.told].reader.store(batch)
    }
}
