//! Named choices of parts, each with the system it stands for.
use crate::{Error, GcMode, Options, Result};
use terrace_format::{TableForm, Values};
use terrace_storage::{DurabilityMode, FilterForm, WalWriteMode};

/// A preset's name and what it is.
///
/// ```
/// # use terrace::{Options, PRESETS};
/// for (name, what) in PRESETS {
///     println!("{name}: {what}");
///     assert_eq!(Options::preset(name)?.preset_name(), *name);
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
pub const PRESETS: &[(&str, &str)] = &[
    (
        "default",
        "what is taken where none is named: terrace-block in LevelDB's files; new stores become durable in batches, off the path \
         of writes, and remember it, older ones keep their syncs",
    ),
    (
        "leveldb",
        "LevelDB's own design and numbers: block tables in a directory, synced inline, leveled, seek compaction",
    ),
    (
        "terrace-block",
        "for speed on block tables: larger memtables, filters over whole tables, writes pipelined into a mapped log, \
         durable in batches, compactions side by side",
    ),
    ("terrace", "terrace-block with all tables of a compaction in one file: our best on a file system"),
    (
        "noblsm",
        "NobLSM's design on leveldb's numbers: a flush syncs its table, a compaction nothing; what it replaced waits until \
         ext4 has committed its outputs, asked every five seconds",
    ),
    (
        "leveldb-raw",
        "LevelDB-Raw's design on leveldb's numbers: logs and tables in slots of a device, the table of slots durable with each sync, \
         the manifest in a directory of an ordinary file system",
    ),
    (
        "raw",
        "terrace-block's numbers on a device without a file system, durable in batches of one device flush; level 0 waits until \
         it brings enough",
    ),
    (
        "lds",
        "leveldb's numbers on a device without a file system, everything on it, tables placed by level: LDS, as DeLSM measures it",
    ),
    (
        "delsm",
        "DeLSM's design: each pair a file, a table a directory, compactions link; levels hold entries, several memtables wait, \
         and one sync of the file system saves all files of a flush or compaction",
    ),
    (
        "bolt",
        "BoLT's design on leveldb's numbers: all tables of a compaction in one file, synced once; the space of those that go \
         before it is given back",
    ),
    (
        "wisckey",
        "WiscKey's design on leveldb's numbers: every value stays in the write-ahead log, tables hold keys and where their values \
         lie; what is alive at the log's old end goes to its new one",
    ),
    ("volatile", "as leveldb, never synced: the upper bound of speed; promises nothing at a power cut"),
];

impl Options {
    /// The options of the preset called `name`; the error lists those there are.
    ///
    /// # Errors
    /// [`Error::Invalid`] lists the names there are.
    ///
    /// ```
    /// # use terrace::{Options, PRESETS};
    /// for (name, what) in PRESETS {
    ///     println!("{name}: {what}");
    ///     Options::preset(name)?;
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn preset(name: &str) -> Result<Options> {
        match name {
            "default" => Ok(Options::default()),
            "leveldb" => Ok(Options::leveldb_compatible()),
            "terrace-block" => Ok(terrace_block()),
            "terrace" => {
                let mut options = terrace_block().named("terrace");
                options.made_of.tables = TableForm::Bundled;
                Ok(options)
            }
            "noblsm" => Ok(noblsm()),
            "leveldb-raw" => {
                let mut options = Options::leveldb_compatible().named("leveldb-raw");
                options.split = true;
                Ok(options)
            }
            "raw" => {
                let mut options = terrace_block().named("raw");
                options.device = true;
                options.durability = DurabilityMode::Group;
                options.wal_write_mode = WalWriteMode::Write;
                options.level0_min_overlap_percent = 70;
                Ok(options)
            }
            "lds" => {
                let mut options = Options::leveldb_compatible().named("lds");
                options.device = true;
                options.seek_compaction = false;
                Ok(options)
            }
            "delsm" => Ok(delsm()),
            "bolt" => {
                let mut options = Options::leveldb_compatible().named("bolt");
                options.made_of.tables = TableForm::Bundled;
                Ok(options)
            }
            "wisckey" => Ok(wisckey()),
            "volatile" => {
                let mut options = Options::leveldb_compatible().named("volatile");
                options.durability = DurabilityMode::None;
                Ok(options)
            }
            _ => {
                let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
                Err(Error::Invalid(format!("no preset is named {name:?}; there are {}", names.join(", "))))
            }
        }
    }
}

/// As the paper has it, nothing bounds what waits for a commit: about what is written in fifteen seconds.
fn noblsm() -> Options {
    let mut options = Options::leveldb_compatible().named("noblsm");
    options.durability = DurabilityMode::Journal;
    options.sync_flushes = true;
    options.durability_interval_ms = 5000;
    options.unsynced_bytes_limit = 1 << 40;
    options
}

/// Level 0 holds 10,000 entries, as in the paper; runs count only where values are large. As there, a log is synced when its
/// memtable is sealed, and pairs are not. The paper leaves writeback to the file system and keeps logs for a minute or two: here a
/// sync of the file system each five seconds ends that sooner.
fn delsm() -> Options {
    let mut options = Options::leveldb_compatible().named("delsm");
    options.made_of.tables = TableForm::Directory;
    options.max_write_buffer_number = 8;
    options.target_file_size = 4 << 20;
    options.max_entries_for_level_base = 10_000;
    options.level0_file_num_compaction_trigger = 32;
    options.level0_slowdown_writes_trigger = 64;
    options.level0_stop_writes_trigger = 96;
    options.bloom_bits = 10;
    options.filter_form = FilterForm::Table;
    options.seek_compaction = false;
    options.durability = DurabilityMode::Background;
    options.durability_interval_ms = 5000;
    options.sync_sealed_wals = true;
    options
}

/// The paper collects from the oldest end of the log on.
fn wisckey() -> Options {
    let mut options = Options::leveldb_compatible().named("wisckey");
    options.made_of.values = Values::Log;
    options.value_log_threshold = 0;
    options.wal_sidecar = false;
    options.collection = GcMode::Tail;
    options
}

/// Moderate numbers: at most 4 × 32 MiB of memtables in memory, and 64 MiB of blocks, with indexes and filters beside them, about a
/// hundredth of the tables that are open. After a crash as much log is replayed as the memtables held, and what waited for its batch. From 2 GiB of such logs
/// and of replaced tables on, writers wait; with less, a compaction of a full level 0 stopped them until it was durable.
/// Level 1 holds what level 0 brings when its compaction starts, 4 memtables, up to four times that before a level is begun; it does
/// so too where memtables are made larger, and deeper levels are sized from the last (`level_compaction_dynamic_level_bytes`).
pub(crate) fn terrace_block() -> Options {
    let mut options = Options::leveldb_compatible().named("terrace-block");
    options.write_buffer_size = 32 << 20;
    options.max_write_buffer_number = 4;
    options.memtable_filter = true;
    options.target_file_size = 16 << 20;
    options.max_bytes_for_level_base = 128 << 20;
    options.level_compaction_dynamic_level_bytes = true;
    options.block_cache_size = 64 << 20;
    options.bloom_bits = 10;
    options.filter_form = FilterForm::Table;
    options.seek_compaction = false;
    options.level0_seek_compaction_bytes = 16 << 10;
    options.level0_slowdown_writes_trigger = 12;
    options.level0_stop_writes_trigger = 24;
    options.delayed_writes = true;
    options.soft_pending_compaction_bytes_limit = 8 << 30;
    options.pipelined_writes = true;
    options.group_commit_wait_us = 200;
    options.wal_write_mode = WalWriteMode::Map;
    options.durability = DurabilityMode::Auto;
    options.unsynced_bytes_limit = 2 << 30;
    options.reserve_bytes = 1 << 20;
    // For two processors; more of them want more.
    options.max_background_compactions = 2;
    options.base_background_compactions = 1;
    options.max_subcompactions = 2;
    options.intra_l0_compaction_trigger = 4;
    options.least_overlap = true;
    options.copy_whole_blocks = true;
    options.tombstone_compaction_percent = 50;
    options
}
