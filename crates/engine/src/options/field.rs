//! The text form of options: `--option name=value`, what there is, and which values may be.
use super::{GcMode, KIB, MIB, Options, Recovery};
use terrace_format::{TableForm, Values, compress::Codec};
use terrace_storage::{DurabilityMode, FilterForm, WalWriteMode};

const GIB: u64 = 1 << 30;
/// As an option's text: what the preset says for a new store, what the marker says for one that is there.
const PRESET: &str = "preset";

/// One option by its name.
pub(super) struct Field {
    pub name: &'static str,
    pub help: &'static str,
    pub get: fn(&Options) -> String,
    pub set: fn(&mut Options, &str) -> std::result::Result<(), String>,
    /// What is wrong with the value there is.
    pub check: fn(&Options) -> Option<String>,
}

macro_rules! number {
    ($name:ident, $range:expr, $help:literal) => {
        Field {
            name: stringify!($name),
            help: $help,
            get: |options| options.$name.to_string(),
            set: |options, text| Ok(options.$name = parse_number(text)?),
            check: |options| {
                let (range, value) = ($range, options.$name);
                (!range.contains(&value))
                    .then(|| format!("{} is {value}, outside {} ..= {}", stringify!($name), range.start(), range.end()))
            },
        }
    };
}

macro_rules! switch {
    ($name:ident, $help:literal) => {
        Field {
            name: stringify!($name),
            help: $help,
            get: |options| options.$name.to_string(),
            set: |options, text| Ok(options.$name = parse_switch(text)?),
            check: |_| None,
        }
    };
}

/// What the marker remembers: one of its choices, or `preset`.
macro_rules! choice {
    ($name:ident, $kind:ident, $help:literal) => {
        Field {
            name: stringify!($name),
            help: $help,
            get: |options| options.$name.map_or(PRESET, $kind::name).into(),
            set: |options, text| {
                options.$name = match text {
                    PRESET => None,
                    _ => Some($kind::from_name(text).ok_or_else(|| {
                        let names: Vec<_> = $kind::ALL.iter().map(|choice| choice.name()).collect();
                        format!("not one of {PRESET}, {}", names.join(", "))
                    })?),
                };
                Ok(())
            },
            check: |_| None,
        }
    };
}

/// Every option, in the order in which they are listed.
pub(super) const FIELDS: &[Field] = &[
    switch!(create_if_missing, "make the store if it is not there"),
    switch!(error_if_exists, "refuse a store that is there"),
    switch!(device, "refuse a directory: the store is on a device prepared by `terrace raw format`"),
    switch!(split, "refuse a store that is not half in a directory, half on a device: `terrace raw format --meta`"),
    switch!(paranoid_checks, "any sign of corruption is an error; verify every read"),
    Field {
        name: "recovery",
        help: "open with durable writes that cannot be read: refuse, or salvage (keeps all others and reports the loss)",
        get: |options| options.recovery.name().into(),
        set: |options, text| {
            options.recovery = Recovery::from_name(text).ok_or("not one of refuse, salvage")?;
            Ok(())
        },
        check: |_| None,
    },
    number!(write_buffer_size, 64 * KIB..=4 * GIB, "bytes a memtable may fill before it is flushed"),
    number!(max_write_buffer_number, 2..=64, "memtables alive at once"),
    switch!(memtable_filter, "keep a filter of each memtable's keys"),
    choice!(tables, TableForm, "how a new store keeps tables, and what a store that is there must have"),
    number!(min_value_file_size, 0..=4 * GIB, "bytes of a value worth a file, where tables are directories"),
    choice!(values, Values, "where a new store keeps values, and what a store that is there must have"),
    number!(value_log_threshold, 0..=GIB, "bytes from which on values stay in the log, with values=log"),
    switch!(wal_sidecar, "with values=log, writes without a value that stays there go to a log of their own"),
    number!(value_log_segment_size, 64 * KIB..=4 * GIB, "bytes at which a segment of the value log ends"),
    Field {
        name: "collection",
        help: "who empties segments of the value log: segments (compactions, where it pays), tail (the oldest first) or off",
        get: |options| options.collection.name().into(),
        set: |options, text| {
            options.collection = GcMode::from_name(text).ok_or("not one of segments, tail, off")?;
            Ok(())
        },
        check: |_| None,
    },
    number!(value_log_gc_percent, 1..=99, "percent of the value log that may be garbage before some is collected"),
    number!(value_readahead_bytes, 0..=GIB, "bytes of values in the log that a scan asks for ahead, 0 for none"),
    number!(target_file_size, 64 * KIB..=GIB, "bytes at which a compaction ends a table"),
    number!(block_size, KIB..=4 * MIB, "uncompressed bytes of a block"),
    number!(block_restart_interval, 1..=1024, "keys between restart points of a block"),
    Field {
        name: "compression",
        help: "none, snappy, zstd or lz4",
        get: |options| options.compression.name().into(),
        set: |options, text| {
            options.compression = Codec::from_name(text).ok_or("not one of none, snappy, zstd, lz4")?;
            Ok(())
        },
        check: |_| None,
    },
    switch!(range_tombstones, "delete ranges of keys at once; LevelDB refuses such a store"),
    number!(zstd_level, -5..=22, "effort of zstd"),
    number!(bloom_bits, 0..=100, "bits of Bloom filter per key, 0 for none"),
    Field {
        name: "filter_form",
        help: "block (LevelDB's) or table",
        get: |options| match options.filter_form {
            FilterForm::Block => "block".into(),
            FilterForm::Table => "table".into(),
        },
        set: |options, text| {
            options.filter_form = match text {
                "block" => FilterForm::Block,
                "table" => FilterForm::Table,
                _ => return Err("not one of block, table".into()),
            };
            Ok(())
        },
        check: |_| None,
    },
    number!(block_cache_size, 0..=1024 * GIB, "bytes of memory for blocks, and for large indexes and filters"),
    number!(
        memory_budget,
        0..=1024 * 1024 * GIB,
        "bytes of memory for memtables, tables, cursors and cache together, 0 for no bound"
    ),
    number!(max_open_files, 16..=1_000_000, "tables kept open at once"),
    switch!(allow_mmap_reads, "map tables and segments instead of reading them; a vanished page ends the process"),
    number!(level0_file_num_compaction_trigger, 1..=1000, "runs in level 0 that start its compaction"),
    number!(level0_slowdown_writes_trigger, 1..=10_000, "runs in level 0 that delay writes"),
    number!(level0_stop_writes_trigger, 1..=10_000, "runs in level 0 that stop writes"),
    switch!(delayed_writes, "slow writes in proportion to what background work is behind"),
    number!(
        soft_pending_compaction_bytes_limit,
        0..=1024 * 1024 * GIB,
        "bytes above the levels' limits that slow writes most, 0 for no limit"
    ),
    switch!(pipelined_writes, "insert a group of writes while the next one's log is written"),
    number!(group_commit_wait_us, 0..=100_000, "microseconds that a synced write waits for others to join it"),
    number!(max_bytes_for_level_base, 64 * KIB..=1024 * GIB, "bytes that level 1 may hold"),
    switch!(level_compaction_dynamic_level_bytes, "size levels by what level 0 brings and by what the last one holds"),
    number!(max_entries_for_level_base, 0..=1_000_000_000, "entries that level 0 may hold, 0 for levels by bytes"),
    switch!(seek_compaction, "compact tables that cost many seeks"),
    number!(seek_compaction_bytes, 0..=GIB, "bytes of a compaction that one such seek pays for, 0 for LevelDB's rule"),
    number!(
        level0_seek_compaction_bytes,
        0..=GIB,
        "bytes of compaction that a seek is worth for each run of level 0, 0 for none"
    ),
    number!(max_background_compactions, 1..=64, "compactions that may run at once"),
    number!(base_background_compactions, 1..=64, "compactions, and threads of each, enough while level 0 is short"),
    number!(rate_bytes_per_sec, 0..=1024 * GIB, "bytes that compactions may write in a second, 0 for no limit"),
    number!(max_subcompactions, 1..=64, "threads that one large compaction may use"),
    number!(min_subcompaction_size, KIB..=1024 * GIB, "bytes of inputs that are worth a thread"),
    number!(
        intra_l0_compaction_trigger,
        0..=1000,
        "runs of level 0 merged among themselves while level 1 is busy, 0 for never"
    ),
    number!(
        level0_min_overlap_percent,
        0..=1000,
        "least bytes of level 0, in percent of those they meet in level 1, that are merged while somebody writes"
    ),
    switch!(least_overlap, "compact first what meets least below"),
    number!(
        tombstone_compaction_percent,
        0..=100,
        "percent of what a merge rewrites that tombstones must hide to pay for it, 0 for never"
    ),
    switch!(copy_whole_blocks, "write blocks of inputs as they are where nothing comes between"),
    number!(idle_durability_ms, 0..=86_400_000, "milliseconds until an idle store becomes durable, 0 for never"),
    Field {
        name: "durability",
        help: "sync, group, background, journal, journal-bpf, auto (group, else background), inherit (auto in stores made so, else sync) or none",
        get: |options| options.durability.name().into(),
        set: |options, text| {
            options.durability = DurabilityMode::from_name(text)
                .ok_or_else(|| format!("not one of {}", DurabilityMode::ALL.map(DurabilityMode::name).join(", ")))?;
            Ok(())
        },
        check: |_| None,
    },
    switch!(sync_flushes, "sync each flushed table at once, whatever the tier"),
    switch!(sync_sealed_wals, "sync each log once its memtable is sealed"),
    number!(
        durability_interval_ms,
        0..=60_000,
        "milliseconds between batches of tiers group and background, or looks of tier journal"
    ),
    number!(unsynced_bytes_limit, MIB..=1024 * GIB, "bytes of logs and tables kept until their replacement is durable"),
    Field {
        name: "wal_write_mode",
        help: "write (a system call each, LevelDB's way) or map (through a mapping of the log)",
        get: |options| match options.wal_write_mode {
            WalWriteMode::Write => "write".into(),
            WalWriteMode::Map => "map".into(),
        },
        set: |options, text| {
            options.wal_write_mode = match text {
                "write" => WalWriteMode::Write,
                "map" => WalWriteMode::Map,
                _ => return Err("not one of write, map".into()),
            };
            Ok(())
        },
        check: |_| None,
    },
    switch!(padding, "on a device, write whole pages only; without, the kernel reads before it writes"),
    switch!(direct_io, "on a device, read and write past the kernel's page cache"),
    number!(reserve_bytes, 0..=GIB, "bytes of disk kept for the moment when it is full"),
    number!(wal_size_limit, 0..=1024 * GIB, "bytes of closed logs kept for those who follow the history"),
    number!(max_manifest_file_size, 4 * KIB..=GIB, "bytes after which the manifest is begun anew"),
];

/// A number with an optional unit: `4096`, `64KiB`, `4 MiB`, `1GiB`.
fn parse_number<T: TryFrom<i128>>(text: &str) -> std::result::Result<T, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let unit: i128 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(format!("unknown unit {other:?}; there are B, KiB, MiB, GiB")),
    };
    let number: i128 = text[..digits].parse().map_err(|_| "not a whole number".to_string())?;
    let product = number.checked_mul(unit).ok_or("too large")?;
    T::try_from(product).map_err(|_| "out of range".into())
}

fn parse_switch(text: &str) -> std::result::Result<bool, String> {
    match text {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err("not one of true, false, on, off, yes, no".into()),
    }
}
