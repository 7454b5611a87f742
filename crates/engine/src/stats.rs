//! Statistics: counters that any thread increments, and the values that callers read.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use terrace_format::{LEVELS, Layout};
use terrace_storage::{IoStats, Purpose, Syncs};

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct Counters {
    flushes: Work,
    compactions: [Work; LEVELS],
    stall_nanos: AtomicU64,
    stalls: AtomicU64,
    failed_deletions: AtomicU64,
    relocated: AtomicU64,
    given_up: AtomicU64,
}

#[derive(Debug, Default)]
struct Work {
    count: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    nanos: AtomicU64,
}

impl Work {
    fn done(&self, read: u64, written: u64, time: Duration) {
        self.count.fetch_add(1, Relaxed);
        self.read.fetch_add(read, Relaxed);
        self.written.fetch_add(written, Relaxed);
        self.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    fn snapshot(&self) -> WorkStatistics {
        WorkStatistics {
            count: self.count.load(Relaxed),
            bytes_read: self.read.load(Relaxed),
            bytes_written: self.written.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
        }
    }
}

impl Counters {
    /// Counts a flush that wrote an SSTable of `bytes`.
    pub fn flushed(&self, bytes: u64, time: Duration) {
        self.flushes.done(0, bytes, time);
    }

    /// Counts a compaction into `level`.
    pub fn compacted(&self, level: usize, read: u64, written: u64, time: Duration) {
        self.compactions[level].done(read, written, time);
    }

    /// Counts a write stall of `time`.
    pub fn stalled(&self, time: Duration) {
        self.stalls.fetch_add(1, Relaxed);
        self.stall_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Counts `bytes` of batches that tail GC re-appended.
    pub fn relocated(&self, bytes: u64) {
        self.relocated.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes that tail GC has re-appended.
    pub fn relocated_bytes(&self) -> u64 {
        self.relocated.load(Relaxed)
    }

    /// Counts SSTables that were compacted before their sync had started.
    pub fn given_up(&self, tables: usize) {
        self.given_up.fetch_add(tables as u64, Relaxed);
    }

    /// Counts an obsolete file that could not be deleted.
    pub fn deletion_failed(&self) {
        self.failed_deletions.fetch_add(1, Relaxed);
    }
}

/// Flushes, or compactions into one level, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkStatistics {
    /// Number of completed jobs.
    pub count: u64,
    /// Bytes of their inputs.
    pub bytes_read: u64,
    /// Bytes of their outputs.
    pub bytes_written: u64,
    /// Sum of their durations.
    pub time: Duration,
}

/// The current state of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// Number of SSTables.
    pub tables: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Compactions into this level.
    pub compactions: WorkStatistics,
    /// Bytes that compactions wrote to storage for this level. `compactions.bytes_written` is the
    /// size of the installed SSTables; this also counts outputs of failed compactions, and does not
    /// count linked files. The sum over all levels is `compaction` in
    /// [`bytes_written`](Statistics::bytes_written).
    pub compacted_bytes: u64,
}

/// Current memory use in bytes, as counted by [`memory_budget`](crate::Options::memory_budget).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Memtables, including flushed ones that a reader has pinned, and up to 64 MiB of freed pages
    /// that are kept for the next memtable for a few seconds.
    pub memtables: u64,
    /// Indexes and filters of open SSTables.
    pub tails: u64,
    /// Readahead of iterators, and up to 4 MiB that is kept for the next one.
    pub cursors: u64,
    /// The block cache.
    pub blocks: u64,
    /// The limit on the sum, if there is one.
    pub limit: Option<u64>,
}

impl MemoryStatistics {
    /// Returns the sum.
    pub fn sum(&self) -> u64 {
        self.memtables + self.tails + self.cursors + self.blocks
    }
}

/// The current state of the value log; zeros in a store without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueLogStatistics {
    /// Number of segments that SSTables point into.
    pub segments: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Bytes that SSTables point to. The rest is garbage, including headers and small pairs, which
    /// no SSTable ever points to.
    pub live_bytes: u64,
    /// Number of quarantined segments, which garbage collection leaves alone because a part of them
    /// cannot be read. `terrace check --deep` lists the damage.
    pub spared: u64,
    /// Bytes that tail GC has re-appended since the store was opened, also counted as WAL writes.
    /// Bytes that mode `segments` has relocated are counted under purpose `collection`.
    pub relocated_bytes: u64,
}

/// The current state of a store, and its work since it was opened.
///
/// ```
/// # use terrace::{Db, Options};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let statistics = db.statistics();
/// assert_eq!((statistics.last_sequence, statistics.flushes.count), (1, 1));
/// for (purpose, bytes) in &statistics.bytes_written {
///     println!("{purpose}: {bytes} bytes");
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The directory or device of the store, or the name of the storage that replaces it.
    pub place: String,
    /// The layout of the store.
    pub layout: Layout,
    /// The durability mode in effect; `none` promises nothing at a power cut.
    pub durability: &'static str,
    /// The preset that the options started from.
    pub preset: &'static str,
    /// Sequence number of the newest visible write.
    pub last_sequence: u64,
    /// Durable watermark: every write up to this sequence number survives a power cut.
    pub durable_sequence: u64,
    /// The levels, starting with level 0.
    pub levels: Vec<LevelStatistics>,
    /// Flushes.
    pub flushes: WorkStatistics,
    /// The value log.
    pub value_log: ValueLogStatistics,
    /// Free bytes of the file system, or of the device; `None` if unknown.
    pub free_bytes: Option<u64>,
    /// Bytes of memtables as LevelDB's arena counts them, plus their range tombstones.
    pub memtable_bytes: u64,
    /// Memory use by purpose.
    pub memory: MemoryStatistics,
    /// Number of immutable memtables.
    pub sealed_memtables: u64,
    /// Number of live snapshots.
    pub snapshots: u64,
    /// Number of version edits that are not committed to the manifest yet.
    pub pending_edits: u64,
    /// Bytes of WALs that are retained because their SSTables are not known to be durable.
    pub retained_wal_bytes: u64,
    /// Bytes of obsolete SSTables and segments that are retained because their replacement is not
    /// known to be durable.
    pub shadow_bytes: u64,
    /// Number of SSTables that were compacted before their sync had started, and were never synced.
    pub tables_never_synced: u64,
    /// Number of obsolete files that are not deleted yet: their replacement is not durable, or a
    /// reader has pinned them.
    pub pending_deletions: u64,
    /// Number of obsolete files that could not be deleted; the next open deletes them.
    pub failed_deletions: u64,
    /// Number of WALs in which this open found bytes that are no part of the history; see `lost/`.
    pub torn_wals: u64,
    /// Number of files in `lost/` at open: copies of damaged WALs.
    pub lost_files: u64,
    /// Whether an earlier open in durability mode `none` left SSTables that may not survive a power
    /// cut.
    pub unsynced: bool,
    /// Number of write stalls, however short; with `delayed_writes` about 20 µs each. See
    /// `stall_time`.
    pub stalls: u64,
    /// Sum of the durations of write stalls.
    pub stall_time: Duration,
    /// Bytes written by purpose.
    pub bytes_written: Vec<(&'static str, u64)>,
    /// Syncs by kind of file.
    pub syncs: Vec<(&'static str, Syncs)>,
    /// Syncs of SSTables by the purpose of the write. A batch sync of many SSTables is counted in
    /// `syncs`, as `filesystem`.
    pub table_syncs: Vec<(&'static str, Syncs)>,
}

impl Statistics {
    /// Fills in the counters of the engine and of storage.
    pub(crate) fn counted(mut self, counters: &Counters, io: &IoStats) -> Statistics {
        for ((level, work), bytes) in self.levels.iter_mut().zip(&counters.compactions).zip(io.compacted()) {
            level.compactions = work.snapshot();
            level.compacted_bytes = bytes;
        }
        self.flushes = counters.flushes.snapshot();
        self.stalls = counters.stalls.load(Relaxed);
        self.stall_time = Duration::from_nanos(counters.stall_nanos.load(Relaxed));
        self.failed_deletions = counters.failed_deletions.load(Relaxed);
        self.tables_never_synced = counters.given_up.load(Relaxed);
        self.value_log.relocated_bytes = counters.relocated.load(Relaxed);
        self.bytes_written = Purpose::ALL.iter().map(|p| (p.name(), io.bytes(*p))).collect();
        self.syncs = io.all_syncs();
        self.table_syncs = io.table_syncs();
        self
    }
}
