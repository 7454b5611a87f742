//! The tail of the history: what the logs still have of it, in the order of writing.
//!
//! A log's head says at which sequence it begins. It ends where the next one begins, whatever lies behind in it: what a
//! power cut or a full disk cut off was never part of the history, and the next log took its sequences. So the heads of a
//! chain rise, and a log whose head does not lie before all later ones has nothing to add. Heads are looked at from the newest
//! log back, as far as is asked for.
use crate::{Error, Result, WriteBatch, version::obsolete_files::Follower};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{LogId, SeqNo, batch::Batch};
use terrace_storage::{
    Error as StorageError, Process,
    placement::{LogEvent, LogKind, LogReader, ObjectId, Storage},
};

/// Some of what was written, as one record of the log has it.
///
/// ```
/// # use terrace::{Db, Op, Options};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "value")?;
/// let update = db.updates_since(0)?.next().expect("something was written")?;
/// assert!(update.batch.ops().eq([Op::Put(b"key", b"value")]));
/// assert_eq!(update.last_sequence(), db.last_sequence());
/// # Ok::<(), terrace::Error>(())
/// ```
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
    storage: Arc<dyn Storage>,
    /// Keeps the logs of the chain.
    follower: Arc<Follower>,
    /// Logs to read, oldest first. Only the first is open: there may be very many.
    chain: VecDeque<Link>,
    reader: Option<Box<dyn LogReader>>,
    /// Where the history goes on.
    next: SeqNo,
    /// Where it ended when it was asked for.
    last: SeqNo,
    process: Process,
}

/// A log of ours.
struct Link {
    log: LogId,
    head: SeqNo,
}

impl Updates {
    /// What `logs`, oldest first and kept by `follower`, have behind `since` and up to `last`.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        follower: Arc<Follower>,
        logs: Vec<LogId>,
        since: SeqNo,
        last: SeqNo,
    ) -> Result<Updates> {
        let (mut chain, next) = (VecDeque::<Link>::new(), since.plus(1));
        for log in logs.into_iter().rev() {
            // LevelDB's, or torn at its start: what lies before has no link to what follows.
            let Some(head) = head(&mut *storage.open_log(log, LogKind::Wal)?)? else { break };
            if chain.front().is_none_or(|younger| head < younger.head) {
                chain.push_front(Link { log, head });
            }
            if head <= next {
                break;
            }
        }
        let oldest = chain.front().map_or(last.plus(1), |link| link.head);
        if oldest > next && next <= last {
            return Err(gone(next, oldest));
        }
        Ok(Updates { storage, follower, chain, reader: None, next, last, process: Process::current() })
    }

    fn read(&mut self) -> Result<Option<Update>> {
        if !self.process.is_current() {
            return Err(StorageError::forked(self.storage.name(), self.process).into());
        }
        while self.next <= self.last {
            let end = self.chain.get(1).map(|link| link.head);
            let Some(link) = self.chain.front() else { return Err(gone(self.next, self.last.plus(1))) };
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => {
                    self.follower.reached(link.log);
                    none.insert(self.storage.open_log(link.log, LogKind::Wal)?)
                }
            };
            match reader.next()? {
                LogEvent::Record { offset, bytes } => {
                    let named = |e| StorageError::corrupt(self.storage.place_of(ObjectId::Wal(link.log)), offset, e);
                    let batch = Batch::decode(bytes).map_err(named)?;
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
        self.reader = None;
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

fn gone(wanted: SeqNo, oldest: SeqNo) -> Error {
    Error::SequenceGone { wanted: wanted.0, oldest: oldest.0 }
}
