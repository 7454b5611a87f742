//! Options that teach: what each number buys, its unit, its default and its bounds.
//!
//! Numbers and switches live here and have a text form (`options/field.rs`). A preset is a named choice of
//! them (`presets.rs`). Only what storage must remember (comparator, shape, codec features) is checked against the store.
mod field;
mod gc_mode;
mod recovery;
mod text;

use crate::{Error, Event, Listener, Result, presets};
use field::FIELDS;
pub use gc_mode::GcMode;
pub use recovery::Recovery;
use std::{fmt, sync::Arc, time::Duration};
use terrace_format::{
    Comparator, KeyOrder, Layout, TableForm, Values,
    compress::Codec,
    filter::{Bloom, FilterPolicy},
};
use terrace_storage::{DurabilityMode, FilterForm, StorageConfig, WalWriteMode};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How to open a store. Start from [`Options::default`] or [`Options::preset`].
///
/// ```
/// # use terrace::{Codec, Db, Options};
/// let mut options = Options::preset("terrace-block")?;
/// options.write_buffer_size = 64 << 20;
/// options.compression = Codec::Zstd;
/// let db = Db::open_in_memory(options)?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    /// Make the store if it is not there. Default true.
    pub create_if_missing: bool,
    /// Refuse a store that is there. Default false.
    pub error_if_exists: bool,
    /// Refuse a directory: the store is to be on a block device, or on a file in its place, that was prepared for one. A device
    /// is used without this option too. Default false.
    pub device: bool,
    /// Refuse a store that is not split: logs and tables on a device that was prepared for them, everything else in a directory. Such a
    /// directory is known as half of a store without this option too. Default false.
    pub split: bool,
    /// Any sign of corruption while opening is an error, even one that a power cut explains; every read verifies
    /// its checksum. Default false.
    pub paranoid_checks: bool,
    /// What an open does with writes that were durable and cannot be read: `refuse` fails, `salvage` keeps all others and
    /// reports the loss. Default refuse.
    pub recovery: Recovery,
    /// Memory, in bytes, that a memtable may fill before it is sealed and flushed, counted as LevelDB's arena counts,
    /// and with what deletes of ranges take. Larger: fewer and longer tables, less compaction, slower recovery. Default 4 MiB; 64 KiB ..= 4 GiB.
    pub write_buffer_size: u64,
    /// Memtables alive at once, the active one included; writers wait above it. So memtables take at most this many times
    /// `write_buffer_size`, and one write more; `memtable_filter` adds a 64th. Default 2; 2 ..= 64.
    pub max_write_buffer_number: u64,
    /// Keep a filter of each memtable's keys beside it, a 64th of `write_buffer_size`, so that reads of keys which it has not do not search
    /// it. Only where keys are compared bytewise. Default false.
    pub memtable_filter: bool,
    /// How tables are stored. Decided when a store is made: `None` then leaves it to the preset, and opens a store that is there
    /// as it is. Asking for another form than a store has is refused. Default `None`.
    pub tables: Option<TableForm>,
    /// Where values live; decided as `tables` is. Default `None`.
    pub values: Option<Values>,
    /// Bytes that a value must have to get a file of its own in tables that are directories; smaller ones stay beside their
    /// keys, where they cost no inode but are copied by compactions. Default 0: all have files; 0 ..= 4 GiB.
    pub min_value_file_size: u64,
    /// With `values=log`: bytes from which on a value stays in the log, and tables only point to it. Shorter ones are copied into
    /// tables. Default 512; 0 ..= 1 GiB.
    pub value_log_threshold: u64,
    /// With `values=log`: writes whose values are all below that, and deletes, go to a small log beside the segment, where they would
    /// be garbage once they are in tables. A write with both goes to the segment whole. Only stores that were created with it have
    /// one. Default true.
    pub wal_sidecar: bool,
    /// With `values=log`: bytes at which a segment of the log ends, and with it its memtable, however little that holds.
    /// Larger: fewer files, and more to replay after a kill. Default 64 MiB; 64 KiB ..= 4 GiB.
    pub value_log_segment_size: u64,
    /// With `values=log`: who empties segments of the log once much of them is garbage. `segments`: compactions move what is
    /// alive out of those where it pays; `off`: nobody, and a segment goes when all of it is garbage. Default segments.
    pub collection: GcMode,
    /// With `values=log`: share of the segments, in percent, that may be garbage before some are emptied: what tables know of,
    /// and what merges lead to expect. While others write, until garbage makes the log an eighth larger than that allows. In a store at
    /// rest, with `collection=segments`, three fifths of the percentage, rounded down, at least 1. Smaller: less space, and more
    /// written. Default 20; 1 ..= 99.
    pub value_log_gc_percent: u64,
    /// Bytes of values in the log that a scan asks for ahead of where it is, once it had to wait for one; and how many that lie side by
    /// side it may keep, an eighth of that from one segment. Larger: more reads at once, for devices that serve many.
    /// Default 1 MiB; 0 (none) ..= 1 GiB.
    pub value_readahead_bytes: u64,
    /// Size, in bytes, at which a compaction ends a table. Default 2 MiB; 64 KiB ..= 1 GiB.
    pub target_file_size: u64,
    /// Uncompressed size of a table's blocks in bytes, the unit of reading. Default 4 KiB; 1 KiB ..= 4 MiB.
    pub block_size: u64,
    /// Keys between two restart points of a block. Smaller: faster seeks, larger blocks. Default 16; 1 ..= 1024.
    pub block_restart_interval: u64,
    /// How blocks are compressed. LZ4 only in stores created with it; Zstd is unreadable to LevelDB 1.23. Default Snappy.
    pub compression: Codec,
    /// Keep deletes of whole ranges as such ([`Db::delete_range`](crate::Db::delete_range)). Only in stores created with it,
    /// which LevelDB refuses; those created with another option of that kind have it too. Default false.
    pub range_tombstones: bool,
    /// Zstd's level. Default 1; -5 ..= 22.
    pub zstd_level: i64,
    /// Bits of Bloom filter per key; 0 for none. A point read of an absent key then seldom touches a block. Only where keys are
    /// compared bytewise: another order may call keys of different bytes the same, and takes a `filter_policy` of its own.
    /// Default 10; 0 ..= 100.
    pub bloom_bits: u64,
    /// Whether filters cover a block's worth of keys (LevelDB's form, which it can use too) or the whole table. Default block.
    pub filter_form: FilterForm,
    /// Bytes of memory for reading: uncompressed blocks, and indexes and filters of open tables as far as these take more
    /// than 32 MiB; blocks keep a quarter, and tables stay open. Default 8 MiB; 0 ..= 1 TiB.
    pub block_cache_size: u64,
    /// Bytes of memory that memtables, indexes and filters of open tables, what cursors have read ahead, and cached blocks may
    /// take together. Blocks get what the others leave, `block_cache_size` at most; then tables are closed. Not counted: the block
    /// each cursor stands on, buffers of tables being written. Default 0: each is bounded by itself. At most 1 PiB; at least
    /// 1 MiB and five quarters of `max_write_buffer_number` × `write_buffer_size`.
    pub memory_budget: u64,
    /// Tables kept open at once, each one descriptor, unless it is mapped, its index and its filter in memory (about a hundredth of a table
    /// with values of 1 KiB), and as many segments of a value log or pairs of directory tables; fewer, if `memory_budget` leaves no more, or this
    /// store's tables and segments would take more than three quarters of the descriptors that the process may have when it is opened.
    /// Default 990; 16 ..= 1,000,000.
    pub max_open_files: u64,
    /// Map the files of tables, and segments of a value log that are complete, instead of reading them, and read uncompressed blocks and values
    /// where they lie, without a copy or a place in the cache. A page that cannot be had, because the file was cut short or its
    /// device fails, ends the process with a message instead of an error. Only in real directories. Default false.
    pub allow_mmap_reads: bool,
    /// Runs in level 0 at which its compaction starts. Default 4; 1 ..= 1000.
    pub level0_file_num_compaction_trigger: u64,
    /// Runs in level 0 at which each write is delayed by 1 ms. Default 8; 1 ..= 10,000, not below `level0_file_num_compaction_trigger`.
    pub level0_slowdown_writes_trigger: u64,
    /// Runs in level 0 at which writes wait. Default 12; 1 ..= 10,000, not below `level0_slowdown_writes_trigger`.
    pub level0_stop_writes_trigger: u64,
    /// Slow writes in proportion to what background work is behind (runs of level 0 from `level0_slowdown_writes_trigger` to `level0_stop_writes_trigger`,
    /// sealed memtables, `soft_pending_compaction_bytes_limit`, the last quarter of `unsynced_bytes_limit`) instead of by 1 ms each, so that few ever wait.
    /// Default false.
    pub delayed_writes: bool,
    /// Bytes above their levels' limits at which `delayed_writes` slows writes most; it begins at half of them. Whatever is set here, on a disk
    /// that is nearly full writes wait for the compactions that run once a quarter of the space they could have is in level 0 and above the
    /// levels' limits; `delayed_writes` slows them from half of that on. Default 0, which is no limit; 0 ..= 1 PiB.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Insert a group of writes into the memtable while the next group's log is written. Default false.
    pub pipelined_writes: bool,
    /// Microseconds that a synced write waits for those writers to come back whom the last sync served, but never more than
    /// half as long as that sync took. More writes for each sync when several threads sync. Default 0; 0 ..= 100,000.
    pub group_commit_wait_us: u64,
    /// Bytes that level 1 may hold; each deeper level holds ten times its upper neighbour. See
    /// also `level_compaction_dynamic_level_bytes`. Default 10 MiB; 64 KiB ..= 1 TiB.
    pub max_bytes_for_level_base: u64,
    /// Levels are sized from both ends. Level 1 holds at least what level 0 brings at once, `level0_file_num_compaction_trigger` memtables: with less,
    /// what just came would only be written again to go deeper; and up to four times that before a level is begun. The last level holds
    /// all, each one above it a tenth of the next: less space, and fewer old versions for scans to pass, than with sizes that count from
    /// level 1 only. While nobody writes, level 0 is due, too, when it holds what level 1 may at least. Where levels hold
    /// entries (`max_entries_for_level_base`) nothing of this holds. Default
    /// false.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Where tables are directories: entries that level 0 may hold; each deeper level holds ten times its upper neighbour, and
    /// `max_bytes_for_level_base` does not count. Default 0 (levels hold bytes); 0 ..= 1,000,000,000.
    pub max_entries_for_level_base: u64,
    /// Compact a table once it has cost many fruitless seeks, as LevelDB does. Default true.
    pub seek_compaction: bool,
    /// With `seek_compaction`, how many bytes of a compaction a fruitless seek pays for: a table goes once its seeks have paid for it and what it
    /// meets below, which is reckoned when they have used up what LevelDB allows, and never sooner. Smaller: fewer compactions, more seeks. Default 0,
    /// LevelDB's rule: as many seeks as a table has 16 KiB, at least a hundred, whatever it meets; in preset `default` 4 KiB. 0 ..= 1 GiB.
    pub seek_compaction_bytes: u64,
    /// What a seek of a cursor that has to search every run is worth for each of level 0, in bytes of compaction: one that finds its key
    /// in the first that filters let pass, and goes no further, is not. Seeks that have
    /// been worth merging level 0 into level 1, while no table came or went, have it merged, however few its runs are.
    /// Default 0 (never); 0 ..= 1 GiB. LevelDB reckons 16 KiB for a seek.
    pub level0_seek_compaction_bytes: u64,
    /// Compactions that may run at once. Default 1; 1 ..= 64.
    pub max_background_compactions: u64,
    /// Compactions at once, and threads of each, that are enough while level 0 is short and somebody writes: fewer than there
    /// are processors leave some to writers and readers. Default 64, which is no bound; 1 ..= 64.
    pub base_background_compactions: u64,
    /// Bytes that all compactions, and collectors of a value log, together may write in a second, so that others who use the device get their
    /// share of it. Not held while level 0 is half way to where writes are slowed, or more lies above the levels' sizes than half of `soft_pending_compaction_bytes_limit`. Flushes
    /// and what is ingested have no limit. Default 0, which is none; 0 ..= 1 TiB.
    pub rate_bytes_per_sec: u64,
    /// Threads that one large compaction may use, each for a range of its keys. Default 1; 1 ..= 64.
    pub max_subcompactions: u64,
    /// Bytes of inputs that are worth such a thread. Default 4 MiB; 1 KiB ..= 1 TiB.
    pub min_subcompaction_size: u64,
    /// Fewest runs of level 0 that are merged among themselves while level 1 is busy, so that reads and writers do not
    /// suffer from their number; they are then written once more. Default 0 (never); 0 ..= 1000.
    pub intra_l0_compaction_trigger: u64,
    /// Least bytes of level 0, in percent of those they meet in level 1, for which they are merged into it while somebody writes: level 0
    /// holds more than `level0_file_num_compaction_trigger` runs then, up to half way to `level0_slowdown_writes_trigger`, where it waits no longer. Fewer bytes are written, and
    /// reads search up to as many more. Where levels hold
    /// entries nothing waits. Default 0 (any); 0 ..= 1000.
    pub level0_min_overlap_percent: u64,
    /// Compact the table first that meets the least below, and end outputs where tables below end, at half to one and a half
    /// `target_file_size`: fewer bytes are written than by LevelDB's turns around the key space. Default false.
    pub least_overlap: bool,
    /// Compactions write a block of an input as it is, still compressed, where no other input has a key among its own and nothing of it is
    /// dropped, if it has the codec of new ones and is no larger than three of them. What lies between such blocks may be small ones; in each
    /// table they hold three quarters of `block_size` on average. Off, tables are cut into blocks as LevelDB would. Default false.
    pub copy_whole_blocks: bool,
    /// A table is merged before its level is due once its tombstones are expected to hide so large a share, in percent, of the bytes that the
    /// merge rewrites: as many entries of what lies below as there are tombstones, and what deletes of ranges cover; puts, too, where
    /// entries below are much larger. In a store at rest a quarter of it is enough, also of what merges lead to expect that newer entries
    /// hide. At the bottom, tables are written without tombstones once these are so large a share of their entries, and flushes leave out
    /// what is overwritten. Smaller: less garbage, and more
    /// written. Default 0 (never, as LevelDB), in presets `default`, `terrace-block`, `terrace` and `raw` 50; 0 ..= 100.
    pub tombstone_compaction_percent: u64,
    /// An idle store starts to become durable after this many milliseconds. Default 5000; 0 (never) ..= 86,400,000.
    pub idle_durability_ms: u64,
    /// How written tables become durable: `sync` each as it is finished, as LevelDB does; `group` many by one commit of the
    /// file system's journal, off the path of writes, on ext4 (refused where ext4 cannot promise it); `journal` waits for the
    /// commits that ext4 makes anyway and forces none, so that replaced tables and logs are kept for some ten seconds;
    /// `journal-bpf` asks the kernel for the very commit that each table waits for, which takes a privilege, or an iterator that
    /// root has pinned (`terrace pin`);
    /// `background` is as `group` with a sync of each file, on any file system; `auto` is `group`, else `background`. `inherit` is
    /// `auto` in new stores, whose marker remembers it, and `sync` in stores that were there before, such as LevelDB's. `none`
    /// promises nothing at a power cut. Default inherit; [`leveldb_compatible`](Options::leveldb_compatible) has sync.
    pub durability: DurabilityMode,
    /// Sync each table that a flush makes as it is finished, whatever the tier does with those of compactions: its log then goes
    /// at once. Default false.
    pub sync_flushes: bool,
    /// Sync a log once its memtable is sealed, as the flush begins: a power cut then costs no more than what the active memtable
    /// holds, however late tables become durable. Nothing waits for it but the flush. Default false.
    pub sync_sealed_wals: bool,
    /// Tiers `group` and `background`: time in milliseconds between two batches, unless what is retained (see
    /// `unsynced_bytes_limit`), or the descriptors that it takes, ask for one sooner. Larger: fewer commits, fewer bytes, since a
    /// table that is merged before its batch begins is never written to the device, and more logs and replaced tables kept for as
    /// long. DurabilityMode `journal`: between two looks at the journal. Default 1000; 0 ..= 60,000.
    pub durability_interval_ms: u64,
    /// Bytes of logs and of replaced tables that may wait for what replaces them to be durable. A batch is begun at half of
    /// it, or at 512 MiB, sixteen memtables or sixteen logs if that is less. Writes wait at the whole, and where logs take too many
    /// descriptors; with `delayed_writes` they are slowed from three quarters on, so it should then be several times
    /// `write_buffer_size`. DurabilityMode `journal` forces a commit where the first of the two begins, and where logs take too many descriptors.
    /// On a disk that is nearly full, but under that tier, it is less: a quarter of what would be free if nothing were retained and
    /// compactions had caught up. Bounds the work of reopening after a kill. Default 1 GiB; 1 MiB ..= 1 TiB.
    pub unsynced_bytes_limit: u64,
    /// How records of the write-ahead log reach the operating system: `write` by a system call each, as LevelDB does; `map`
    /// through a mapping of the preallocated file, on ext4, xfs and tmpfs (elsewhere it writes). `map` is faster for small
    /// writes, synced ones too. After a kill the log ends in zeros, which LevelDB reads as its end, and now and then in half
    /// a record, which `paranoid_checks` takes for damage. Default write.
    pub wal_write_mode: WalWriteMode,
    /// On a device, write whole pages of 4096 bytes, with zeros behind what does not fill one. Without, the kernel reads what else is in
    /// such a page before it writes; to measure what that costs. Default true.
    pub padding: bool,
    /// On a device, read and write past the kernel's page cache. What was written costs no memory there, and a synced write no search
    /// for dirty pages; what is not in `block_cache_size` is read from the device each time. Default false.
    pub direct_io: bool,
    /// Bytes of disk that a file `RESERVE` keeps allocated, for the manifest and one batch: a store that finds the disk full
    /// gives them up to make durable what it has and to remove what that replaces, before it stops
    /// ([`Db::resume`](crate::Db::resume)). Default 0; 0 ..= 1 GiB.
    pub reserve_bytes: u64,
    /// Bytes of closed logs that are kept, after they are needed no more, for [`Db::updates_since`](crate::Db::updates_since)
    /// to read, also over a close or a kill. Default 0; 0 ..= 1 TiB.
    pub wal_size_limit: u64,
    /// Bytes after which the manifest is begun anew; from 1 MiB on also if it is eight times as long as it began. Default 64 MiB;
    /// 4 KiB ..= 1 GiB.
    pub max_manifest_file_size: u64,
    order: KeyOrder,
    filter: Option<Arc<dyn FilterPolicy>>,
    listener: Option<Arc<dyn Listener>>,
    preset: &'static str,
    /// What the preset makes a new store of.
    pub(crate) made_of: Layout,
}

impl Default for Options {
    fn default() -> Options {
        let mut options = presets::terrace_block().named("default");
        options.durability = DurabilityMode::Inherit;
        options
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        FIELDS.iter().for_each(|field| {
            map.entry(&field.name, &format_args!("{}", (field.get)(self)));
        });
        map.finish()
    }
}

impl Options {
    /// A block-table store in LevelDB's formats, with LevelDB's numbers: it can go back to LevelDB after a clean close.
    ///
    /// ```
    /// # use terrace::Options;
    /// assert_eq!(Options::leveldb_compatible().write_buffer_size, 4 << 20);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn leveldb_compatible() -> Options {
        Options {
            create_if_missing: true,
            error_if_exists: false,
            device: false,
            split: false,
            paranoid_checks: false,
            recovery: Recovery::Refuse,
            write_buffer_size: 4 * MIB,
            max_write_buffer_number: 2,
            memtable_filter: false,
            tables: None,
            values: None,
            min_value_file_size: 0,
            value_log_threshold: 512,
            wal_sidecar: true,
            value_log_segment_size: 64 * MIB,
            collection: GcMode::Segments,
            value_log_gc_percent: 20,
            value_readahead_bytes: MIB,
            target_file_size: 2 * MIB,
            block_size: 4 * KIB,
            block_restart_interval: 16,
            compression: Codec::Snappy,
            range_tombstones: false,
            zstd_level: 1,
            bloom_bits: 0,
            filter_form: FilterForm::Block,
            block_cache_size: 8 * MIB,
            memory_budget: 0,
            max_open_files: 990,
            allow_mmap_reads: false,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 8,
            level0_stop_writes_trigger: 12,
            delayed_writes: false,
            soft_pending_compaction_bytes_limit: 0,
            pipelined_writes: false,
            group_commit_wait_us: 0,
            max_bytes_for_level_base: 10 * MIB,
            level_compaction_dynamic_level_bytes: false,
            max_entries_for_level_base: 0,
            seek_compaction: true,
            seek_compaction_bytes: 0,
            level0_seek_compaction_bytes: 0,
            max_background_compactions: 1,
            base_background_compactions: 64,
            rate_bytes_per_sec: 0,
            max_subcompactions: 1,
            min_subcompaction_size: 4 * MIB,
            intra_l0_compaction_trigger: 0,
            level0_min_overlap_percent: 0,
            least_overlap: false,
            copy_whole_blocks: false,
            tombstone_compaction_percent: 0,
            idle_durability_ms: 5000,
            durability: DurabilityMode::Sync,
            sync_flushes: false,
            sync_sealed_wals: false,
            durability_interval_ms: 1000,
            unsynced_bytes_limit: 1 << 30,
            wal_write_mode: WalWriteMode::Write,
            padding: true,
            direct_io: false,
            reserve_bytes: 0,
            wal_size_limit: 0,
            max_manifest_file_size: 64 * MIB,
            order: KeyOrder::Bytewise,
            filter: None,
            listener: None,
            preset: "leveldb",
            made_of: Layout::default(),
        }
    }

    /// The preset that these options began as.
    pub fn preset_name(&self) -> &'static str {
        self.preset
    }

    pub(crate) fn named(mut self, preset: &'static str) -> Options {
        self.preset = preset;
        self
    }

    /// Sorts keys by `comparator` instead of bytewise. Its name is remembered in the store and checked at open.
    ///
    /// ```
    /// # use std::{cmp::Ordering, sync::Arc};
    /// # use terrace::{Comparator, Db, Options, ReadOptions};
    /// #[derive(Debug)]
    /// struct Backward;
    /// impl Comparator for Backward {
    ///     fn name(&self) -> &str {
    ///         "backward"
    ///     }
    ///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
    ///         b.cmp(a)
    ///     }
    /// }
    /// let db = Db::open_in_memory(Options::default().comparator(Arc::new(Backward)))?;
    /// ["a", "b"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let first = db.scan(ReadOptions::new()).next().expect("a pair")?;
    /// assert_eq!(first.0, b"b");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Options {
        self.order = KeyOrder::Custom(comparator);
        self
    }

    /// Uses `policy` for filters instead of the Bloom filter of `bloom_bits`. Tables whose filters have another name are
    /// read without them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use terrace::{Bloom, Options};
    /// let options = Options::default().filter_policy(Arc::new(Bloom::new(16))); // 16 bits a key
    /// ```
    pub fn filter_policy(mut self, policy: Arc<dyn FilterPolicy>) -> Options {
        self.filter = Some(policy);
        self
    }

    /// Tells `listener` what the store does and meets, as it happens.
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Options {
        self.listener = Some(listener);
        self
    }

    /// Tells the listener of an event, if there is a listener.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if let Some(listener) = &self.listener {
            listener.event(&event());
        }
    }

    /// The order of user keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// What a new store is made of. Its storage follows from where it is.
    pub fn layout(&self) -> Layout {
        let Layout { medium, tables, values } = self.made_of;
        Layout { medium, tables: self.tables.unwrap_or(tables), values: self.values.unwrap_or(values) }
    }

    /// What storage must know of these options.
    pub fn setup(&self) -> StorageConfig {
        let bloom = || {
            (self.bloom_bits > 0 && self.order.is_bytewise())
                .then(|| Arc::new(Bloom::new(self.bloom_bits as u32)) as Arc<dyn FilterPolicy>)
        };
        StorageConfig {
            order: self.order.clone(),
            layout: self.layout(),
            block_size: self.block_size as usize,
            block_restart_interval: self.block_restart_interval as usize,
            codec: self.compression,
            zstd_level: self.zstd_level as i32,
            filter: self.filter.clone().or_else(bloom),
            filter_form: self.filter_form,
            block_cache_size: self.block_cache_size,
            memory_budget: Some(self.memory_budget).filter(|bytes| *bytes > 0),
            max_open_files: self.max_open_files as usize,
            min_value_file_size: self.min_value_file_size,
            allow_mmap_reads: self.allow_mmap_reads,
            wal_write_mode: self.wal_write_mode,
            padding: self.padding,
            direct_io: self.direct_io,
            durability_interval: Duration::from_millis(self.durability_interval_ms),
            sync_flushes: self.sync_flushes,
            value_log_threshold: self.value_log_threshold as usize,
            wal_sidecar: self.wal_sidecar,
            value_log_segment_size: self.value_log_segment_size,
        }
    }

    /// Sets one option by its name and text; the error names the option, or lists the names there are.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the option, or lists the names there are.
    ///
    /// ```
    /// # use terrace::Options;
    /// let mut options = Options::default();
    /// options.set("write_buffer_size", "8MiB")?;
    /// assert_eq!(options.write_buffer_size, 8 << 20);
    /// assert!(options.set("memtable_byte", "8MiB").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(field) = FIELDS.iter().find(|field| field.name == name) else {
            return Err(text::unknown(name));
        };
        (field.set)(self, value).map_err(|why| Error::Invalid(format!("option {name}={value}: {why}")))
    }

    /// Every option as (name, value, help).
    ///
    /// ```
    /// # use terrace::Options;
    /// for (name, value, help) in Options::default().describe() {
    ///     println!("{name} = {value}  # {help}");
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn describe(&self) -> Vec<(&'static str, String, &'static str)> {
        FIELDS.iter().map(|field| (field.name, (field.get)(self), field.help)).collect()
    }

    /// Bytes of the filter of a memtable: enough for 8 bits a key where pairs are as small as they can usefully be.
    pub(crate) fn memtable_filter_bytes(&self) -> u64 {
        if self.memtable_filter { self.write_buffer_size / 64 } else { 0 }
    }

    /// Runs in level 0 that press: half way from those that start its compaction to those that slow writes.
    pub(crate) fn l0_pressing_runs(&self) -> u64 {
        self.level0_file_num_compaction_trigger.midpoint(self.level0_slowdown_writes_trigger)
    }

    /// Bytes that level 1 may hold, all things considered.
    pub(crate) fn level_1_bytes(&self) -> u64 {
        let brought = self.level0_file_num_compaction_trigger.saturating_mul(self.write_buffer_size);
        self.max_bytes_for_level_base.max(if self.level_compaction_dynamic_level_bytes { brought } else { 0 })
    }

    /// Checks every bound at once and names each offender.
    ///
    /// # Errors
    /// [`Error::Invalid`] with all offenders.
    ///
    /// ```
    /// # use terrace::Options;
    /// let mut options = Options::default();
    /// options.max_write_buffer_number = 1;
    /// assert!(options.validate().is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn validate(&self) -> Result<()> {
        let mut bad: Vec<String> = FIELDS.iter().filter_map(|field| (field.check)(self)).collect();
        if self.level0_slowdown_writes_trigger < self.level0_file_num_compaction_trigger {
            bad.push("level0_slowdown_writes_trigger is below level0_file_num_compaction_trigger".into());
        }
        if self.level0_stop_writes_trigger < self.level0_slowdown_writes_trigger {
            bad.push("level0_stop_writes_trigger is below level0_slowdown_writes_trigger".into());
        }
        if self.direct_io && !self.padding {
            bad.push("direct_io=true writes whole pages, which padding=false refuses".into());
        }
        let memtables = self.max_write_buffer_number.saturating_mul(self.write_buffer_size);
        let least = MIB.saturating_add((memtables / 4).saturating_mul(5));
        if self.memory_budget > 0 && self.memory_budget < least {
            bad.push(format!("memory_budget is below {least}: memtables take up to {memtables}"));
        }
        if self.order.name().is_empty() {
            bad.push("the comparator has no name".into());
        }
        if bad.is_empty() { Ok(()) } else { Err(Error::Invalid(bad.join("; "))) }
    }
}

/// How to write.
///
/// ```
/// # use terrace::{Db, Options, WriteOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put_with("key", "value", WriteOptions { sync: true })?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Survive a power cut once acknowledged (under tier `none`: no promise); without it, only the end of this process.
    /// One sync per group of writers.
    pub sync: bool,
}

impl WriteOptions {
    /// Durable at return.
    pub fn synced() -> WriteOptions {
        WriteOptions { sync: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_names_offenders() {
        let mut options = Options::default();
        for (name, value, _) in Options::default().describe() {
            options.set(name, &value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        }
        options.set("write_buffer_size", "64KiB").unwrap();
        assert_eq!(options.write_buffer_size, 65536);
        for (name, value) in
            [("write_buffer_size", "64KB"), ("nonsense", "1"), ("compression", "zip"), ("bloom_bits", "-1")]
        {
            let text = options.set(name, value).unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
        options.set("target_file_size", "1").unwrap();
        options.set("level0_stop_writes_trigger", "2").unwrap();
        let text = options.validate().unwrap_err().to_string();
        assert!(
            text.contains("target_file_size is 1") && text.contains("level0_stop_writes_trigger is below"),
            "{text}"
        );
    }
}
