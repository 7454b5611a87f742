//! Snapshots: read positions that compactions must respect for as long as they are held.
use crate::{Error, Result};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::SeqNo;
use terrace_storage::Process;

/// The positions held.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Guards only itself; no I/O under it.
    held: Mutex<BTreeMap<SeqNo, usize>>,
    /// A forked child has a copy, whose lock may never be released.
    process: Process,
}

/// A read position: reads through it see the store as it was when it was made. Holds back the removal of what it sees;
/// drop it soon. Clones hold the same position.
///
/// ```
/// # use terrace::{Db, Options, ReadOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "old")?;
/// let before = db.snapshot();
/// db.put("key", "new")?;
/// assert_eq!(db.get_with("key", &ReadOptions::new().snapshot(&before))?, Some(b"old".to_vec()));
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    seq: SeqNo,
    book: Arc<Snapshots>,
}

impl Snapshot {
    /// Sequence of the last write it sees.
    pub fn sequence(&self) -> u64 {
        self.0.seq.0
    }

    /// The position, if it is one of the store that keeps `book`.
    pub(crate) fn seq_in(&self, book: &Arc<Snapshots>) -> Result<SeqNo> {
        if Arc::ptr_eq(&self.0.book, book) {
            return Ok(self.0.seq);
        }
        Err(Error::Invalid("the snapshot is of another store, or of an earlier opening of this one".into()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.book.process.is_current() {
            return;
        }
        let mut held = self.book.held.lock();
        let count = held.get_mut(&self.seq).expect("a snapshot is in the book for as long as it lives");
        *count -= 1;
        if *count == 0 {
            held.remove(&self.seq);
        }
    }
}

impl Snapshots {
    /// Holds the position that `visible` tells. Asked under the lock, so that no compaction slips in between.
    pub fn hold(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> Snapshot {
        // In a forked child nothing is read through it.
        let mut held = self.process.is_current().then(|| self.held.lock());
        let seq = visible();
        if let Some(held) = &mut held {
            *held.entry(seq).or_default() += 1;
        }
        Snapshot(Arc::new(Held { seq, book: self.clone() }))
    }

    /// The oldest position that a reader to come may use: the oldest held, or what is visible now.
    pub fn oldest(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let held = self.held.lock();
        held.keys().next().copied().unwrap_or_else(visible)
    }

    /// All positions that readers to come may use: those held, in order, and what is visible now, which later ones follow.
    pub fn positions(&self, visible: impl FnOnce() -> SeqNo) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), visible())
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.held.lock().values().sum()
    }
}
