//! Presets: named sets of option values.
//!
//! Product presets ([`PRESETS`]) are for users. Paper presets ([`PAPER_PRESETS`]) reproduce the
//! designs of papers, with LevelDB's values for all other options, so that the lab can compare the
//! designs.
use crate::{CompactionPri, GcMode, Options, Result, options::unknown};
use terrace_format::{TableForm, Values};
use terrace_storage::{DurabilityMode, FilterForm, WalWriteMode};

/// The product presets, each with a line that describes it.
///
/// ```
/// # use terrace::{Options, PRESETS};
/// for (name, contents) in PRESETS {
///     println!("{name}: {contents}");
///     assert_eq!(Options::preset(name)?.preset_name(), *name);
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
pub const PRESETS: &[(&str, &str)] = &[
    (
        "default",
        "Block SSTables in LevelDB's format, tuned for speed: large memtables, table filters, mapped reads and WALs, pipelined \
         writes, batch syncs in new stores",
    ),
    ("leveldb", "LevelDB's design and numbers: each SSTable synced when finished, seek compaction, no filters"),
    ("bundled", "`default` with all output SSTables of a compaction in one file; LevelDB refuses such a store"),
    ("device", "`default` on a block device without a file system; level 0 waits until a compaction of it pays"),
];

/// The presets that reproduce designs of papers, each with a line that describes it.
///
/// ```
/// # use terrace::{Options, PAPER_PRESETS};
/// for (name, contents) in PAPER_PRESETS {
///     println!("{name}: {contents}");
///     assert_eq!(Options::preset(name)?.preset_name(), *name);
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
pub const PAPER_PRESETS: &[(&str, &str)] = &[
    (
        "noblsm",
        "NobLSM: flushes sync their SSTable, compactions do not; replaced files wait for the ext4 journal commit, probed \
         every 5 s",
    ),
    (
        "leveldb-raw",
        "LevelDB-Raw: WALs and SSTables in slots of a device, the manifest in a directory of a file system",
    ),
    ("lds", "LDS, as DeLSM's paper measures it: the whole store on a device, SSTables placed by level"),
    (
        "delsm",
        "DeLSM: each pair is a file and each SSTable a directory; compactions link files, and one sync of the file system \
         covers a flush or compaction",
    ),
    ("bolt", "BoLT: all output SSTables of a compaction in one file, synced once"),
    ("wisckey", "WiscKey: values stay in the write-ahead log, SSTables hold value pointers, tail garbage collection"),
    ("volatile", "`leveldb` without any sync: the upper bound of speed; promises nothing at a power cut"),
];

impl Options {
    /// Returns the options of the preset with the name `name`, which is in [`PRESETS`] or
    /// [`PAPER_PRESETS`].
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an unknown name. The error contains the most
    /// similar name, or all names if no name is similar.
    ///
    /// ```
    /// # use terrace::Options;
    /// assert_eq!(Options::preset("leveldb")?.write_buffer_size, 4 << 20);
    /// let error = Options::preset("level").err().expect("no such preset");
    /// assert!(error.to_string().contains("did you mean leveldb?"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn preset(name: &str) -> Result<Options> {
        match name {
            "default" => Ok(default()),
            "leveldb" => Ok(Options::leveldb_compatible()),
            "bundled" => Ok(bundled()),
            "device" => Ok(device()),
            "noblsm" => Ok(noblsm()),
            "leveldb-raw" => {
                let mut options = Options::leveldb_compatible().named("leveldb-raw");
                options.split = true;
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
                let names = PRESETS.iter().chain(PAPER_PRESETS).map(|(name, _)| *name);
                Err(unknown("preset", name, names))
            }
        }
    }
}

/// Returns the default preset, which has moderate values.
///
/// Memory: 128 MiB for memtables (at most 4 × 16 MiB), indexes, filters and cached blocks together.
///
/// Recovery: a crash leaves WALs to replay. They have as many bytes as the memtables held, plus
/// the bytes of flushed memtables whose SSTables waited for a batch sync.
///
/// Stalls: writes stall when the WALs and obsolete SSTables that wait for a sync have 2 GiB. With
/// a lower limit, a compaction of a full level 0 would stall writes until its outputs are durable.
///
/// Level 1 has space for at least the 4 memtables that a compaction of level 0 moves there.
/// Whatever the size of a memtable, level 1 may grow to four times this size before the store gets
/// a new level (`level_compaction_dynamic_level_bytes`).
pub(crate) fn default() -> Options {
    let mut options = Options::leveldb_compatible().named("default");
    options.memory_budget = 128 << 20;
    options.write_buffer_size = 0;
    options.block_cache_size = 0;
    options.max_write_buffer_number = 4;
    options.memtable_filter = true;
    options.target_file_size = 16 << 20;
    options.max_bytes_for_level_base = 128 << 20;
    options.level_compaction_dynamic_level_bytes = true;
    options.allow_mmap_reads = true;
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
    options.durability = DurabilityMode::Inherit;
    options.unsynced_bytes_limit = 2 << 30;
    options.reserve_bytes = 1 << 20;
    options.max_background_compactions = 0;
    options.base_background_compactions = 0;
    options.max_subcompactions = 0;
    options.intra_l0_compaction_trigger = 4;
    options.compaction_pri = CompactionPri::MinOverlappingRatio;
    options.copy_whole_blocks = true;
    options.tombstone_compaction_percent = 50;
    options
}

/// Returns the preset for bundled SSTables (several SSTables in one file). The preset sets
/// durability mode `auto` instead of `inherit`, which keeps the mode of an existing store. LevelDB
/// cannot open a store with bundles, so there is no earlier mode that the store must keep.
fn bundled() -> Options {
    let mut options = default().named("bundled");
    options.durability = DurabilityMode::Auto;
    options.made_of.tables = TableForm::Bundled;
    options
}

/// Returns the preset for a raw device. One flush of the device's cache makes a batch of SSTables
/// durable. The preset writes WALs without memory mapping, because WALs on a raw device cannot be
/// mapped.
fn device() -> Options {
    let mut options = default().named("device");
    options.device = true;
    options.durability = DurabilityMode::Group;
    options.wal_write_mode = WalWriteMode::Write;
    options.level0_min_overlap_percent = 70;
    options
}

/// Returns the preset of the NobLSM paper. As in the paper, there is no limit on the bytes that
/// wait for a journal commit of the file system. In practice these are about as many bytes as are
/// written in 15 s.
fn noblsm() -> Options {
    let mut options = Options::leveldb_compatible().named("noblsm");
    options.durability = DurabilityMode::Journal;
    options.sync_flushes = true;
    options.durability_interval_ms = 5000;
    options.unsynced_bytes_limit = 1 << 40;
    options
}

/// Returns the preset of the DeLSM paper. As in the paper, level 0 holds 10,000 entries. The
/// limits on the number of runs in level 0 matter only for large values.
///
/// As in the paper, a WAL is synced when its memtable is sealed, and the files of pairs are not
/// synced. In the paper the file system writes the files of pairs back by itself, and WALs are
/// kept for a minute or two. This preset instead syncs the file system every five seconds, so both
/// times are shorter.
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

/// Returns the preset of the WiscKey paper. Its garbage collection takes the oldest segments of
/// the value log first.
fn wisckey() -> Options {
    let mut options = Options::leveldb_compatible().named("wisckey");
    options.made_of.values = Values::Log;
    options.value_log_threshold = 0;
    options.wal_sidecar = false;
    options.value_log_gc = GcMode::Tail;
    options
}
