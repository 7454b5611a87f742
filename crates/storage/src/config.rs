//! How tables are written and read: the numbers and parts that storage needs from the engine's options.
use std::{fmt, sync::Arc, time::Duration};
use terrace_format::{KeyOrder, Layout, compress::Codec, filter::FilterPolicy};
use terrace_vfs::WalWriteMode;

/// What a store's tables look like, and how much memory reading them may take.
///
/// Only `order` must match what is on storage already; everything else may change from open to open.
#[derive(Clone)]
pub struct StorageConfig {
    /// Order of user keys.
    pub order: KeyOrder,
    /// What a new store is made of; its storage follows from the location. A store that is there is as its marker says.
    /// Default: LevelDB's.
    pub layout: Layout,
    /// A data block is cut once it has this many bytes, before compression. Default 4096.
    pub block_size: usize,
    /// Entries between two whole keys of a data block. Default 16.
    pub block_restart_interval: usize,
    /// How blocks are compressed. Default Snappy.
    pub codec: Codec,
    /// Effort of [`Codec::Zstd`], as the library counts it. Default 1.
    pub zstd_level: i32,
    /// Makes and asks filters; `None` writes none and ignores those that are there. Default none.
    pub filter: Option<Arc<dyn FilterPolicy>>,
    /// Which filters are written; either is read. Default [`FilterForm::Block`].
    pub filter_form: FilterForm,
    /// Memory for data blocks, in bytes as they are once decompressed, and for indexes and filters of open tables as far
    /// as these take more than 32 MiB. Blocks keep a quarter of it. Default 8 MiB.
    pub block_cache_size: u64,
    /// Memory for everything that the [budget](crate::Budget) counts, in bytes. Default `None`: each is bounded by itself.
    pub memory_budget: Option<u64>,
    /// Tables kept open, each one descriptor, its index and its filter in memory. Fewer, if `memory_budget` leaves no more. Default 990.
    pub max_open_files: usize,
    /// Values of fewer bytes stay beside their keys in tables that are directories. Default 0: each has a file.
    pub min_value_file_size: u64,
    /// Maps the files of tables and the segments of a value log that nobody appends to, and reads uncompressed blocks and values where they
    /// lie. A page that cannot be had ends the process with a message (docs/decisions/0008-mapped-reads.md). Default false.
    pub allow_mmap_reads: bool,
    /// How records reach the operating system. Default [`WalWriteMode::Write`].
    pub wal_write_mode: WalWriteMode,
    /// On a device, whole pages are written, and zeros behind what does not fill one. Without, the kernel reads what else is in the
    /// page before it is written. Default true.
    pub padding: bool,
    /// A device is read and written past the kernel's page cache. Default false.
    pub direct_io: bool,
    /// Least time between two batches of tiers `group` and `background`, unless descriptors get scarce. Default 1 s.
    pub durability_interval: Duration,
    /// Syncs each table that a flush makes as it is finished, whatever the tier does with those of compactions. Default false.
    pub sync_flushes: bool,
    /// Where values live in a log: from how many bytes on. Shorter ones are in the tables. Default 512.
    pub value_log_threshold: usize,
    /// Where values live in a log: batches without one that stays there are beside its segment, in a log of their own. Default true.
    pub wal_sidecar: bool,
    /// Bytes at which a segment that belongs to a build ends, and with it the table that is open then. Default 64 MiB.
    pub value_log_segment_size: u64,
}

impl Default for StorageConfig {
    fn default() -> StorageConfig {
        StorageConfig {
            order: KeyOrder::Bytewise,
            layout: Layout::default(),
            block_size: 4096,
            block_restart_interval: 16,
            codec: Codec::Snappy,
            zstd_level: 1,
            filter: None,
            filter_form: FilterForm::Block,
            block_cache_size: 8 << 20,
            memory_budget: None,
            max_open_files: 990,
            min_value_file_size: 0,
            allow_mmap_reads: false,
            wal_write_mode: WalWriteMode::Write,
            padding: true,
            direct_io: false,
            durability_interval: Duration::from_secs(1),
            sync_flushes: false,
            value_log_threshold: 512,
            wal_sidecar: true,
            value_log_segment_size: 64 << 20,
        }
    }
}

impl fmt::Debug for StorageConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageConfig")
            .field("order", &self.order)
            .field("layout", &self.layout)
            .field("block_size", &self.block_size)
            .field("block_restart_interval", &self.block_restart_interval)
            .field("codec", &self.codec)
            .field("zstd_level", &self.zstd_level)
            .field("filter", &self.filter.as_ref().map(|policy| policy.name().to_string()))
            .field("filter_form", &self.filter_form)
            .field("block_cache_size", &self.block_cache_size)
            .field("memory_budget", &self.memory_budget)
            .field("max_open_files", &self.max_open_files)
            .field("min_value_file_size", &self.min_value_file_size)
            .field("allow_mmap_reads", &self.allow_mmap_reads)
            .field("wal_write_mode", &self.wal_write_mode)
            .field("padding", &self.padding)
            .field("direct_io", &self.direct_io)
            .field("durability_interval", &self.durability_interval)
            .field("sync_flushes", &self.sync_flushes)
            .field("value_log_threshold", &self.value_log_threshold)
            .field("wal_sidecar", &self.wal_sidecar)
            .finish()
    }
}

/// Where a table's filter lies, and what it spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterForm {
    /// LevelDB's: one filter for the blocks that begin in each 2 KiB.
    #[default]
    Block,
    /// Ours: one filter for the whole table, so that a miss does not touch the index. LevelDB skips it.
    Table,
}
