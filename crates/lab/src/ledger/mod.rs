//! What was written, synced and used, at each layer below the user? Counted by the kernel, from outside the engine.
//!
//! | module | layer | source |
//! |---|---|---|
//! | `process` | process | `/proc/self/io`, `getrusage`, `/proc/self/task` |
//! | `memory` | process | `/proc/self/status`, the peak reset before each window |
//! | `block` | device | `/sys/class/block/X/stat`, ext4's session counter, the journal's transactions |
//! | `syncs` | file system | ext4's tracepoints in a tracefs instance of our own |
//! | `settle` | all | when is background work over? |
//!
//! A [`Ledger`] counts this process, so each cell is a process of its own. Two [`Reading`]s make a [`LedgerDelta`].
//! What cannot be counted is `None` and a note says why. The ledger's own threads are left out of every figure.
mod block;
mod memory;
mod names;
mod own;
pub(crate) mod process;
mod settle;
mod syncs;
mod tracefs;

pub use memory::{PeakMemory, Peaks};
pub use settle::{Settled, settle};
pub use tracefs::remove_stale;

use crate::target::SyncCount;
use block::{BlockCounters, BlockDevice};
use process::{Cpu, Io};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use syncs::{SyncReading, Syncs};

/// Counters of this process, of the device under its store, and of the syncs it asks for.
pub struct Ledger {
    dir: PathBuf,
    device: Option<BlockDevice>,
    syncs: Option<Syncs>,
    notes: Vec<String>,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    io: Option<Io>,
    cpu: Cpu,
    block: Option<BlockCounters>,
    syncs: Option<SyncReading>,
    notes: Vec<String>,
}

/// What happened between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerDelta {
    /// Bytes this process dirtied and the kernel expects to write, minus what was cancelled (deleted, truncated) first.
    pub process_write_bytes: Option<u64>,
    /// Bytes fetched from storage for this process; answers of the page cache are free.
    pub process_read_bytes: Option<u64>,
    /// Bytes that reached the block device, by whoever.
    pub device_write_bytes: Option<u64>,
    /// Bytes read from the block device, by whoever.
    pub device_read_bytes: Option<u64>,
    /// Cache flushes that the device was told to do.
    pub device_flushes: Option<u64>,
    /// Transactions that the file system's journal committed.
    pub journal_commits: Option<u64>,
    /// Bytes written to the device since it was mounted, as ext4 counts them; rounded down to KiB at both ends.
    pub fs_session_write: Option<u64>,
    /// Finished syncs of this process by kind (`tables manifest log value_log root directory filesystem other`, and
    /// `unknown` for a file that was gone before its name was looked up). `blocking` is all of them: each makes the
    /// thread that calls it wait; who waits for that thread cannot be seen from outside.
    pub syncs_outside: Option<BTreeMap<String, SyncCount>>,
    /// Seconds of processor time in the process.
    pub cpu_user: f64,
    /// Seconds of processor time in the kernel for it.
    pub cpu_system: f64,
    /// Why a figure is missing, or what to know about one.
    pub notes: Vec<String>,
}

impl Ledger {
    /// Begins to count this process, whose store lies in `dir` (which must exist) on block device `device`.
    ///
    /// Without `device`, what devices count stays `None`: give it only if nobody else writes to that device. Threads
    /// that exist now or are started later are covered, so call this before the engine opens.
    pub fn open(dir: &Path, device: Option<&Path>) -> Ledger {
        let mut notes = Vec::new();
        let device = device.and_then(|node| BlockDevice::open(node).map_err(|why| notes.push(why)).ok());
        let syncs = Syncs::start(dir).map_err(|why| notes.push(format!("syncs are not counted from outside: {why}")));
        Ledger { dir: dir.to_owned(), device, syncs: syncs.ok(), notes }
    }

    /// All counters, now. Takes some ten microseconds.
    pub fn mark(&self) -> Reading {
        let mut notes = self.notes.clone();
        Reading {
            io: process::io(),
            cpu: process::cpu(),
            block: self.device.as_ref().and_then(|device| device.read().map_err(|why| notes.push(why)).ok()),
            syncs: self.syncs.as_ref().and_then(|syncs| syncs.read().map_err(|why| notes.push(why)).ok()),
            notes,
        }
    }
}

impl Reading {
    /// What happened since `earlier`, a reading of the same ledger.
    pub fn since(&self, earlier: &Reading) -> LedgerDelta {
        let mut delta = LedgerDelta {
            cpu_user: (self.cpu.user - earlier.cpu.user).max(0.0),
            cpu_system: (self.cpu.system - earlier.cpu.system).max(0.0),
            notes: self.notes.clone(),
            ..LedgerDelta::default()
        };
        match (&self.io, &earlier.io) {
            (Some(now), Some(then)) => delta.add_io(now, then),
            _ => delta.notes.push("/proc/self/io cannot be read: bytes of the process are not counted".into()),
        }
        if let (Some(now), Some(then)) = (&self.block, &earlier.block) {
            delta.add_block(now, then);
        }
        if let (Some(now), Some(then)) = (&self.syncs, &earlier.syncs) {
            delta.syncs_outside = Some(now.since(then, &mut delta.notes));
        }
        delta
    }
}

impl LedgerDelta {
    fn add_io(&mut self, now: &Io, then: &Io) {
        self.process_read_bytes = Some(now.read_bytes.saturating_sub(then.read_bytes));
        let written = now.write_bytes.saturating_sub(then.write_bytes);
        let cancelled = now.cancelled_write_bytes.saturating_sub(then.cancelled_write_bytes);
        if cancelled > written {
            self.notes
                .push(format!("{} B more were cancelled than written: bytes of earlier work", cancelled - written));
        }
        self.process_write_bytes = Some(written.saturating_sub(cancelled));
    }

    fn add_block(&mut self, now: &BlockCounters, then: &BlockCounters) {
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        self.device_write_bytes = Some(now.write_bytes.saturating_sub(then.write_bytes));
        self.device_read_bytes = Some(now.read_bytes.saturating_sub(then.read_bytes));
        self.device_flushes = both(now.flushes, then.flushes);
        self.journal_commits = both(now.journal_commits, then.journal_commits);
        self.fs_session_write = both(now.session_write_bytes, then.session_write_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(write_bytes: u64, cancelled_write_bytes: u64, device: u64) -> Reading {
        Reading {
            io: Some(Io { write_bytes, cancelled_write_bytes, ..Io::default() }),
            cpu: Cpu::default(),
            block: Some(BlockCounters { write_bytes: device, flushes: Some(device / 10), ..BlockCounters::default() }),
            syncs: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_delta_is_the_difference_and_missing_stays_missing() {
        let delta = reading(900, 100, 50).since(&reading(100, 50, 20));
        assert_eq!(delta.process_write_bytes, Some(750));
        assert_eq!((delta.device_write_bytes, delta.device_flushes), (Some(30), Some(3)));
        assert_eq!((delta.journal_commits, delta.syncs_outside), (None, None));
    }

    #[test]
    fn cancelling_earlier_bytes_is_told_and_never_negative() {
        let delta = reading(110, 100, 0).since(&reading(100, 50, 0));
        assert_eq!(delta.process_write_bytes, Some(0));
        assert!(delta.notes[0].contains("40 B more"), "{:?}", delta.notes);
    }
}
