//! What was written and synced, counted at the one place where it happens.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// What written bytes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Write-ahead log.
    Wal,
    /// Tables made from memtables, and values that they bring with them.
    Flush,
    /// Tables made from tables.
    Compaction,
    /// Tables brought from elsewhere, and values that they bring with them.
    Ingest,
    /// Values moved out of segments that are mostly garbage.
    Collection,
    /// Manifest.
    Manifest,
    /// Root, marker, copies set aside.
    Other,
}

impl Purpose {
    /// Every purpose, in the order of reports.
    pub const ALL: [Purpose; 7] = [
        Purpose::Wal,
        Purpose::Flush,
        Purpose::Compaction,
        Purpose::Ingest,
        Purpose::Collection,
        Purpose::Manifest,
        Purpose::Other,
    ];

    /// As reports spell it.
    pub fn name(self) -> &'static str {
        ["wal", "flush", "compaction", "ingest", "collection", "manifest", "other"][self as usize]
    }
}

/// What a sync was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// A table's bytes.
    Tables,
    /// The manifest.
    Manifest,
    /// A write-ahead log.
    Log,
    /// A directory's entries.
    Directory,
    /// The root or the marker.
    Root,
    /// The file system's journal, and with it whatever was written back.
    FileSystem,
}

impl SyncKind {
    /// Every kind, in the order of reports.
    pub const ALL: [SyncKind; 6] = [
        SyncKind::Tables,
        SyncKind::Manifest,
        SyncKind::Log,
        SyncKind::Directory,
        SyncKind::Root,
        SyncKind::FileSystem,
    ];

    /// As reports spell it.
    pub fn name(self) -> &'static str {
        ["tables", "manifest", "log", "directory", "root", "filesystem"][self as usize]
    }
}

/// Counters of one store. Cheap to bump from any thread.
#[derive(Debug, Default)]
pub struct Traffic {
    bytes: [AtomicU64; Purpose::ALL.len()],
    syncs: [SyncCounter; SyncKind::ALL.len()],
}

#[derive(Debug, Default)]
struct SyncCounter {
    count: AtomicU64,
    blocking: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// Syncs of one kind, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// How many calls.
    pub count: u64,
    /// How many of them a flush or a compaction waited for, or held up writers, as the sync of a log does even if the store
    /// is idle and nobody writes.
    pub blocking: u64,
    /// Bytes written to the synced files since their last sync.
    pub bytes: u64,
    /// Time spent waiting for them.
    pub time: Duration,
}

impl Traffic {
    /// `bytes` were handed to storage for `purpose`.
    pub fn wrote(&self, purpose: Purpose, bytes: u64) {
        self.bytes[purpose as usize].fetch_add(bytes, Relaxed);
    }

    /// As [`synced`](Traffic::synced), for which a write, a flush or a compaction had to wait.
    pub fn blocked(&self, kind: SyncKind, bytes: u64, time: Duration) {
        self.syncs[kind as usize].blocking.fetch_add(1, Relaxed);
        self.synced(kind, bytes, time);
    }

    /// One sync of `kind` covered `bytes` and took `time`.
    pub fn synced(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let counter = &self.syncs[kind as usize];
        counter.count.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
        counter.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Bytes handed to storage for `purpose` so far.
    pub fn bytes(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Relaxed)
    }

    /// Syncs of `kind` so far.
    pub fn syncs(&self, kind: SyncKind) -> Syncs {
        let counter = &self.syncs[kind as usize];
        Syncs {
            count: counter.count.load(Relaxed),
            blocking: counter.blocking.load(Relaxed),
            bytes: counter.bytes.load(Relaxed),
            time: Duration::from_nanos(counter.nanos.load(Relaxed)),
        }
    }
}
