//! The declaration of every option: the one place to add an option or to change one.
//!
//! An entry is `name: type ["unit"] = default, in bounds, alias "name";` with the rustdoc before
//! it. The unit, the bounds and the aliases may be left out. The default is LevelDB's value, or
//! the value that turns off a feature which LevelDB lacks; presets (`presets.rs`) change it. The
//! first paragraph of the rustdoc is the help text. After a change run `UPDATE_OPTIONS_PAGE=1
//! cargo test -p terrace --lib options::page` for `docs/options.md`.
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
    /// How to open a store. Start from [`Options::default`] or [`Options::preset`].
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
        /// The layout that the preset gives a new store.
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
        /// A file prepared in place of a device is accepted. A prepared device is recognised
        /// without this option.
        device: bool = false;

        /// Requires a split store: WALs and SSTables on a prepared device, the rest in a directory.
        ///
        /// `terrace raw format --meta` prepares such a device. The directory is recognised without
        /// this option.
        split: bool = false;

        /// Reports any corruption at open as an error and verifies checksums on every read.
        ///
        /// A torn WAL tail, which a power cut explains, is an error too.
        paranoid_checks: bool = false;

        /// What recovery does with durable writes in a damaged WAL: `refuse` or `salvage`.
        ///
        /// `refuse` fails the open. `salvage` keeps all other writes and reports the loss.
        recovery: Recovery = Recovery::Refuse;

        /// Writes messages about an open store into the file `LOG` of its directory.
        ///
        /// Opens, flushes, compactions, damage and failures get a line each. The file of the last
        /// session is kept as `LOG.old`. Applies to stores in real directories only.
        info_log: bool = true;
    }

    "Memtables" {
        /// Memory of a memtable at which it is sealed and flushed.
        ///
        /// Counted as LevelDB's arena counts, plus the memory of range tombstones. Larger values
        /// give fewer and larger SSTables and less compaction, but a slower recovery.
        write_buffer_size: u64 ["bytes"] = 4 * MIB, in 64 * KIB..=4 * GIB;

        /// Number of memtables in memory, the active one included; writes stall above it.
        ///
        /// Memtables take at most this number times `write_buffer_size`, plus one write.
        /// `memtable_filter` adds 1/64.
        max_write_buffer_number: u64 ["memtables"] = 2, in 2..=64;

        /// Keeps a Bloom filter for each memtable, so that lookups of absent keys do not search it.
        ///
        /// The filter takes 1/64 of `write_buffer_size`. Ignored unless keys are compared bytewise.
        memtable_filter: bool = false;
    }

    "Layout of a new store" {
        /// Form of SSTables in a new store: `block`, `bundled` or `directory`.
        ///
        /// The layout is decided when a store is created. With `preset` (`None`) a new store
        /// follows the preset, and an existing one is opened as it is. Any other value must match
        /// the layout of an existing store.
        tables: Option<TableForm> = None;

        /// Location of values in a new store: `table` (in the SSTables) or `log` (in a value log).
        ///
        /// Decided when a store is created, as `tables` is.
        values: Option<Values> = None;

        /// Supports range tombstones ([`Db::delete_range`](crate::Db::delete_range)) in a new
        /// store.
        ///
        /// LevelDB refuses such a store. An existing store keeps the features it was created with.
        range_tombstones: bool = false;

        /// With `tables=directory`: size from which a value gets a file of its own.
        ///
        /// Smaller values stay with their keys: they cost no inode, but compactions copy them. 0
        /// gives every value a file.
        min_value_file_size: u64 ["bytes"] = 0, in 0..=4 * GIB;
    }

    "Value log" {
        /// With `values=log`: size from which a value is kept in the value log.
        ///
        /// SSTables then hold a value pointer. Smaller values are copied into the SSTables.
        value_log_threshold: u64 ["bytes"] = 512, in 0..=GIB;

        /// With `values=log`: batches with no value for the value log go to a WAL sidecar instead.
        ///
        /// Such batches (small values and deletes) would be garbage in a segment as soon as they
        /// are flushed. A batch with small and large values goes to the segment whole. Only for
        /// stores created with this option.
        wal_sidecar: bool = true;

        /// With `values=log`: size at which a segment ends and its memtable is sealed.
        ///
        /// The memtable is sealed however little it holds. Larger segments give fewer files and a
        /// longer replay.
        value_log_segment_size: u64 ["bytes"] = 64 * MIB, in 64 * KIB..=4 * GIB;

        /// With `values=log`: value-log garbage collection: `segments`, `tail` or `off`.
        ///
        /// `segments`: compactions relocate live values from the segments where that pays. `tail`:
        /// WiscKey's garbage collection, which re-appends the live values of the oldest segments.
        /// `off`: a segment is deleted once all of it is garbage.
        value_log_gc: GcMode = GcMode::Segments;

        /// With `values=log`: share of garbage in the value log at which garbage collection starts.
        ///
        /// Garbage is what SSTables have dropped, plus an estimate of what pending compactions will
        /// drop. While there are writes, collection starts once garbage makes the log 1/8 larger
        /// than this share allows. An idle store with `value_log_gc=segments` collects down to 3/5
        /// of the share, rounded down, at least 1 %. Smaller values save space and cost write
        /// amplification.
        value_log_gc_percent: u64 ["percent"] = 20, in 1..=99;

        /// With `values=log`: bytes of values that an iterator reads ahead; 0 disables readahead.
        ///
        /// Readahead starts once an iterator has waited for a value. The limit also bounds the
        /// adjacent values that the iterator keeps, 1/8 of it for each segment. Larger values put
        /// more reads in flight.
        value_readahead_bytes: u64 ["bytes"] = MIB, in 0..=GIB;
    }

    "SSTables" {
        /// Size at which a compaction ends an SSTable.
        target_file_size: u64 ["bytes"] = 2 * MIB, in 64 * KIB..=GIB,
            alias "max_file_size", alias "target_file_size_base";

        /// Uncompressed size of a data block, the unit of reading.
        block_size: u64 ["bytes"] = 4 * KIB, in KIB..=4 * MIB;

        /// Number of keys between restart points of a block.
        ///
        /// Smaller values give faster seeks and larger blocks.
        block_restart_interval: u64 ["keys"] = 16, in 1..=1024;

        /// Compression of blocks: `none`, `snappy`, `zstd` or `lz4`.
        ///
        /// LevelDB 1.23 cannot read `zstd`. `lz4` needs a store that was created with it, which
        /// LevelDB refuses.
        compression: Codec = Codec::Snappy;

        /// Compression level of `zstd`.
        zstd_level: i64 = 1, in -5..=22;

        /// Bits of Bloom filter per key; 0 writes no filters.
        ///
        /// With a filter, a lookup of an absent key rarely reads a data block. Used only where keys
        /// are compared bytewise: another comparator may treat different bytes as equal and needs
        /// its own [`filter_policy`](crate::Options::filter_policy).
        bloom_bits: u64 ["bits per key"] = 0, in 0..=100, alias "filter_policy";

        /// Scope of a filter: `block` (LevelDB's form, one for the blocks of each 2 KiB) or
        /// `table`.
        ///
        /// LevelDB can use the first form and skips the second. Filters of both forms are read.
        filter_form: FilterForm = FilterForm::Block;
    }

    "Memory and file descriptors for reads" {
        /// Capacity of the block cache, which also holds large indexes and filters.
        ///
        /// The cache holds uncompressed blocks, and the indexes and filters of open SSTables beyond
        /// the first 32 MiB. Blocks keep at least a quarter of it, and SSTables stay open.
        block_cache_size: u64 ["bytes"] = 8 * MIB, in 0..=TIB, alias "block_cache";

        /// Limit on memtables, indexes, filters, iterator readahead and cached blocks; 0 for no
        /// limit.
        ///
        /// Blocks get what the others leave, at most `block_cache_size`; then SSTables are closed.
        /// The current block of each iterator and the buffers of SSTables being written are not
        /// counted. A limit must be at least 1 MiB plus 5/4 of `max_write_buffer_number` ×
        /// `write_buffer_size`.
        memory_budget: u64 ["bytes"] = 0, in 0..=1024 * TIB;

        /// Number of SSTables that are kept open.
        ///
        /// Each takes a file descriptor (unless it is mapped) and the memory of its index and
        /// filter, about 1/100 of an SSTable with values of 1 KiB. The same number of value-log
        /// segments, or pairs of directory tables, are kept open. The number is lowered if
        /// `memory_budget` leaves no room, or if the SSTables and segments would take more than 3/4
        /// of the process's descriptor limit at open.
        max_open_files: u64 ["files"] = 990, in 16..=1_000_000;

        /// Memory-maps SSTables and complete value-log segments instead of reading them.
        ///
        /// Uncompressed blocks and values are used in place, without a copy and without the block
        /// cache. A page that cannot be read (the file was truncated, or the device fails) ends the
        /// process with a message. Applies to stores in real directories only.
        allow_mmap_reads: bool = false, alias "use_mmap_reads";
    }

    "Level 0 and write stalls" {
        /// Number of sorted runs in level 0 that starts a compaction.
        level0_file_num_compaction_trigger: u64 ["runs"] = 4, in 1..=1000;

        /// Number of sorted runs in level 0 at which writes are slowed.
        ///
        /// Each write is delayed by 1 ms, or as `delayed_writes` says. Not below
        /// `level0_file_num_compaction_trigger`.
        level0_slowdown_writes_trigger: u64 ["runs"] = 8, in 1..=10_000;

        /// Number of sorted runs in level 0 at which writes stop.
        ///
        /// Not below `level0_slowdown_writes_trigger`.
        level0_stop_writes_trigger: u64 ["runs"] = 12, in 1..=10_000;

        /// Slows writes in proportion to the backlog of background work, instead of by 1 ms each.
        ///
        /// The backlog is the greatest of four: level-0 runs between the slowdown and the stop
        /// trigger, immutable memtables, `soft_pending_compaction_bytes_limit`, and the last
        /// quarter of `unsynced_bytes_limit`. Writes then rarely stop.
        delayed_writes: bool = false;

        /// Compaction debt at which `delayed_writes` slows writes most; 0 for no limit.
        ///
        /// The debt is the bytes above the target sizes of levels. Slowing starts at half of the
        /// limit. Whatever the limit, writes on a nearly full disk stop while compactions run, once
        /// level 0 and the debt hold a quarter of the space that would be free without them;
        /// `delayed_writes` slows writes from half of that.
        soft_pending_compaction_bytes_limit: u64 ["bytes"] = 0, in 0..=1024 * TIB;
    }

    "Group commit" {
        /// Inserts a write group into the memtable while the next group writes the WAL.
        pipelined_writes: bool = false;

        /// Time that a synced write waits for the writers of the previous group to join; 0 for
        /// none.
        ///
        /// The wait is at most half the time of the previous sync. It makes groups larger when
        /// several threads sync.
        group_commit_wait_us: u64 ["µs"] = 0, in 0..=100_000;
    }

    "Compaction" {
        /// Shape of the tree: `leveled`, or `universal` for few rewrites and more space.
        ///
        /// `leveled` keeps one sorted run per level and compacts SSTable by SSTable. `universal`
        /// merges whole sorted runs of similar size: it writes less, takes up to three times the
        /// space, twice that during a compaction of everything, and reads probe more runs.
        /// Decided when a store is created: LevelDB refuses a universal store. Such a store may be
        /// opened with `leveled` later.
        compaction_style: CompactionStyle = CompactionStyle::Leveled;

        /// With `compaction_style=universal`: how much larger the next run to merge may be.
        ///
        /// A run joins a compaction while it is at most this many percent larger than all newer
        /// runs of it together.
        universal_size_ratio: u64 ["percent"] = 1, in 0..=10_000,
            alias "compaction_options_universal.size_ratio";

        /// With `compaction_style=universal`: fewest runs of a compaction by size ratio.
        universal_min_merge_width: u64 ["runs"] = 2, in 2..=1000,
            alias "compaction_options_universal.min_merge_width";

        /// With `compaction_style=universal`: space amplification at which all runs are merged.
        ///
        /// Bytes of all runs but the oldest, in percent of the oldest run.
        universal_max_size_amplification_percent: u64 ["percent"] = 200, in 1..=100_000,
            alias "compaction_options_universal.max_size_amplification_percent";

        /// Target size of level 1; each deeper level is ten times larger.
        ///
        /// See also `level_compaction_dynamic_level_bytes`.
        max_bytes_for_level_base: u64 ["bytes"] = 10 * MIB, in 64 * KIB..=TIB;

        /// Sizes levels from both ends: by the bytes level 0 brings and the bytes of the last
        /// level.
        ///
        /// Level 1 holds at least `level0_file_num_compaction_trigger` memtables, so that flushed
        /// data is not rewritten at once only to go deeper, and up to four times that before a new
        /// level starts. The last level holds all data, and each level above it a tenth of the
        /// next. This takes less space, and leaves fewer obsolete versions for iterators to skip,
        /// than sizes counted from level 1. An idle store also compacts level 0 once it holds the
        /// minimum size of level 1. No effect with `max_entries_for_level_base`.
        level_compaction_dynamic_level_bytes: bool = false;

        /// With `tables=directory`: target number of entries in level 0; 0 sizes levels by bytes.
        ///
        /// Each deeper level holds ten times the entries of the level above.
        /// `max_bytes_for_level_base` has no effect then.
        max_entries_for_level_base: u64 ["entries"] = 0, in 0..=1_000_000_000;

        /// Order in which a level's SSTables are compacted: `round_robin` or
        /// `min_overlapping_ratio`.
        ///
        /// `round_robin` walks the key space, as LevelDB does. `min_overlapping_ratio` takes the
        /// SSTable that overlaps the fewest bytes in the next level per byte of its own, and cuts
        /// outputs where SSTables of the level below the output level end, at 1/2 to 3/2 of
        /// `target_file_size`. It writes less.
        compaction_pri: CompactionPri = CompactionPri::RoundRobin;

        /// Number of compactions that run concurrently.
        max_background_compactions: u64 ["jobs"] = 1, in 1..=64, alias "max_background_jobs";

        /// Number of compactions, and threads of each, while level 0 is short and there are writes.
        ///
        /// A number below that of processors leaves some to readers and writers. 64 sets no bound.
        base_background_compactions: u64 ["jobs"] = 64, in 1..=64;

        /// Number of subcompactions (threads) of one large compaction.
        max_subcompactions: u64 ["threads"] = 1, in 1..=64;

        /// Bytes of inputs for each subcompaction.
        min_subcompaction_size: u64 ["bytes"] = 4 * MIB, in KIB..=TIB;

        /// Rate limit of compactions and value-log garbage collection together; 0 for no limit.
        ///
        /// The limit is lifted when compactions fall behind: when level 0 is half way from
        /// `level0_file_num_compaction_trigger` to `level0_slowdown_writes_trigger`, when the
        /// compaction debt reaches half of `soft_pending_compaction_bytes_limit`, and when the
        /// disk is nearly full. Flushes and ingested files are not limited.
        rate_bytes_per_sec: u64 ["bytes/s"] = 0, in 0..=TIB;

        /// Fewest level-0 runs for an intra-L0 compaction while level 1 is busy; 0 disables it.
        ///
        /// An intra-L0 compaction reduces the number of runs for readers and for write stalls. It
        /// writes the data once more.
        intra_l0_compaction_trigger: u64 ["runs"] = 0, in 0..=1000;

        /// Least size of level 0 for a compaction, in percent of its overlap in level 1; 0 for
        /// none.
        ///
        /// While the store receives writes, level 0 may collect more runs than
        /// `level0_file_num_compaction_trigger`. Its compaction waits until level 0 has this size,
        /// or until the number of runs is half way from that trigger to
        /// `level0_slowdown_writes_trigger`. This lowers write amplification, but reads search more
        /// runs. No effect where levels are sized by entries.
        level0_min_overlap_percent: u64 ["percent"] = 0, in 0..=1000;

        /// Copies compressed input blocks unchanged where no other input overlaps them.
        ///
        /// A block is copied if none of its entries is dropped, it has the codec of new blocks, and
        /// it is at most three times as large as one. Blocks between copied ones may be small; on
        /// average a table's blocks hold at least 3/4 of `block_size`. When off, tables are cut
        /// into blocks as LevelDB cuts them.
        copy_whole_blocks: bool = false;
    }

    "Compactions that reads and tombstones cause" {
        /// Compacts an SSTable whose seek budget is exhausted, as LevelDB does.
        seek_compaction: bool = true;

        /// With `seek_compaction`: compaction bytes that one fruitless seek pays for; 0 for
        /// LevelDB's rule.
        ///
        /// An SSTable is compacted once its fruitless seeks have paid for it and its overlap in the
        /// next level, but not before LevelDB's budget is exhausted. LevelDB's rule is one seek for
        /// each 16 KiB of the SSTable, at least 100, whatever the overlap. Smaller values give
        /// fewer compactions and more seeks.
        seek_compaction_bytes: u64 ["bytes"] = 0, in 0..=GIB;

        /// Compaction bytes that a seek through all runs pays for, per level-0 run; 0 disables it.
        ///
        /// Level 0 is compacted into level 1, however few its runs are, once such seeks have paid
        /// for that compaction while no SSTable was added or removed. A seek does not count if the
        /// first run that filters admit has its key and the iterator is not advanced. LevelDB
        /// counts 16 KiB for a seek.
        level0_seek_compaction_bytes: u64 ["bytes"] = 0, in 0..=GIB;

        /// Share of a compaction that tombstones must be expected to free to start it early; 0
        /// disables it.
        ///
        /// An SSTable is then compacted before its level is due. The estimate is as many entries of
        /// deeper levels as there are tombstones, plus the entries that range tombstones cover,
        /// plus overwritten entries where those below are much larger. An idle store needs a
        /// quarter of the share, and counts shadowed entries too. In the bottommost level, tables
        /// with this share of tombstones are rewritten without them, and flushes drop overwritten
        /// entries. Smaller values leave less garbage and write more.
        tombstone_compaction_percent: u64 ["percent"] = 0, in 0..=100;
    }

    "Durability" {
        /// Durability mode of SSTables: `sync`, `group`, `background`, `journal`, …, `auto`,
        /// `inherit`, `none`.
        ///
        /// - `sync`: each SSTable is synced when it is finished, as in LevelDB.
        /// - `group`: one commit of the ext4 journal makes many SSTables durable, off the write
        ///   path. Refused where ext4 cannot promise that.
        /// - `background`: as `group`, with a sync of each file, on any file system.
        /// - `journal`: waits for the commits that ext4 makes anyway and forces none. Replaced
        ///   SSTables and WALs are kept for about ten seconds.
        /// - `journal-bpf`: as `journal`, but asks the kernel for the commit that contains each
        ///   SSTable. Needs a privilege, or an iterator that root has pinned (`terrace pin`).
        /// - `auto`: `group` where possible, else `background`.
        /// - `inherit`: `auto` in new stores, whose format file records it, and `sync` in stores
        ///   created otherwise, such as LevelDB's.
        /// - `none`: promises nothing at a power cut.
        durability: DurabilityMode = DurabilityMode::Sync;

        /// Time between two batch syncs of modes `group` and `background`.
        ///
        /// A batch sync starts earlier when `unsynced_bytes_limit` or the file descriptors of
        /// unsynced files require it. Larger values sync less, because an SSTable that is compacted
        /// before its batch is never synced, and keep more WALs and replaced SSTables. In mode
        /// `journal` this is the time between two probes of the journal.
        durability_interval_ms: u64 ["ms"] = 1000, in 0..=60_000;

        /// Time without writes after which an idle store syncs everything; 0 disables it.
        idle_durability_ms: u64 ["ms"] = 5000, in 0..=86_400_000;

        /// Limit on WALs and replaced SSTables that wait for their replacement to become durable.
        ///
        /// A batch sync starts at half of the limit, or at 512 MiB, 16 memtables or 16 WALs if that
        /// is less. Writes stop at the limit, or when WALs take too many file descriptors.
        /// `delayed_writes` slows writes from 3/4 of the limit, which should then be several times
        /// `write_buffer_size`. Mode `journal` forces a commit at half of the limit, or when WALs
        /// take too many descriptors. On a nearly full disk the limit is lower, except in mode
        /// `journal`: a quarter of the space that would be free without retained files and
        /// compaction debt. The limit also bounds the replay after a crash.
        unsynced_bytes_limit: u64 ["bytes"] = GIB, in MIB..=TIB;

        /// Syncs each flushed SSTable at once, whatever the durability mode.
        ///
        /// Its WAL is then deleted at once. Outputs of compactions follow the durability mode.
        sync_flushes: bool = false;

        /// Syncs a WAL when its memtable is sealed.
        ///
        /// A power cut then loses at most the unsynced writes of the active memtable, however late
        /// SSTables become durable. Only the flush waits for this sync.
        sync_sealed_wals: bool = false;
    }

    "Write-ahead log, manifest and disk space" {
        /// How WAL records are written: `write` (a system call each) or `map` (through a mapping).
        ///
        /// `map` writes through a mapping of the preallocated file, on ext4, xfs and tmpfs;
        /// elsewhere it is `write`. It is faster for small writes, synced ones included. After a
        /// crash the WAL ends in zeros, which LevelDB reads as its end, and sometimes in a partial
        /// record, which `paranoid_checks` reports as corruption.
        wal_write_mode: WalWriteMode = WalWriteMode::Write;

        /// Bytes of obsolete WALs that are kept for
        /// [`Db::updates_since`](crate::Db::updates_since).
        ///
        /// They are kept across a close or a crash.
        wal_size_limit: u64 ["bytes"] = 0, in 0..=TIB;

        /// Size at which a new manifest is started.
        ///
        /// From 1 MiB on, a manifest eight times as large as at its start is replaced too.
        max_manifest_file_size: u64 ["bytes"] = 64 * MIB, in 4 * KIB..=GIB;

        /// Size of the file `RESERVE`, disk space that is kept for recovery from a full disk.
        ///
        /// A store that runs out of space first releases the reserve. In that space it syncs its
        /// files, commits the manifest and deletes obsolete files. If that frees too little, it
        /// stops writes ([`Db::resume`](crate::Db::resume)).
        reserve_bytes: u64 ["bytes"] = 0, in 0..=GIB;
    }

    "Devices" {
        /// On a device: pads writes to whole pages of 4096 bytes with zeros.
        ///
        /// Without padding the kernel reads the rest of a page before it writes; turn it off to
        /// measure that cost.
        pad_device_writes: bool = true;

        /// On a device: bypasses the kernel's page cache (direct I/O).
        ///
        /// Writes then take no page-cache memory, and a sync does not search for dirty pages.
        /// Blocks that are not in the block cache are read from the device each time. Needs
        /// `pad_device_writes`.
        direct_io: bool = false;
    }
}
