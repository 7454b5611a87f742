//! The change feed: reads the newest part of the history, that is, the writes that are still in
//! WALs, in the order in which they were written.
//!
//! The first record of a WAL is empty. It states the sequence number at which the WAL begins. A
//! WAL ends at the sequence number at which the next one begins, even if its file has more
//! records. These further records are writes that recovery dropped after a power cut, or that
//! failed because the disk was full. They never became part of the history, and the next WAL
//! reuses their sequence numbers.
//!
//! In the chain of WALs that form the history, the first sequence numbers therefore ascend. A WAL
//! contributes nothing to the history if a later WAL begins at the same or a lower sequence
//! number. The first records are read from the newest WAL backward, until a WAL begins at or
//! before the requested sequence number.
use crate::{Error, Result, WriteBatch, version::obsolete_files::WalFollower};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{LogId, SeqNo, batch::Batch};
use terrace_storage::{
    Error as StorageError, Process,
    placement::{LogEvent, LogKind, LogReader, ObjectId, Storage},
};

/// One record of a WAL: the batches of one write group.
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
    /// The sequence number of the first operation. Each further operation has the next number.
    pub sequence: u64,
    /// The operations. All batches of one write group are in one update, and no batch is split.
    pub batch: WriteBatch,
}

impl Update {
    /// Returns the sequence number of the last operation. Later updates have higher numbers.
    pub fn last_sequence(&self) -> u64 {
        self.sequence + (self.batch.len() as u64).max(1) - 1
    }
}

/// An iterator over the writes that follow a sequence number, up to the last write before the call
/// of [`Db::updates_since`](crate::Db::updates_since), which made the iterator. The iterator ends
/// after its first error.
pub struct Updates {
    storage: Arc<dyn Storage>,
    /// Prevents the deletion of WALs that the iterator has not read yet.
    follower: Arc<WalFollower>,
    /// The WALs that the iterator still has to read, oldest first. Only the first of them is open,
    /// because there may be many.
    chain: VecDeque<WalLink>,
    reader: Option<Box<dyn LogReader>>,
    /// The sequence number of the next operation to return.
    next: SeqNo,
    /// The last sequence number in the store when the iterator was made; zero after an error.
    last: SeqNo,
    process: Process,
}

/// A WAL of the chain that the iterator reads. Terrace wrote the WAL, so its first sequence number
/// is known.
struct WalLink {
    log: LogId,
    first_sequence: SeqNo,
}

impl Updates {
    /// Opens the writes with sequence numbers above `since` and up to `last`. `logs` are the WALs,
    /// oldest first. `follower` prevents the deletion of these WALs.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        follower: Arc<WalFollower>,
        logs: Vec<LogId>,
        since: SeqNo,
        last: SeqNo,
    ) -> Result<Updates> {
        let (mut chain, next) = (VecDeque::<WalLink>::new(), since.plus(1));
        for log in logs.into_iter().rev() {
            // The first record of this WAL does not state where the WAL begins, because LevelDB
            // wrote the WAL or the record is torn. Nothing shows whether an earlier WAL ends where
            // this WAL begins, so the chain of readable WALs begins after this WAL.
            let Some(first_sequence) = first_sequence(&mut *storage.open_log(log, LogKind::Wal)?)? else { break };
            if chain.front().is_none_or(|younger| first_sequence < younger.first_sequence) {
                chain.push_front(WalLink { log, first_sequence });
            }
            if first_sequence <= next {
                break;
            }
        }
        let oldest = chain.front().map_or(last.plus(1), |link| link.first_sequence);
        if oldest > next && next <= last {
            return Err(sequence_gone(next, oldest));
        }
        Ok(Updates { storage, follower, chain, reader: None, next, last, process: Process::current() })
    }

    fn read(&mut self) -> Result<Option<Update>> {
        if !self.process.is_current() {
            return Err(StorageError::forked(self.storage.name(), self.process).into());
        }
        while self.next <= self.last {
            let end = self.chain.get(1).map(|link| link.first_sequence);
            let Some(link) = self.chain.front() else { return Err(sequence_gone(self.next, self.last.plus(1))) };
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

    /// Closes the first WAL of the chain, because it has been read to its end. Returns an error if
    /// writes are missing: the next WAL begins after the sequence number that must be returned
    /// next.
    fn leave(&mut self) -> Result<()> {
        self.reader = None;
        self.chain.pop_front();
        match self.chain.front() {
            Some(link) if link.first_sequence <= self.next => Ok(()),
            Some(link) => Err(sequence_gone(self.next, link.first_sequence)),
            None => Err(sequence_gone(self.next, self.last.plus(1))),
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

/// Returns the sequence number at which a WAL begins. Returns `None` if its first record does not
/// state this number, as in a WAL of LevelDB.
fn first_sequence(reader: &mut dyn LogReader) -> Result<Option<SeqNo>> {
    let LogEvent::Record { bytes, .. } = reader.next()? else { return Ok(None) };
    let first_sequence = reader.ours().then(|| Batch::decode(bytes)).and_then(|batch| batch.ok());
    Ok(first_sequence.filter(Batch::is_empty).map(|batch| batch.sequence()))
}

fn sequence_gone(wanted: SeqNo, oldest: SeqNo) -> Error {
    Error::SequenceGone { wanted: wanted.0, oldest: oldest.0 }
}
