//! The tail of the history: what the logs still have of it, in the order of writing.
//!
//! A log's head says at which sequence it begins. It ends where the next one begins, whatever lies behind in it: what a
//! power cut or a full disk cut off was never part of the history, and the next log took its sequences. So the heads of a
//! chain rise, and a log whose head does not lie before all later ones has nothing to add.
use crate::{Error, Result, WriteBatch};
use std::collections::VecDeque;
use terrace_format::{LogId, SeqNo, batch::Batch};
use terrace_storage::{
    Error as StorageError,
    placement::{LogEvent, LogKind, LogReader, ObjectId, Placement},
};

/// Some of what was written, as one record of the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Sequence of the first operation; the others count up from it.
    pub sequence: u64,
    /// The operations. Writers that were served together are together here; no batch is ever torn apart.
    pub batch: WriteBatch,
}

impl Update {
    /// Sequence of the last operation: from here on, the next update tells more.
    pub fn last_sequence(&self) -> u64 {
        self.sequence + (self.batch.len() as u64).max(1) - 1
    }
}

/// What was written behind some sequence, up to the moment of asking; see [`Db::updates_since`](crate::Db::updates_since).
/// Ends after its first error.
pub struct Updates {
    chain: VecDeque<Link>,
    /// Where the history goes on.
    next: SeqNo,
    /// Where it ended when it was asked for.
    last: SeqNo,
}

/// A log that has been opened, and read up to its head.
struct Link {
    name: String,
    head: SeqNo,
    reader: Box<dyn LogReader>,
}

impl Updates {
    /// What `logs`, oldest first, have behind `since` and up to `last`. `None` if one of them is gone by now.
    pub(crate) fn open(
        placement: &dyn Placement,
        logs: &[LogId],
        since: SeqNo,
        last: SeqNo,
    ) -> Result<Option<Updates>> {
        let mut chain = VecDeque::new();
        for &log in logs {
            let mut reader = match placement.open_log(log, LogKind::Wal) {
                Err(StorageError::Missing { .. }) => return Ok(None),
                opened => opened?,
            };
            match head(&mut *reader)? {
                Some(head) => append(&mut chain, Link { name: placement.place_of(ObjectId::Wal(log)), head, reader }),
                None => chain.clear(), // LevelDB's, or torn at its start: what lies before has no link to what follows
            }
        }
        let next = since.plus(1);
        let begin = chain.partition_point(|link| link.head <= next);
        if begin == 0 && next <= last {
            return Err(gone(next, chain.front().map_or(last.plus(1), |link| link.head)));
        }
        chain.drain(..begin.saturating_sub(1));
        Ok(Some(Updates { chain, next, last }))
    }

    fn read(&mut self) -> Result<Option<Update>> {
        while self.next <= self.last {
            let end = self.chain.get(1).map(|link| link.head);
            let Some(link) = self.chain.front_mut() else { return Err(gone(self.next, self.last.plus(1))) };
            match link.reader.next()? {
                LogEvent::Record { offset, bytes } => {
                    let batch = Batch::decode(bytes).map_err(|e| StorageError::corrupt(&*link.name, offset, e))?;
                    let first = batch.sequence();
                    if batch.is_empty() {
                        continue;
                    }
                    if first > self.next || end.is_some_and(|end| first >= end) {
                        self.leave()?;
                    } else if first.plus(u64::from(batch.len())) > self.next {
                        self.next = first.plus(u64::from(batch.len()));
                        return Ok(Some(Update { sequence: first.0, batch: WriteBatch::of(batch) }));
                    }
                }
                LogEvent::Bad { .. } | LogEvent::End { .. } => self.leave()?,
            }
        }
        Ok(None)
    }

    /// The first log of the chain has no more; the next one must go on where it ended.
    fn leave(&mut self) -> Result<()> {
        self.chain.pop_front();
        match self.chain.front() {
            Some(link) if link.head <= self.next => Ok(()),
            Some(link) => Err(gone(self.next, link.head)),
            None => Err(gone(self.next, self.last.plus(1))),
        }
    }
}

impl Iterator for Updates {
    type Item = Result<Update>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.last = SeqNo::ZERO;
        }
        read.transpose()
    }
}

/// The sequence at which a log of ours begins; `None` if it does not say so.
fn head(reader: &mut dyn LogReader) -> Result<Option<SeqNo>> {
    let LogEvent::Record { bytes, .. } = reader.next()? else { return Ok(None) };
    let head = reader.ours().then(|| Batch::decode(bytes)).and_then(|batch| batch.ok());
    Ok(head.filter(Batch::is_empty).map(|batch| batch.sequence()))
}

/// Puts a log behind those that begin before it does.
fn append(chain: &mut VecDeque<Link>, link: Link) {
    while chain.back().is_some_and(|older| older.head >= link.head) {
        chain.pop_back();
    }
    chain.push_back(link);
}

fn gone(wanted: SeqNo, oldest: SeqNo) -> Error {
    Error::SequenceGone { wanted: wanted.0, oldest: oldest.0 }
}
