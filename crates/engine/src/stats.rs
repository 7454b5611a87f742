//! Typed statistics: counters that the parts bump, and the snapshot that users read.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use terrace_format::{LEVELS, Layout};
use terrace_storage::{IoStats, Purpose, Syncs};

/// Bumped by the parts, from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    flushes: Work,
    compactions: [Work; LEVELS],
    stall_nanos: AtomicU64,
    stalls: AtomicU64,
    removals_failed: AtomicU64,
    put_again: AtomicU64,
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
    /// A memtable became a table of `bytes`.
    pub fn flushed(&self, bytes: u64, time: Duration) {
        self.flushes.done(0, bytes, time);
    }

    /// A compaction into `level` is over.
    pub fn compacted(&self, level: usize, read: u64, written: u64, time: Duration) {
        self.compactions[level].done(read, written, time);
    }

    /// A write waited for `time` in all.
    pub fn stalled(&self, time: Duration) {
        self.stalls.fetch_add(1, Relaxed);
        self.stall_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Batches of `bytes` were put again by the tail collector.
    pub fn put_again(&self, bytes: u64) {
        self.put_again.fetch_add(bytes, Relaxed);
    }

    /// So many bytes.
    pub fn put_again_bytes(&self) -> u64 {
        self.put_again.load(Relaxed)
    }

    /// Tables were merged before anything had been done to make them durable.
    pub fn given_up(&self, tables: usize) {
        self.given_up.fetch_add(tables as u64, Relaxed);
    }

    /// Something unneeded could not be removed.
    pub fn removal_failed(&self) {
        self.removals_failed.fetch_add(1, Relaxed);
    }
}

/// Background work of one kind, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkStatistics {
    /// Jobs done.
    pub count: u64,
    /// Bytes of inputs.
    pub bytes_read: u64,
    /// Bytes of outputs.
    pub bytes_written: u64,
    /// Time spent.
    pub time: Duration,
}

/// One level, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Compactions that put tables here.
    pub compactions: WorkStatistics,
    /// Bytes that compactions handed to storage for tables here. `compactions.bytes_written` is the length of the tables that came to be; this
    /// counts also those that were given up, and not what was linked. All levels together are `compaction` in
    /// [`bytes_written`](Statistics::bytes_written).
    pub compacted_bytes: u64,
}

/// Memory held now, in bytes; [`memory_budget`](crate::Options::memory_budget) says what is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Memtables, also those that were flushed and that a reader still looks at, and up to 64 MiB kept for a few seconds for the next.
    pub memtables: u64,
    /// Indexes and filters of open tables.
    pub tails: u64,
    /// What cursors have read ahead, and up to 4 MiB kept for the next.
    pub cursors: u64,
    /// Cached blocks.
    pub blocks: u64,
    /// What there may be in all, if that is bounded.
    pub limit: Option<u64>,
}

impl MemoryStatistics {
    /// All of it.
    pub fn sum(&self) -> u64 {
        self.memtables + self.tails + self.cursors + self.blocks
    }
}

/// Segments of the value log, now. In a store without one, zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueLogStatistics {
    /// Segments that tables point into.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of them to which tables point. The rest is garbage, and small pairs and headers, which are garbage from birth.
    pub live_bytes: u64,
    /// Segments that are not collected, because something in them cannot be read. `terrace check --deep` tells what.
    pub spared: u64,
    /// Bytes that the tail collector has put again since the store was opened; they are part of what was written to logs. What
    /// collector `segments` has moved is written with purpose `collection`.
    pub put_again_bytes: u64,
}

/// The state of a store and what it did since it was opened.
///
/// ```
/// # use terrace::{Db, Options};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let told = db.statistics();
/// assert_eq!((told.last_sequence, told.flushes.count), (1, 1));
/// for (purpose, bytes) in &told.bytes_written {
///     println!("{purpose}: {bytes} bytes");
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The directory, or what stands for one.
    pub place: String,
    /// What the store is made of.
    pub layout: Layout,
    /// How written bytes become durable; `none` promises nothing at a power cut.
    pub durability: &'static str,
    /// The preset that the options began as.
    pub preset: &'static str,
    /// Sequence of the newest visible write.
    pub last_sequence: u64,
    /// Every write up to here survives a power cut.
    pub durable_sequence: u64,
    /// Level 0 first.
    pub levels: Vec<LevelStatistics>,
    /// Memtables to tables.
    pub flushes: WorkStatistics,
    /// Where values live in the log.
    pub value_log: ValueLogStatistics,
    /// Bytes that the file system has left, or the device without one; `None` if nobody knows.
    pub free_bytes: Option<u64>,
    /// Bytes of memtables, as LevelDB's arena counts, and what deletes of ranges in them take.
    pub memtable_bytes: u64,
    /// Who holds how much memory.
    pub memory: MemoryStatistics,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: u64,
    /// Snapshots held.
    pub snapshots: u64,
    /// Edits that wait to become durable.
    pub pending_edits: u64,
    /// Bytes of logs that are kept because the tables made of them are not known to be durable.
    pub retained_log_bytes: u64,
    /// Bytes of replaced tables, and of segments that none points into any more, kept because what replaces them is not known to be
    /// durable.
    pub shadow_bytes: u64,
    /// Tables that were merged before anything had been done to make them durable, so that nothing ever was.
    pub tables_given_up: u64,
    /// Objects that wait for durability or a reader before they are removed.
    pub awaiting_removal: u64,
    /// Objects that could not be removed; the next open removes them.
    pub removals_failed: u64,
    /// Logs that this opening found to hold something which is no part of the history; see `lost/`.
    pub torn_logs: u64,
    /// Files under `lost/` when the store was opened: copies of damaged WALs that opens set aside.
    pub lost_files: u64,
    /// Whether tables here were left by a session of tier `none` and may not survive a power cut.
    pub unsynced: bool,
    /// Writes that waited for background work, however short: with `delayed_writes` some 20 µs each. `stall_time` says whether it matters.
    pub stalls: u64,
    /// Time that writes waited.
    pub stall_time: Duration,
    /// Bytes written, by purpose.
    pub bytes_written: Vec<(&'static str, u64)>,
    /// Syncs, by kind.
    pub syncs: Vec<(&'static str, Syncs)>,
    /// Those of tables, by what these were written for. Where many builds become durable at a time, `syncs` has that as `filesystem`.
    pub table_syncs: Vec<(&'static str, Syncs)>,
}

impl Statistics {
    /// Takes over what the counters and storage know.
    pub(crate) fn counted(mut self, counters: &Counters, traffic: &IoStats) -> Statistics {
        for ((level, work), bytes) in self.levels.iter_mut().zip(&counters.compactions).zip(traffic.compacted()) {
            level.compactions = work.snapshot();
            level.compacted_bytes = bytes;
        }
        self.flushes = counters.flushes.snapshot();
        self.stalls = counters.stalls.load(Relaxed);
        self.stall_time = Duration::from_nanos(counters.stall_nanos.load(Relaxed));
        self.removals_failed = counters.removals_failed.load(Relaxed);
        self.tables_given_up = counters.given_up.load(Relaxed);
        self.value_log.put_again_bytes = counters.put_again.load(Relaxed);
        self.bytes_written = Purpose::ALL.iter().map(|p| (p.name(), traffic.bytes(*p))).collect();
        self.syncs = traffic.all_syncs();
        self.table_syncs = traffic.table_syncs();
        self
    }
}
