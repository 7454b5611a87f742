//! I/O statistics: the number of bytes written, and the syncs. Each write and each sync is counted
//! in exactly one place.
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
    /// Tables of flush jobs, and separated values that flush jobs write.
    Flush,
    /// Tables of compaction jobs.
    Compaction,
    /// Ingested tables, and separated values that are ingested with them.
    Ingest,
    /// Values that value-log GC relocates.
    ValueLogGc,
    /// The manifest.
    Manifest,
    /// `CURRENT`, the format file, and copies that are set aside.
    Other,
}

impl Purpose {
    /// All purposes, in the order of reports.
    pub const ALL: [Purpose; 7] = [
        Purpose::Wal,
        Purpose::Flush,
        Purpose::Compaction,
        Purpose::Ingest,
        Purpose::ValueLogGc,
        Purpose::Manifest,
        Purpose::Other,
    ];

    /// Returns the purpose's name in reports.
    pub fn name(self) -> &'static str {
        ["wal", "flush", "compaction", "ingest", "collection", "manifest", "other"][self as usize]
    }
}

/// The kind of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// A sync of tables, and of value-log segments into which the tables point. The argument is the
    /// purpose of the synced bytes.
    Tables(Purpose),
    /// The manifest.
    Manifest,
    /// A write-ahead log.
    Log,
    /// The entries of a directory.
    Directory,
    /// `CURRENT` or the format file.
    Root,
    /// The journal of the file system. A commit of the journal also makes everything durable that
    /// was written back.
    FileSystem,
}

impl SyncKind {
    /// All kinds except tables, in the order of reports.
    const OTHERS: [SyncKind; 5] =
        [SyncKind::Manifest, SyncKind::Log, SyncKind::Directory, SyncKind::Root, SyncKind::FileSystem];

    /// Returns the kind's name in reports.
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
    /// Bytes that compactions wrote, by the level of the tables.
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

/// A scope in which a writer, a flush job or a compaction job waits for the current thread. Every
/// sync that the thread makes within the scope counts as a blocking sync.
#[must_use]
pub struct BlockingScope(PhantomData<*const ()>); // not `Send`: it counts for this thread

impl BlockingScope {
    /// Opens a scope for the current thread.
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

/// A scope in which the current thread waits for syncs of other threads.
#[must_use]
pub struct SyncWaitScope<'a>(&'a IoStats);

impl Drop for SyncWaitScope<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// The counters of the syncs of one kind, as they were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// The number of syncs.
    pub count: u64,
    /// The number of blocking syncs: syncs that a flush job, a compaction job or a writer made or
    /// waited for. A writer waits for a sync in three cases: it requested the sync, the disk was
    /// full, or the writer was stalled by the limit of unsynced bytes when the sync ended.
    pub blocking: u64,
    /// Bytes that the syncs made durable. The sync of a file counts the bytes written to the file
    /// since its last sync. A journal commit counts the bytes of the files that it makes durable.
    pub bytes: u64,
    /// The total time of the syncs.
    pub time: Duration,
}

impl IoStats {
    /// Counts `bytes` written for `purpose`.
    pub fn wrote(&self, purpose: Purpose, bytes: u64) {
        self.bytes[purpose as usize].fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` written to tables of `level`; see [`wrote`](IoStats::wrote).
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

    /// Starts a scope in which the caller waits for syncs of other threads. Until the result is
    /// dropped, each sync that ends counts as blocking, even if it began earlier.
    pub fn wait_for_syncs(&self) -> SyncWaitScope<'_> {
        self.waiting.fetch_add(1, Relaxed);
        SyncWaitScope(self)
    }

    /// Counts one sync of `kind` that covered `bytes` bytes and took `time`. The sync counts as
    /// blocking if it is made within a [`BlockingScope`], or if another thread
    /// [waits](IoStats::wait_for_syncs) for syncs.
    pub fn synced(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let counter = self.counter(kind);
        let is_awaited = AWAITED.get() > 0 || self.waiting.load(Relaxed) > 0;
        counter.blocking.fetch_add(u64::from(is_awaited), Relaxed);
        counter.count.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
        counter.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Returns the number of bytes written for `purpose` so far.
    pub fn bytes(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Relaxed)
    }

    /// Returns the number of bytes that compactions wrote, by the level of the tables.
    pub fn compacted(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.compacted[level].load(Relaxed))
    }

    /// Returns the counters for syncs of `kind`.
    pub fn syncs(&self, kind: SyncKind) -> Syncs {
        let counter = self.counter(kind);
        Syncs {
            count: counter.count.load(Relaxed),
            blocking: counter.blocking.load(Relaxed),
            bytes: counter.bytes.load(Relaxed),
            time: Duration::from_nanos(counter.nanos.load(Relaxed)),
        }
    }

    /// Returns the counters for syncs of tables, by the purpose of their bytes.
    pub fn table_syncs(&self) -> Vec<(&'static str, Syncs)> {
        Purpose::ALL.iter().map(|purpose| (purpose.name(), self.syncs(SyncKind::Tables(*purpose)))).collect()
    }

    /// Returns the counters for all syncs, by kind.
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
