//! Snapshots: sequence numbers at which readers see the store. Compactions do not drop the entries
//! that a snapshot sees.
use crate::{Error, Result};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::SeqNo;
use terrace_storage::Process;

/// The snapshots of a store.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The sequence numbers of the snapshots, each with the number of snapshots at it. A thread
    /// that holds this lock takes no other lock and does no I/O.
    held: Mutex<BTreeMap<SeqNo, usize>>,
    /// The process that opened the store. A forked child process must not take the lock `held`. If
    /// another thread had the lock at the fork, the child's copy of it stays locked forever.
    process: Process,
}

/// A snapshot of the store. Reads with it see the store as it was when the snapshot was made. A
/// snapshot prevents compactions from dropping shadowed entries and files, so drop it soon. Clones
/// share one snapshot.
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
pub struct Snapshot(Arc<HeldSnapshot>);

#[derive(Debug)]
struct HeldSnapshot {
    seq: SeqNo,
    registry: Arc<Snapshots>,
}

impl Snapshot {
    /// Returns the sequence number of the last write that the snapshot sees.
    pub fn sequence(&self) -> u64 {
        self.0.seq.0
    }

    /// Returns the sequence number of the snapshot, or an error if it belongs to another store.
    /// `registry` has the snapshots of the caller's store.
    pub(crate) fn seq_in(&self, registry: &Arc<Snapshots>) -> Result<SeqNo> {
        if Arc::ptr_eq(&self.0.registry, registry) {
            return Ok(self.0.seq);
        }
        Err(Error::Invalid("the snapshot belongs to another store, or to this store before it was reopened".into()))
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        if !self.registry.process.is_current() {
            return;
        }
        let mut held = self.registry.held.lock();
        let count = held.get_mut(&self.seq).expect("a held snapshot is registered");
        *count -= 1;
        if *count == 0 {
            held.remove(&self.seq);
        }
    }
}

impl Snapshots {
    /// Adds a snapshot at the sequence number that `visible` returns. `visible` is called under the
    /// lock `held`, so every compaction that reads the list later sees the snapshot.
    pub fn hold(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> Snapshot {
        // A forked child process does not take the lock: no read of the child uses a snapshot.
        let mut held = self.process.is_current().then(|| self.held.lock());
        let seq = visible();
        if let Some(held) = &mut held {
            *held.entry(seq).or_default() += 1;
        }
        Snapshot(Arc::new(HeldSnapshot { seq, registry: self.clone() }))
    }

    /// Returns the lowest sequence number that a reader may use. This is the sequence number of the
    /// oldest snapshot. If there is no snapshot, it is the current sequence number, which `visible`
    /// returns.
    pub fn oldest(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let held = self.held.lock();
        held.keys().next().copied().unwrap_or_else(visible)
    }

    /// Returns the sequence numbers of the snapshots in ascending order, and the current sequence
    /// number, which `visible` returns. A snapshot that is made later never has a lower sequence
    /// number than this current one.
    pub fn positions(&self, visible: impl FnOnce() -> SeqNo) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), visible())
    }

    /// Returns the number of snapshots.
    pub fn len(&self) -> usize {
        self.held.lock().values().sum()
    }
}
