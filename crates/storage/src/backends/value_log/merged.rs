//! A write-ahead log in two files, read as one: by sequence, which is the order of writing.
//!
//! A batch lies whole in one of them, and sequences have no gaps; so what is missing from either, whatever a power cut made of
//! its pages, is a gap to whoever reads, and ends the history there. Damage is told where the next batch behind it in its file has
//! its turn: others may belong to the history before that.
use crate::{
    Result,
    placement::{LogEvent, LogReader},
};
use std::collections::VecDeque;
use terrace_format::{Batch, SeqNo};

/// The files of a log; the segment, if there is one, before the log of small values.
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
    next: LogEvent,
    /// Its sequence; behind all others at the end.
    first: SeqNo,
    /// It has been told. Only then does the reader go on, which may be asked to [store](LogReader::store) it.
    stale: bool,
}

impl File {
    fn new(reader: Box<dyn LogReader>) -> Result<File> {
        let end = LogEvent::End { offset: 0, torn: false };
        let mut file = File { reader, bad: VecDeque::new(), next: end, first: SeqNo::ZERO, stale: true };
        file.refill()?;
        Ok(file)
    }

    /// Reads on, if the record ahead has been told.
    fn refill(&mut self) -> Result<()> {
        while std::mem::take(&mut self.stale) {
            match self.reader.next()? {
                bad @ LogEvent::Bad { .. } => {
                    self.bad.push_back(bad);
                    self.stale = true;
                }
                next => {
                    self.first = sequence(&next);
                    self.next = next;
                }
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        matches!(self.next, LogEvent::End { .. })
    }
}

/// Of the batch in a record. One that is none has no turn to wait for.
fn sequence(event: &LogEvent) -> SeqNo {
    let LogEvent::Record { bytes, .. } = event else { return SeqNo::MAX };
    bytes.first_chunk().map_or(SeqNo::ZERO, |first| SeqNo(u64::from_le_bytes(*first)))
}

impl Merged {
    /// Of a log whose small values are beside its segment. The head there only says who wrote it.
    pub fn new(segment: Option<Box<dyn LogReader>>, small: Box<dyn LogReader>) -> Result<Merged> {
        let alone = segment.is_none();
        let ours = segment.as_ref().map_or(small.ours(), |segment| segment.ours());
        let mut files = segment.into_iter().chain([small]).map(File::new).collect::<Result<Vec<_>>>()?;
        let small = files.last_mut().expect("the log of small values");
        if !alone && is_head(&small.next) {
            small.stale = true;
        }
        Ok(Merged { files, told: 0, ours })
    }

    /// The file whose turn it is.
    fn turn(&self) -> usize {
        (0..self.files.len()).min_by_key(|at| self.files[*at].first).unwrap_or(0)
    }
}

fn is_head(event: &LogEvent) -> bool {
    let LogEvent::Record { bytes, .. } = event else { return false };
    Batch::decode(bytes.clone()).is_ok_and(|batch| batch.is_empty())
}

impl LogReader for Merged {
    fn ours(&self) -> bool {
        self.ours
    }

    fn next(&mut self) -> Result<LogEvent> {
        self.files.iter_mut().try_for_each(File::refill)?;
        let turn = self.turn();
        let over = self.files[turn].is_over();
        let damaged = self.files.iter_mut().enumerate().filter(|(at, _)| over || *at == turn);
        if let Some(bad) = damaged.filter_map(|(_, file)| file.bad.pop_front()).next() {
            return Ok(bad);
        }
        let torn = over && self.files.iter().any(|file| matches!(file.next, LogEvent::End { torn: true, .. }));
        self.told = turn;
        let file = &mut self.files[turn];
        file.stale = !over;
        Ok(match &mut file.next {
            LogEvent::Record { offset, bytes } => LogEvent::Record { offset: *offset, bytes: std::mem::take(bytes) },
            LogEvent::End { offset, .. } => LogEvent::End { offset: *offset, torn },
            bad => bad.clone(),
        })
    }

    fn store(&mut self, batch: Batch) -> Batch {
        self.files[self.told].reader.store(batch)
    }
}
