//! The declaration of every option. To add an option or to change one, only this file is edited.
//!
//! An entry is `name: type ["unit"] = default, in bounds, alias "name";` with the rustdoc before
//! it. The unit, the bounds and the aliases may be left out. The default is LevelDB's value. For a
//! feature that LevelDB does not have, the default turns the feature off. Presets (`presets.rs`)
//! change defaults. The first paragraph of the rustdoc is the help text. After a change, this
//! command generates `docs/options.md`:
//! `UPDATE_OPTIONS_PAGE=1 cargo test -p terrace --lib options::page`.
use super::{
    CompactionPri, CompactionStyle, GcMode, Recovery,
    declare::{Spec, declare_options, out_of_bounds, parse},
    value::OptionValue,
};
use crate::Listener;
use std::sync::Arc;
use terrace_format::{KeyOrder, Layout, TableForm, Values, compress::Codec, filter::FilterPolicy};
use terrace_storage::{DurabilityMode, FilterForm, WalWriteMode, vfs::TextLog};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

declare_options! {
    /// Options with which a store is opened. Start from [`Options::default`] or
    /// [`Options::preset`].
    ///
    /// ```
    /// # use terrace::{Codec, Db, Options};
    /// let mut options = Options::preset("leveldb")?;
    /// options.write_buffer_size = 64 << 20;
    /// options.compression = Codec::Zstd;
    /// let db = Db::open_in_memory(options)?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[derive(Clone)]
    pub struct Options {
        pub(super) order: KeyOrder = KeyOrder::Bytewise;
        pub(super) filter: Option<Arc<dyn FilterPolicy>> = None;
        pub(super) listener: Option<Arc<dyn Listener>> = None;
        /// The file `LOG` of an open store.
        pub(crate) text_log: Option<Arc<TextLog>> = None;
        pub(super) preset: &'static str = "leveldb";
        /// The layout that the preset gives to a new store.
        pub(crate) made_of: Layout = Layout::default();
    }

    "Opening" {
        /// Creates the store if it does not exist.
        create_if_missing: bool = true;

        /// Fails if the store already exists.
        error_if_exists: bool = false;

        /// Requires a store on a block device prepared by `terrace raw format`; refuses a
        /// directory.
        ///
        /// A file prepared in place of a device is accepted. Terrace recognises a prepared device
        /// even without this option.
        device: bool = false;

        /// Requires a split store: WALs and SSTables on a prepared device, the rest in a directory.
        ///
        /// `terrace raw format --meta` prepares such a device. Terrace recognises the directory of
        /// a split store even without this option.
        split: bool = false;

        /// Reports any corruption at open as an error and verifies checksums on every read.
        ///
        /// With this option a torn tail (an incomplete end of a WAL, which a power cut can leave)
        /// is an error too.
        paranoid_checks: bool = false;

        /// How an open handles damage to the durable writes in a WAL: `refuse` or `salvage`.
        ///
        /// With `refuse` the open fails and changes nothing. With `salvage` the open skips the
        /// damage, keeps all durable writes that it can read, before and after the damage, and
        /// reports the loss. A torn tail (an unreadable, unsynced end of a WAL) is no such damage.
        /// A torn tail does not fail an open, unless `paranoid_checks` is on.
        recovery: Recovery = Recovery::Refuse;

        /// Writes messages about an open store into the file `LOG` of its directory.
        ///
        /// Opens, flushes, compactions, damage and failures get a line each. While the store is
        /// written, and at its close, the statistics get a line, which `terrace advise` reads. An
        /// open renames the previous `LOG` to `LOG.old`. The option applies only to stores in real
        /// directories.
        info_log: bool = true;
    }

    "Memtables" {
        /// Size of a memtable, in memory, at which it is sealed and flushed; 0 to derive it from
        /// `memory_budget`.
        ///
        /// The size is counted as LevelDB's arena counts, plus the memory of range tombstones.
        /// Larger values give fewer and larger SSTables and less compaction, but a slower
        /// recovery. With 0, all memtables together take half of `memory_budget`, and a memtable at
        /// most 64 MiB; without a budget a memtable takes 32 MiB. Other values are at least 64 KiB.
        write_buffer_size: u64 ["bytes"] = 4 * MIB, in 0..=4 * GIB;

        /// Number of memtables in memory, including the active one, above which writes stall.
        ///
        /// Memtables take at most this number times `write_buffer_size`, plus one write.
        /// `memtable_filter` adds 1/64 of this memory.
        max_write_buffer_number: u64 ["memtables"] = 2, in 2..=64;

        /// Adds a Bloom filter to each memtable, so that lookups of absent keys do not search the
        /// memtable.
        ///
        /// The filter takes 1/64 of `write_buffer_size`. The option has no effect unless keys are
        /// compared bytewise.
        memtable_filter: bool = false;
    }

    "Layout of a new store" {
        /// Form of SSTables in a new store: `block`, `bundled` or `directory`.
        ///
        /// The layout is decided when a store is created. With the value `preset` (`None`) a new
        /// store has the layout of its preset, and an existing store is opened with the layout
        /// that it has. Any other value must match the layout of an existing store.
        tables: Option<TableForm> = None;

        /// Location of values in a new store: `table` (in the SSTables) or `log` (in a value log).
        ///
        /// The location is decided when a store is created, as the value of `tables` is.
        values: Option<Values> = None;

        /// Supports range tombstones ([`Db::delete_range`](crate::Db::delete_range)) in a new
        /// store.
        ///
        /// LevelDB refuses such a store. An existing store keeps the features with which it was
        /// created.
        range_tombstones: bool = false;

        /// With `tables=directory`: size from which a value is stored in a separate file.
        ///
        /// Smaller values are stored with their keys: they need no inode, but compactions copy
        /// them. With 0 every value has a separate file.
        min_value_file_size: u64 ["bytes"] = 0, in 0..=4 * GIB;
    }

    "Value log" {
        /// With `values=log`: size from which a value is stored in the value log.
        ///
        /// SSTables then contain a value pointer. Smaller values are copied into the SSTables.
        value_log_threshold: u64 ["bytes"] = 512, in 0..=GIB;

        /// With `values=log`: batches without values for the value log are written to a WAL
        /// sidecar.
        ///
        /// In a segment, such batches (small values and deletes) would be garbage as soon as they
        /// are flushed. A batch with small and large values is written to the segment as a whole.
        /// The option has an effect only in stores that were created with it.
        wal_sidecar: bool = true;

        /// With `values=log`: size at which a segment ends and its memtable is sealed.
        ///
        /// The memtable is sealed even if it is small. Larger segments give fewer files and a
        /// longer replay.
        value_log_segment_size: u64 ["bytes"] = 64 * MIB, in 64 * KIB..=4 * GIB;

        /// Value-log garbage collection (with `values=log`): `segments`, `tail` or `off`.
        ///
        /// - `segments`: compactions relocate live values out of the segments in which this saves
        ///   most.
        /// - `tail`: WiscKey's garbage collection, which re-appends the live values of the oldest
        ///   segments.
        /// - `off`: a segment is deleted when all of it is garbage.
        value_log_gc: GcMode = GcMode::Segments;

        /// With `values=log`: share of garbage in the value log at which garbage collection
        /// starts.
        ///
        /// Garbage is the bytes of values that SSTables have dropped, plus an estimate of the
        /// bytes that pending compactions will drop. While the store receives writes, collection
        /// starts once garbage makes the log 1/8 larger than this share allows. In an idle store
        /// with `value_log_gc=segments`, collection continues down to 3/5 of this share, rounded
        /// down, but at least 1 %. Smaller values save space, but increase write amplification.
        value_log_gc_percent: u64 ["percent"] = 20, in 1..=99;

        /// With `values=log`: bytes of values that an iterator reads ahead; 0 disables readahead.
        ///
        /// Readahead starts once an iterator has waited for a value. An iterator also keeps
        /// adjacent values in memory: at most 1/8 of this limit for each segment. With larger
        /// limits, more reads are in progress at the same time.
        value_readahead_bytes: u64 ["bytes"] = MIB, in 0..=GIB;
    }

    "SSTables" {
        /// Size at which a compaction ends an SSTable and begins the next one.
        target_file_size: u64 ["bytes"] = 2 * MIB, in 64 * KIB..=GIB,
            alias "max_file_size", alias "target_file_size_base";

        /// Uncompressed size of a data block, which a read loads as a whole.
        block_size: u64 ["bytes"] = 4 * KIB, in KIB..=4 * MIB;

        /// Number of keys between two restart points of a block.
        ///
        /// Smaller values make seeks faster and blocks larger.
        block_restart_interval: u64 ["keys"] = 16, in 1..=1024;

        /// Compression of blocks: `none`, `snappy`, `zstd` or `lz4`.
        ///
        /// LevelDB 1.23 cannot read blocks with `zstd`. `lz4` works only in a store that was
        /// created with it, and LevelDB refuses such a store.
        compression: Codec = Codec::Snappy;

        /// Compression level of `zstd`.
        zstd_level: i64 = 1, in -5..=22;

        /// Bits of the Bloom filter per key; with 0 no filters are written.
        ///
        /// With a filter, a lookup of an absent key rarely reads a data block. The filter is used
        /// only if keys are compared bytewise. Another comparator may treat different bytes as
        /// equal, and needs a separate [`filter_policy`](crate::Options::filter_policy).
        bloom_bits: u64 ["bits per key"] = 0, in 0..=100, alias "filter_policy";

        /// Scope of a filter: `block` (LevelDB's form, a filter for the blocks of each 2 KiB) or
        /// `table`.
        ///
        /// LevelDB can use filters of the form `block` and ignores those of the form `table`.
        /// Terrace reads filters of both forms.
        filter_form: FilterForm = FilterForm::Block;
    }

    "Memory and file descriptors for reads" {
        /// Limit on the memory of a store: memtables, indexes, filters, caches; 0 for no limit.
        ///
        /// The parts share the memory as the load needs it. Memtables take at most half, iterator
        /// readahead an eighth, indexes and filters half of what memtables leave, and the block
        /// cache the rest. For SSTables whose index and filter do not fit, only a small part of the
        /// index is in memory, and lookups read the rest from the file. An eighth of the limit is
        /// left for uncounted memory: the current block of each iterator, buffers of SSTables
        /// that are being written, and unused memory of the allocator.
        /// A `write_buffer_size` or `block_cache_size` that needs more raises the limit. Values
        /// other than 0 are at least 8 MiB.
        memory_budget: u64 ["bytes"] = 0, in 0..=1024 * TIB;

        /// Capacity of the block cache, which also holds large indexes and filters; 0 to derive it
        /// from `memory_budget`.
        ///
        /// The cache holds uncompressed blocks. It also holds the indexes and filters of open
        /// SSTables, except for their first 32 MiB. At least a quarter of the cache is reserved
        /// for blocks. SSTables stay open even if their indexes and filters exceed the rest. With
        /// 0 the cache takes the memory that the other parts of `memory_budget` leave; without a
        /// budget it takes 64 MiB.
        block_cache_size: u64 ["bytes"] = 8 * MIB, in 0..=TIB, alias "block_cache";

        /// Number of SSTables that are kept open.
        ///
        /// Each open SSTable takes a file descriptor and the memory of its index and filter. With
        /// values of 1 KiB, index and filter take about 1/100 of the size of the SSTable. The same
        /// number of value-log segments, or of pairs in directory tables, are kept open. The number
        /// is lowered in two cases: if `memory_budget` leaves too little memory, or if SSTables and
        /// segments would take more than 3/4 of the file descriptors that the process may have when
        /// it opens the store.
        max_open_files: u64 ["files"] = 990, in 16..=1_000_000;

        /// Maps SSTables into memory, so that point lookups and seeks need no system calls.
        ///
        /// Reads use the mapping if a block is not compressed and its pages are in memory. Point
        /// lookups then do not fill the block cache. With `verify_checksums`, the first read of a
        /// block after its SSTable was opened verifies the checksum. If many pages are missing,
        /// because the SSTables are larger than the free memory, the store uses system calls and
        /// the block cache until they fit again. A page that cannot be read is an error: the first
        /// open of an SSTable installs a handler for the signal SIGBUS, which passes signals for
        /// other addresses to the previous handler. If the calling thread blocks SIGBUS, such a
        /// page ends the process. SSTables that are opened after another part of the program has
        /// replaced the handler are not mapped. The option has no effect with `paranoid_checks`,
        /// with a comparator, on stores that are not in directories or are open for reading only,
        /// on bundled SSTables, and above 16,384 mappings of the process. After
        /// `mlockall(MCL_FUTURE)`, turn the option off: the kernel would read each SSTable whole.
        allow_mmap_reads: bool = false, alias "use_mmap_reads";
    }

    "Level 0 and write stalls" {
        /// Number of sorted runs in level 0 at which a compaction starts.
        level0_file_num_compaction_trigger: u64 ["runs"] = 4, in 1..=1000;

        /// Number of sorted runs in level 0 at which writes are slowed.
        ///
        /// Each write is delayed by 1 ms; with `delayed_writes` the delay is variable. The value
        /// must not be below `level0_file_num_compaction_trigger`.
        level0_slowdown_writes_trigger: u64 ["runs"] = 8, in 1..=10_000;

        /// Number of sorted runs in level 0 at which writes stop.
        ///
        /// The value must not be below `level0_slowdown_writes_trigger`.
        level0_stop_writes_trigger: u64 ["runs"] = 12, in 1..=10_000;

        /// Slows writes in proportion to the backlog of background work, instead of by 1 ms each.
        ///
        /// The backlog is the highest of four ratios: the position of the number of level-0 runs
        /// between the slowdown trigger and the stop trigger, the number of immutable memtables,
        /// the compaction debt relative to `soft_pending_compaction_bytes_limit`, and the use of
        /// the last quarter of `unsynced_bytes_limit`. With this option writes rarely stop.
        delayed_writes: bool = false;

        /// Compaction debt at which `delayed_writes` slows writes most; 0 for no limit.
        ///
        /// The compaction debt is the number of bytes above the target sizes of levels. Slowing
        /// starts at half of the limit.
        ///
        /// On a nearly full disk writes also stop, whatever this limit is: while compactions run,
        /// writes stop once level 0 and the compaction debt take a quarter of the space that would
        /// be free without them. `delayed_writes` slows writes from half of that amount on.
        soft_pending_compaction_bytes_limit: u64 ["bytes"] = 0, in 0..=1024 * TIB;
    }

    "Group commit" {
        /// Inserts a write group into the memtable while the next write group is written to the
        /// WAL.
        pipelined_writes: bool = false;

        /// Time that a synced write waits for writers of the previous write group to join; 0 for no
        /// wait.
        ///
        /// The wait is at most half of the time that the previous sync took. When several threads
        /// sync, the wait makes write groups larger.
        group_commit_wait_us: u64 ["µs"] = 0, in 0..=100_000;
    }

    "Compaction" {
        /// Shape of the tree: `leveled`, or `universal` for fewer rewrites but more space.
        ///
        /// - `leveled` has one sorted run per level and compacts SSTable by SSTable.
        /// - `universal` merges whole sorted runs of similar size. It writes less, but it takes up
        ///   to three times the space of the data, and twice that during a compaction of all runs.
        ///   Reads probe more runs.
        ///
        /// The shape is decided when a store is created, because LevelDB refuses a universal
        /// store. A universal store may be opened with `leveled` later.
        compaction_style: CompactionStyle = CompactionStyle::Leveled;

        /// With `compaction_style=universal`: how many percent larger the next run to merge may
        /// be.
        ///
        /// A sorted run joins a compaction if it is at most this many percent larger than all
        /// newer runs of the compaction together.
        universal_size_ratio: u64 ["percent"] = 1, in 0..=10_000,
            alias "compaction_options_universal.size_ratio";

        /// With `compaction_style=universal`: smallest number of runs in a compaction by size
        /// ratio.
        universal_min_merge_width: u64 ["runs"] = 2, in 2..=1000,
            alias "compaction_options_universal.min_merge_width";

        /// With `compaction_style=universal`: space amplification at which all runs are merged.
        ///
        /// Space amplification is the number of bytes of all runs but the oldest, in percent of
        /// the oldest run.
        universal_max_size_amplification_percent: u64 ["percent"] = 200, in 1..=100_000,
            alias "compaction_options_universal.max_size_amplification_percent";

        /// Target size of level 1; the target of each deeper level is ten times larger.
        ///
        /// See also `level_compaction_dynamic_level_bytes`.
        max_bytes_for_level_base: u64 ["bytes"] = 10 * MIB, in 64 * KIB..=TIB;

        /// Computes target sizes of levels from the bytes of the last level and of flushed
        /// memtables.
        ///
        /// The target of each level is a tenth of the target of the level below. For this purpose
        /// the last level counts with all bytes of the store. Level 1 holds at least
        /// `level0_file_num_compaction_trigger` memtables, so that flushed data is not rewritten
        /// into level 1 only to be moved on. Level 1 may grow to four times that size before the
        /// store gets a new level.
        ///
        /// In comparison with targets that are computed from level 1 downwards, these targets take
        /// less space and leave fewer obsolete versions for iterators to skip. An idle store also
        /// compacts level 0 once level 0 has the minimum size of level 1. The option has no effect
        /// with `max_entries_for_level_base`.
        level_compaction_dynamic_level_bytes: bool = false;

        /// With `tables=directory`: target number of entries in level 0; 0 sizes levels by bytes.
        ///
        /// The target of each deeper level is ten times that of the level above. With a target in
        /// entries, `max_bytes_for_level_base` has no effect.
        max_entries_for_level_base: u64 ["entries"] = 0, in 0..=1_000_000_000;

        /// Order in which a level's SSTables are compacted: `round_robin` or
        /// `min_overlapping_ratio`.
        ///
        /// - `round_robin` takes the SSTables in key order, as LevelDB does.
        /// - `min_overlapping_ratio` takes the SSTable with the lowest ratio of the bytes that it
        ///   overlaps in the next level to its own bytes. It also ends output tables, between 1/2
        ///   and 3/2 of `target_file_size`, where an SSTable of the level below the output level
        ///   ends. This order writes less.
        compaction_pri: CompactionPri = CompactionPri::RoundRobin;

        /// Number of threads that background work may use; 0 for the number of processors.
        ///
        /// The next three options follow from it where they are 0.
        parallelism: u64 ["threads"] = 0, in 0..=256;

        /// Number of compactions that may run concurrently; 0 to derive it from `parallelism`.
        ///
        /// With 0 the number is `parallelism`, at most 8.
        max_background_compactions: u64 ["jobs"] = 1, in 0..=64, alias "max_background_jobs";

        /// Limit on compactions, and on threads in each, while level 0 has few runs and writes
        /// arrive.
        ///
        /// The limit applies while the number of runs in level 0 is less than half way from
        /// `level0_file_num_compaction_trigger` to `level0_slowdown_writes_trigger`, unless the
        /// store is idle. If the limit is lower than the number of processors, some processors are
        /// free for readers and writers. With 64 only `max_background_compactions` and
        /// `max_subcompactions` limit compactions. With 0 the limit is half of `parallelism`, at
        /// most 8.
        base_background_compactions: u64 ["jobs"] = 64, in 0..=64;

        /// Number of threads in which one large compaction may run; 0 to derive it from
        /// `parallelism`.
        ///
        /// With 0 the number is `parallelism`, at most 4.
        max_subcompactions: u64 ["threads"] = 1, in 0..=64;

        /// Input bytes of a compaction for each of its subcompactions.
        min_subcompaction_size: u64 ["bytes"] = 4 * MIB, in KIB..=TIB;

        /// Rate limit for compactions and value-log garbage collection together; 0 for no limit.
        ///
        /// The limit is lifted when compactions are too slow, that is, in three cases: when level 0
        /// is half way from `level0_file_num_compaction_trigger` to
        /// `level0_slowdown_writes_trigger`, when the compaction debt reaches half of
        /// `soft_pending_compaction_bytes_limit`, and when the disk is nearly full. Flushes and
        /// ingested files are not limited.
        rate_bytes_per_sec: u64 ["bytes/s"] = 0, in 0..=TIB;

        /// Smallest number of runs that an intra-L0 compaction merges; 0 disables such
        /// compactions.
        ///
        /// An intra-L0 compaction merges sorted runs of level 0 with each other while a compaction
        /// of level 1 runs. It reduces the number of runs for reads and for write stalls, but
        /// writes the data once more.
        intra_l0_compaction_trigger: u64 ["runs"] = 0, in 0..=1000;

        /// Size of level 0 required for its compaction, in percent of its overlap in level 1; 0
        /// for none.
        ///
        /// While the store receives writes, level 0 may have more runs than
        /// `level0_file_num_compaction_trigger`. Its compaction waits until level 0 has the
        /// required size, or until the number of runs is half way from that trigger to
        /// `level0_slowdown_writes_trigger`. This lowers write amplification, but reads search
        /// more runs. The option has no effect if levels are sized by entries.
        level0_min_overlap_percent: u64 ["percent"] = 0, in 0..=1000;

        /// Copies compressed input blocks unchanged if no other input overlaps them.
        ///
        /// A block is copied if none of its entries is dropped, if it has the codec of new blocks,
        /// and if it is at most three times as large as a new block. Blocks between copied blocks
        /// may be small, but on average the blocks of a table have at least 3/4 of `block_size`.
        /// If this option is off, tables are divided into blocks exactly as LevelDB divides them.
        copy_whole_blocks: bool = false;
    }

    "Compactions that reads and tombstones cause" {
        /// Compacts an SSTable when its seek budget is exhausted, as LevelDB does.
        seek_compaction: bool = true;

        /// With `seek_compaction`: bytes of compaction that a fruitless seek pays for; 0 for
        /// LevelDB's rule.
        ///
        /// A fruitless seek is a read that searches an SSTable without finding its key. An SSTable
        /// is compacted once its fruitless seeks have paid for its own bytes and the bytes that it
        /// overlaps in the next level, but not before LevelDB's seek budget is exhausted.
        /// LevelDB's budget is one seek for each 16 KiB of the SSTable, at least 100 seeks,
        /// whatever the overlap is. Smaller values give fewer compactions and more fruitless
        /// seeks.
        seek_compaction_bytes: u64 ["bytes"] = 0, in 0..=GIB;

        /// Bytes of compaction that a seek through all runs pays for, per run in level 0; 0
        /// disables this.
        ///
        /// Once seeks through all runs have paid for a compaction of level 0 into level 1, level 0
        /// is compacted, even if it has few runs. The payments start at 0 again when an SSTable is
        /// added or removed. A seek does not count if the iterator finds its key in the first run
        /// that the filters do not exclude, and is not advanced after that. LevelDB treats a seek
        /// as equal to 16 KiB of compaction.
        level0_seek_compaction_bytes: u64 ["bytes"] = 0, in 0..=GIB;

        /// Expected gain at which a tombstone compaction starts, in percent of its input bytes; 0
        /// for never.
        ///
        /// A tombstone compaction compacts an SSTable although its level is within the target
        /// size, because the SSTable makes entries of a deeper level obsolete. The gain is the
        /// estimated number of bytes that become free in the first deeper level with keys of the
        /// SSTable's range. It is the sum of three parts:
        ///
        /// - for each tombstone, one entry of average size in the deeper level;
        /// - the entries of the deeper level that range tombstones of the SSTable delete;
        /// - the entries of the deeper level that puts of the SSTable probably overwrite. While
        ///   the store receives writes, this part is included only if the average entry of the
        ///   deeper level is more than four times as large as that of the SSTable.
        ///
        /// In an idle store a quarter of the percentage is sufficient.
        ///
        /// An SSTable with no older SSTable below it is rewritten if at least this percentage of
        /// its entries is garbage: tombstones and overwritten entries that no snapshot needs. If
        /// the option is not 0, flushes also drop overwritten entries. Smaller values leave less
        /// garbage, but write more.
        tombstone_compaction_percent: u64 ["percent"] = 0, in 0..=100;
    }

    "Durability" {
        /// Durability mode of SSTables: `sync`, `group`, `background`, `journal`, …, `auto`,
        /// `inherit`, `none`.
        ///
        /// - `sync`: each SSTable is synced when it is finished, as in LevelDB.
        /// - `group`: one commit of the ext4 journal makes many SSTables durable, and no writer
        ///   waits for it. An open refuses this mode if the file system does not guarantee that
        ///   such a commit makes the SSTables durable.
        /// - `background`: like `group`, but with a sync of each file, on any file system.
        /// - `journal`: the store waits for the commits that ext4 makes regularly, and forces none.
        ///   Replaced SSTables and WALs are kept for about ten seconds.
        /// - `journal-bpf`: like `journal`, but the store requests from the kernel the number of
        ///   the commit that contains each SSTable. The request needs a privilege, or an iterator
        ///   that root has pinned (`terrace pin`).
        /// - `auto`: `group` where possible, else `background`.
        /// - `inherit`: `auto` in new stores, whose format file records it, and `sync` in stores
        ///   that were created otherwise, for instance by LevelDB.
        /// - `none`: the store promises nothing at a power cut.
        durability: DurabilityMode = DurabilityMode::Sync;

        /// Time between two batch syncs in the modes `group` and `background`.
        ///
        /// A batch sync makes the files of many jobs durable. It starts earlier if
        /// `unsynced_bytes_limit` or the file descriptors of unsynced files require this. With
        /// larger values the store syncs less, because an SSTable that is compacted before its
        /// batch sync is never synced, but it keeps more WALs and replaced SSTables. In mode
        /// `journal` this is the time between two probes of the journal.
        durability_interval_ms: u64 ["ms"] = 1000, in 0..=60_000;

        /// Time without writes after which an idle store syncs all writes; 0 disables this sync.
        idle_durability_ms: u64 ["ms"] = 5000, in 0..=86_400_000;

        /// Limit on the bytes of WALs and replaced SSTables that are kept until newer files are
        /// durable.
        ///
        /// A batch sync starts at half of the limit, or at 512 MiB, 16 memtables or 16 WALs if one
        /// of these is less. Writes stop at the limit, or when WALs take too many file
        /// descriptors. With `delayed_writes`, writes are slowed from 3/4 of the limit on; the
        /// limit should then be several times `write_buffer_size`.
        ///
        /// In mode `journal` a commit is forced at half of the limit, or when WALs take too many
        /// file descriptors. In all other modes, the limit is lower on a nearly full disk: a
        /// quarter of the space that would be free without retained files and compaction debt. The
        /// limit also bounds the replay after a crash.
        unsynced_bytes_limit: u64 ["bytes"] = GIB, in MIB..=TIB;

        /// Syncs each flushed SSTable immediately, whatever the durability mode is.
        ///
        /// The WAL of the flushed memtable is then deleted immediately. The outputs of compactions
        /// follow the durability mode.
        sync_flushes: bool = false;

        /// Syncs a WAL when its memtable is sealed.
        ///
        /// A power cut then loses at most the unsynced writes of the active memtable, even if
        /// SSTables become durable much later. Only the flush job waits for this sync.
        sync_sealed_wals: bool = false;
    }

    "Write-ahead log, manifest and disk space" {
        /// How WAL records are written: `write` (one system call each) or `map` (through a memory
        /// mapping).
        ///
        /// `map` writes through a mapping of the preallocated file, on ext4, xfs and tmpfs; on
        /// other file systems it works like `write`. `map` is faster for small writes, including
        /// synced writes. After a crash the WAL ends in zeros, which LevelDB reads as the end of
        /// the WAL. Sometimes it ends in a partial record, which `paranoid_checks` reports as
        /// corruption.
        wal_write_mode: WalWriteMode = WalWriteMode::Write;

        /// Bytes of obsolete WALs that are kept for
        /// [`Db::updates_since`](crate::Db::updates_since).
        ///
        /// Obsolete WALs stay even after a close or a crash of the store.
        wal_size_limit: u64 ["bytes"] = 0, in 0..=TIB;

        /// Size of the manifest at which a new manifest is started.
        ///
        /// A manifest of at least 1 MiB is also replaced if it is eight times as large as it was
        /// at its start.
        max_manifest_file_size: u64 ["bytes"] = 64 * MIB, in 4 * KIB..=GIB;

        /// Size of the file `RESERVE`: disk space that is reserved for recovery from a full disk.
        ///
        /// If a store runs out of space, it first releases the reserve, half of it for the
        /// manifest alone. In the released space the store syncs its files, commits pending
        /// edits to the manifest and deletes obsolete files. If too little space is free after
        /// that, the store stops writes ([`Db::resume`](crate::Db::resume)).
        reserve_bytes: u64 ["bytes"] = 0, in 0..=GIB;
    }

    "Devices" {
        /// On a device: pads writes with zeros to whole pages of 4096 bytes.
        ///
        /// Without padding the kernel reads the rest of a page before it writes the page. Turn
        /// this option off only to measure that cost.
        pad_device_writes: bool = true;

        /// On a device: bypasses the page cache of the kernel (direct I/O).
        ///
        /// Writes then take no memory of the page cache, and a sync does not search for dirty
        /// pages. Blocks that are not in the block cache are read from the device each time. The
        /// option needs `pad_device_writes`.
        direct_io: bool = false;
    }
}
