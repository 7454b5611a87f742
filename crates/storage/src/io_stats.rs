//! I/O statistics: bytes written and syncs, counted at the one place where they happen.
use std::{
    cell::Cell,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use terrace_format::LEVELS;

/// The purpose of written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The write-ahead log.
    Wal,
    /// Tables of flush jobs, and values that they write.
    Flush,
    /// Tables of compaction jobs.
    Compaction,
    /// Ingested tables, and values that they bring with them.
    Ingest,
    /// Values that value-log GC relocates.
    ValueLogGc,
    /// The manifest.
    Manifest,
    /// `CURRENT`, the format file, copies set aside.
    Other,
}

impl Purpose {
    /// Every purpose, in the order of reports.
    pub const ALL: [Purpose; 7] = [
        Purpose::Wal,
        Purpose::Flush,
        Purpose::Compaction,
        Purpose::Ingest,
        Purpose::ValueLogGc,
        Purpose::Manifest,
        Purpose::Other,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        ["wal", "flush", "compaction", "ingest", "collection", "manifest", "other"][self as usize]
    }
}

/// The purpose of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// Tables, and value-log segments that they point into, by the purpose of their bytes.
    Tables(Purpose),
    /// The manifest.
    Manifest,
    /// A write-ahead log.
    Log,
    /// The entries of a directory.
    Directory,
    /// `CURRENT` or the format file.
    Root,
    /// The journal of the file system, and with it everything written back.
    FileSystem,
}

impl SyncKind {
    /// Every kind but tables, in the order of reports.
    const OTHERS: [SyncKind; 5] =
        [SyncKind::Manifest, SyncKind::Log, SyncKind::Directory, SyncKind::Root, SyncKind::FileSystem];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Tables(_) => "tables",
            SyncKind::Manifest => "manifest",
            SyncKind::Log => "log",
            SyncKind::Directory => "directory",
            SyncKind::Root => "root",
            SyncKind::FileSystem => "filesystem",
        }
    }
}

/// The counters of one store. Cheap to increment from any thread.
#[derive(Debug, Default)]
pub struct IoStats {
    bytes: [AtomicU64; Purpose::ALL.len()],
    /// Of the bytes of compactions, those of the tables of each level.
    compacted: [AtomicU64; LEVELS],
    tables: [SyncCounter; Purpose::ALL.len()],
    others: [SyncCounter; SyncKind::OTHERS.len()],
    /// The number of threads that wait for syncs of other threads.
    waiting: AtomicU64,
}

#[derive(Debug, Default)]
struct SyncCounter {
    count: AtomicU64,
    blocking: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

thread_local! {
    /// The number of open [`BlockingScope`]s of this thread.
    static AWAITED: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, a writer, a flush job or a compaction job waits for this thread: all its syncs
/// count as blocking.
#[must_use]
pub struct BlockingScope(PhantomData<*const ()>); // not `Send`: it counts for this thread

impl BlockingScope {
    /// Opens a scope of this thread.
    #[expect(clippy::new_without_default, reason = "it is not a value but a span of time")]
    pub fn new() -> BlockingScope {
        AWAITED.set(AWAITED.get() + 1);
        BlockingScope(PhantomData)
    }
}

impl Drop for BlockingScope {
    fn drop(&mut self) {
        AWAITED.set(AWAITED.get() - 1);
    }
}

/// While it lives, its thread waits for syncs of other threads.
#[must_use]
pub struct SyncWaitScope<'a>(&'a IoStats);

impl Drop for SyncWaitScope<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// Syncs of one kind, up to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// The number of calls.
    pub count: u64,
    /// The number of blocking calls: those that a flush job, a compaction job or a write made or
    /// waited for. Such a write asked for a sync, met a full disk, or was stalled by the limit of
    /// unsynced bytes when the sync ended.
    pub blocking: u64,
    /// Bytes that they made durable: those written to the synced files since their last sync or,
    /// for a journal commit, those of the files that it saves.
    pub bytes: u64,
    /// The total time of the calls.
    pub time: Duration,
}

impl IoStats {
    /// Counts `bytes` written for `purpose`.
    pub fn wrote(&self, purpose: Purpose, bytes: u64) {
        self.bytes[purpose as usize].fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of tables for `level`; see [`wrote`](IoStats::wrote).
    pub fn wrote_tables(&self, purpose: Purpose, level: usize, bytes: u64) {
        self.wrote(purpose, bytes);
        if purpose == Purpose::Compaction {
            self.compacted[level].fetch_add(bytes, Relaxed);
        }
    }

    /// Counts a blocking sync; see [`synced`](IoStats::synced).
    pub fn blocked(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let _awaited = BlockingScope::new();
        self.synced(kind, bytes, time);
    }

    /// Until the result is dropped, the caller waits for syncs of other threads: each sync that
    /// ends meanwhile counts as blocking, whenever it began.
    pub fn wait_for_syncs(&self) -> SyncWaitScope<'_> {
        self.waiting.fetch_add(1, Relaxed);
        SyncWaitScope(self)
    }

    /// Counts one sync of `kind` that covered `bytes` and took `time`. It is blocking within a
    /// [`BlockingScope`], and while another thread [waits](IoStats::wait_for_syncs).
    pub fn synced(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let counter = self.counter(kind);
        let is_awaited = AWAITED.get() > 0 || self.waiting.load(Relaxed) > 0;
        counter.blocking.fetch_add(u64::from(is_awaited), Relaxed);
        counter.count.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
        counter.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Bytes written for `purpose` so far.
    pub fn bytes(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Relaxed)
    }

    /// Bytes of compactions by the level of the tables.
    pub fn compacted(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.compacted[level].load(Relaxed))
    }

    /// Syncs of `kind` so far.
    pub fn syncs(&self, kind: SyncKind) -> Syncs {
        let counter = self.counter(kind);
        Syncs {
            count: counter.count.load(Relaxed),
            blocking: counter.blocking.load(Relaxed),
            bytes: counter.bytes.load(Relaxed),
            time: Duration::from_nanos(counter.nanos.load(Relaxed)),
        }
    }

    /// Syncs of tables, by the purpose of their bytes.
    pub fn table_syncs(&self) -> Vec<(&'static str, Syncs)> {
        Purpose::ALL.iter().map(|purpose| (purpose.name(), self.syncs(SyncKind::Tables(*purpose)))).collect()
    }

    /// All syncs, by kind.
    pub fn all_syncs(&self) -> Vec<(&'static str, Syncs)> {
        let tables = self.table_syncs().into_iter().fold(Syncs::default(), |sum, (_, syncs)| sum.and(syncs));
        let others = SyncKind::OTHERS.iter().map(|kind| (kind.name(), self.syncs(*kind)));
        std::iter::once(("tables", tables)).chain(others).collect()
    }

    fn counter(&self, kind: SyncKind) -> &SyncCounter {
        match kind {
            SyncKind::Tables(purpose) => &self.tables[purpose as usize],
            SyncKind::Manifest => &self.others[0],
            SyncKind::Log => &self.others[1],
            SyncKind::Directory => &self.others[2],
            SyncKind::Root => &self.others[3],
            SyncKind::FileSystem => &self.others[4],
        }
    }
}

impl Syncs {
    fn and(self, more: Syncs) -> Syncs {
        Syncs {
            count: self.count + more.count,
            blocking: self.blocking + more.blocking,
            bytes: self.bytes + more.bytes,
            time: self.time + more.time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_with_a_waiting_thread_is_blocking_whenever_it_began() {
        let io_stats = IoStats::default();
        let sync = || {
            std::thread::scope(|scope| scope.spawn(|| io_stats.synced(SyncKind::Manifest, 1, Duration::ZERO)).join())
        };
        let counted = || io_stats.syncs(SyncKind::Manifest).blocking;
        sync().unwrap();
        let (one, other) = (io_stats.wait_for_syncs(), io_stats.wait_for_syncs());
        assert_eq!(counted(), 0);
        sync().unwrap();
        drop(one);
        sync().unwrap();
        drop(other);
        sync().unwrap();
        assert_eq!((counted(), io_stats.syncs(SyncKind::Manifest).count), (2, 4));
    }
}
