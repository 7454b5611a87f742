//! What was written and synced, counted at the one place where it happens.
use std::{
    cell::Cell,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use terrace_format::LEVELS;

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
    ValueLogGc,
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
        Purpose::ValueLogGc,
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
    /// Bytes of tables, and of values that they point to, by what these were written for.
    Tables(Purpose),
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
    /// Every kind but tables, in the order of reports.
    const OTHERS: [SyncKind; 5] =
        [SyncKind::Manifest, SyncKind::Log, SyncKind::Directory, SyncKind::Root, SyncKind::FileSystem];

    /// As reports spell it.
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

/// Counters of one store. Cheap to bump from any thread.
#[derive(Debug, Default)]
pub struct IoStats {
    bytes: [AtomicU64; Purpose::ALL.len()],
    /// Of those of compactions, for tables of each level.
    compacted: [AtomicU64; LEVELS],
    tables: [SyncCounter; Purpose::ALL.len()],
    others: [SyncCounter; SyncKind::OTHERS.len()],
    /// How many wait for what other threads make durable.
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
    /// Reasons for which somebody waits for this thread.
    static AWAITED: Cell<u32> = const { Cell::new(0) };
}

/// As long as it lives, a writer, a flush or a compaction waits for what this thread does: each of its syncs is a blocking one,
/// whatever code makes it.
#[must_use]
pub struct BlockingScope(PhantomData<*const ()>); // of this thread

impl BlockingScope {
    /// From now on.
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

/// As long as it lives, somebody waits for what other threads make durable.
#[must_use]
pub struct AwaitsOthers<'a>(&'a IoStats);

impl Drop for AwaitsOthers<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// Syncs of one kind, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// How many calls.
    pub count: u64,
    /// How many of them a flush or a compaction waited for or made itself, or a write: one that asked for it, one that found the disk full,
    /// or those that too much of what waits for durability has stopped by when the sync ends.
    pub blocking: u64,
    /// Bytes that they made durable: those written to the synced files since their last sync or, where the file system's journal is
    /// made to commit, those of the files that this saves.
    pub bytes: u64,
    /// Time spent waiting for them.
    pub time: Duration,
}

impl IoStats {
    /// `bytes` were handed to storage for `purpose`.
    pub fn wrote(&self, purpose: Purpose, bytes: u64) {
        self.bytes[purpose as usize].fetch_add(bytes, Relaxed);
    }

    /// As [`wrote`](IoStats::wrote), for tables that are to be in `level`.
    pub fn wrote_tables(&self, purpose: Purpose, level: usize, bytes: u64) {
        self.wrote(purpose, bytes);
        if purpose == Purpose::Compaction {
            self.compacted[level].fetch_add(bytes, Relaxed);
        }
    }

    /// As [`synced`](IoStats::synced), for which a write, a flush or a compaction had to wait.
    pub fn blocked(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let _awaited = BlockingScope::new();
        self.synced(kind, bytes, time);
    }

    /// Until it is dropped, somebody waits for what other threads make durable: each sync that ends meanwhile is a blocking one, whenever it
    /// began.
    pub fn await_others(&self) -> AwaitsOthers<'_> {
        self.waiting.fetch_add(1, Relaxed);
        AwaitsOthers(self)
    }

    /// One sync of `kind` covered `bytes` and took `time`. It is a blocking one if this thread is [`BlockingScope`], or if somebody
    /// [waits](IoStats::await_others) for what others do.
    pub fn synced(&self, kind: SyncKind, bytes: u64, time: Duration) {
        let counter = self.counter(kind);
        let is_awaited = AWAITED.get() > 0 || self.waiting.load(Relaxed) > 0;
        counter.blocking.fetch_add(u64::from(is_awaited), Relaxed);
        counter.count.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
        counter.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Bytes handed to storage for `purpose` so far.
    pub fn bytes(&self, purpose: Purpose) -> u64 {
        self.bytes[purpose as usize].load(Relaxed)
    }

    /// Of the bytes for compactions, those for tables of each level.
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

    /// Syncs of tables, by what these were written for.
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
    fn a_sync_that_somebody_waits_for_is_a_blocking_one_whenever_it_began() {
        let traffic = IoStats::default();
        let sync =
            || std::thread::scope(|scope| scope.spawn(|| traffic.synced(SyncKind::Manifest, 1, Duration::ZERO)).join());
        let counted = || traffic.syncs(SyncKind::Manifest).blocking;
        sync().unwrap();
        let (one, other) = (traffic.await_others(), traffic.await_others());
        assert_eq!(counted(), 0);
        sync().unwrap();
        drop(one);
        sync().unwrap();
        drop(other);
        sync().unwrap();
        assert_eq!((counted(), traffic.syncs(SyncKind::Manifest).count), (2, 4));
    }
}
