//! Statistics of a store: the counters that its threads increment, and the values that callers
//! read.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use terrace_format::{LEVELS, Layout};
use terrace_storage::{IoStats, Purpose, SAMPLE_EVERY, Syncs};

/// The counters of a store. They are zero when the store is opened.
#[derive(Debug, Default)]
pub struct Counters {
    flushes: Work,
    compactions: [Work; LEVELS],
    /// By [`StallCause`].
    stall_nanos: [AtomicU64; StallCause::ALL.len()],
    stalls: AtomicU64,
    lookups: AtomicU64,
    searched_tables: AtomicU64,
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
    /// Counts a flush that wrote an SSTable of `bytes` bytes in `time`.
    pub fn flushed(&self, bytes: u64, time: Duration) {
        self.flushes.done(0, bytes, time);
    }

    /// Counts a compaction into `level` that read `read` bytes and wrote `written` bytes in `time`.
    pub fn compacted(&self, level: usize, read: u64, written: u64, time: Duration) {
        self.compactions[level].done(read, written, time);
    }

    /// Counts a write stall with its durations by [`StallCause`].
    pub fn stalled(&self, times: &[Duration; StallCause::ALL.len()]) {
        self.stalls.fetch_add(1, Relaxed);
        for (counter, time) in self.stall_nanos.iter().zip(times) {
            counter.fetch_add(time.as_nanos() as u64, Relaxed);
        }
    }

    /// Counts a sample of point lookups, which searched `tables` SSTables.
    pub fn looked_up(&self, tables: u64) {
        self.lookups.fetch_add(SAMPLE_EVERY.into(), Relaxed);
        self.searched_tables.fetch_add(tables * u64::from(SAMPLE_EVERY), Relaxed);
    }

    /// Counts `bytes` bytes of batches that tail GC re-appended.
    pub fn relocated(&self, bytes: u64) {
        self.relocated.fetch_add(bytes, Relaxed);
    }

    /// Returns the number of bytes that tail GC has re-appended.
    pub fn relocated_bytes(&self) -> u64 {
        self.relocated.load(Relaxed)
    }

    /// Counts `tables` SSTables that a compaction replaced before their sync had started.
    pub fn given_up(&self, tables: usize) {
        self.given_up.fetch_add(tables as u64, Relaxed);
    }

    /// Counts an obsolete file that could not be deleted.
    pub fn deletion_failed(&self) {
        self.failed_deletions.fetch_add(1, Relaxed);
    }
}

/// The part of the background work that a stalled write waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StallCause {
    /// Immutable memtables wait for their flush.
    #[default]
    Memtables,
    /// Level 0 has many sorted runs.
    Level0,
    /// Levels are larger than their target sizes.
    CompactionDebt,
    /// Obsolete files are kept until the files that replace them are durable.
    Durability,
}

impl StallCause {
    /// All causes, in the order of their numbers.
    pub const ALL: [StallCause; 4] =
        [StallCause::Memtables, StallCause::Level0, StallCause::CompactionDebt, StallCause::Durability];

    /// Returns the name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            StallCause::Memtables => "memtables",
            StallCause::Level0 => "level0",
            StallCause::CompactionDebt => "compaction_debt",
            StallCause::Durability => "durability",
        }
    }
}

/// The work of completed jobs since the store was opened: of all flushes, or of all compactions
/// into one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkStatistics {
    /// The number of completed jobs.
    pub count: u64,
    /// The total number of bytes of the jobs' inputs.
    pub bytes_read: u64,
    /// The total number of bytes of the jobs' outputs.
    pub bytes_written: u64,
    /// The sum of the jobs' durations.
    pub time: Duration,
}

/// The current state of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// The number of SSTables.
    pub tables: u64,
    /// The total size of the level's SSTables in bytes.
    pub bytes: u64,
    /// The compactions into this level.
    pub compactions: WorkStatistics,
    /// The number of bytes that compactions wrote to storage for this level. It differs from
    /// `compactions.bytes_written`, the size of the installed SSTables: `compacted_bytes` includes
    /// the outputs of failed compactions and excludes linked files. Its sum over all levels is
    /// `compaction` in [`bytes_written`](Statistics::bytes_written).
    pub compacted_bytes: u64,
}

/// The current memory use in bytes, as [`memory_budget`](crate::Options::memory_budget) counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// The memory of memtables. This includes flushed memtables that a reader has pinned, and up to
    /// 64 MiB of freed pages that are kept for a few seconds for the next memtable.
    pub memtables: u64,
    /// The memory of indexes and filters of open SSTables.
    pub tails: u64,
    /// The memory of iterators for readahead. This includes up to 4 MiB of free memory that is kept
    /// for the next iterator.
    pub cursors: u64,
    /// The memory of blocks in the block cache.
    pub blocks: u64,
    /// The limit in bytes on the sum of the memory of memtables, tails, cursors and blocks, if
    /// there is a limit.
    pub limit: Option<u64>,
}

impl MemoryStatistics {
    /// Returns the sum of the memory of memtables, tails, cursors and blocks.
    pub fn sum(&self) -> u64 {
        self.memtables + self.tails + self.cursors + self.blocks
    }
}

/// The reads of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    /// The number of point lookups, estimated from a random sample of one in 64.
    pub lookups: u64,
    /// The number of SSTables that these lookups searched. An SSTable whose filter excludes the key
    /// counts too.
    pub searched_tables: u64,
    /// The number of blocks that lookups and seeks read from storage one by one, because the blocks
    /// were neither cached nor mapped. The kernel's page cache may have served them. The readahead
    /// of scans is not included, nor are reads that do not fill the cache.
    pub storage_reads: u64,
}

/// The current state of the value log (the files of separated values). All numbers are 0 in a
/// store without a value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueLogStatistics {
    /// The number of segments (files of the value log) that SSTables point into.
    pub segments: u64,
    /// The total size in bytes of the segments that SSTables point into.
    pub bytes: u64,
    /// The number of bytes of value-log segments that SSTables point to. All other bytes of the
    /// segments are garbage, including headers and small pairs, to which SSTables never point.
    pub live_bytes: u64,
    /// The number of quarantined segments. Garbage collection does not touch a quarantined segment,
    /// because a part of it cannot be read. `terrace check --deep` lists the damage.
    pub spared: u64,
    /// The number of bytes that tail GC has re-appended since the store was opened. These bytes are
    /// also included in the WAL writes. Bytes that GC mode `segments` has relocated are included in
    /// the purpose `collection` of [`bytes_written`](Statistics::bytes_written) instead.
    pub relocated_bytes: u64,
}

/// The current state of a store, and the work that it has done since it was opened.
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
    /// The directory or device of the store. For a storage that is neither, its name.
    pub place: String,
    /// The layout of the store.
    pub layout: Layout,
    /// The durability mode of the open store. Mode `none` guarantees nothing after a power cut.
    pub durability: &'static str,
    /// The preset from which the options were made.
    pub preset: &'static str,
    /// The sequence number of the newest visible write.
    pub last_sequence: u64,
    /// The durable watermark: every write up to this sequence number survives a power cut.
    pub durable_sequence: u64,
    /// The levels, beginning with level 0.
    pub levels: Vec<LevelStatistics>,
    /// The flushes since the store was opened.
    pub flushes: WorkStatistics,
    /// The state of the value log.
    pub value_log: ValueLogStatistics,
    /// The number of free bytes of the file system or of the device; `None` if unknown.
    pub free_bytes: Option<u64>,
    /// The size of the memtables in bytes, as LevelDB's arena counts it, plus the size of their
    /// range tombstones.
    pub memtable_bytes: u64,
    /// The current memory use, by purpose.
    pub memory: MemoryStatistics,
    /// The number of immutable memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// The number of snapshots that exist.
    pub snapshots: u64,
    /// The number of pending edits: version edits that are not in the manifest yet.
    pub pending_edits: u64,
    /// The number of bytes of WALs that are kept because the SSTables with their entries may not be
    /// durable yet.
    pub retained_wal_bytes: u64,
    /// The number of bytes of obsolete SSTables and segments that are kept because the files that
    /// replace them may not be durable yet.
    pub shadow_bytes: u64,
    /// The number of SSTables that a compaction replaced before their sync had started. These
    /// SSTables were never synced.
    pub tables_never_synced: u64,
    /// The number of obsolete files that are not deleted yet, because a file that replaces them is
    /// not durable or because a reader has pinned them.
    pub pending_deletions: u64,
    /// The number of obsolete files that could not be deleted. The next open deletes them.
    pub failed_deletions: u64,
    /// The number of WALs in which this open found bytes that are not part of the history. Copies
    /// of these WALs are in `lost/`.
    pub torn_wals: u64,
    /// The number of files in `lost/` when the store was opened. They are copies of damaged WALs.
    pub lost_files: u64,
    /// Whether an earlier open in durability mode `none` left SSTables that may not survive a power
    /// cut.
    pub unsynced: bool,
    /// The number of write stalls, including very short ones. With `delayed_writes` a typical stall
    /// takes about 20 µs; see `stall_time`.
    pub stalls: u64,
    /// The sum of the durations of write stalls.
    pub stall_time: Duration,
    /// The sum of the durations of write stalls, by the background work that the writes waited for:
    /// `memtables` (flushes), `level0`, `compaction_debt`, or `durability` (syncs).
    pub stall_times: Vec<(&'static str, Duration)>,
    /// The reads since the store was opened.
    pub reads: ReadStatistics,
    /// The time since the store was opened.
    pub uptime: Duration,
    /// The number of bytes written, by purpose.
    pub bytes_written: Vec<(&'static str, u64)>,
    /// The number and the total duration of syncs, by kind of file.
    pub syncs: Vec<(&'static str, Syncs)>,
    /// The number and the total duration of syncs of SSTables, by the purpose of the write. A batch
    /// sync of many SSTables is not included; `syncs` has it under `filesystem`.
    pub table_syncs: Vec<(&'static str, Syncs)>,
}

impl Statistics {
    /// Adds the counters of the engine (`counters`) and those of the storage layer (`io`) to the
    /// statistics.
    pub(crate) fn counted(mut self, counters: &Counters, io: &IoStats) -> Statistics {
        for ((level, work), bytes) in self.levels.iter_mut().zip(&counters.compactions).zip(io.compacted()) {
            level.compactions = work.snapshot();
            level.compacted_bytes = bytes;
        }
        self.flushes = counters.flushes.snapshot();
        self.stalls = counters.stalls.load(Relaxed);
        self.stall_times = StallCause::ALL
            .map(|cause| (cause.name(), Duration::from_nanos(counters.stall_nanos[cause as usize].load(Relaxed))))
            .to_vec();
        self.stall_time = self.stall_times.iter().map(|(_, time)| *time).sum();
        self.reads.lookups = counters.lookups.load(Relaxed);
        self.reads.searched_tables = counters.searched_tables.load(Relaxed);
        self.failed_deletions = counters.failed_deletions.load(Relaxed);
        self.tables_never_synced = counters.given_up.load(Relaxed);
        self.value_log.relocated_bytes = counters.relocated.load(Relaxed);
        self.bytes_written = Purpose::ALL.iter().map(|p| (p.name(), io.bytes(*p))).collect();
        self.syncs = io.all_syncs();
        self.table_syncs = io.table_syncs();
        self
    }
}
