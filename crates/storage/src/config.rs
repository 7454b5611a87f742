//! The parameters of storage: the engine's options as far as storage needs them.
use std::{fmt, sync::Arc, time::Duration};
use terrace_format::{KeyOrder, Layout, compress::Codec, filter::FilterPolicy};
use terrace_vfs::WalWriteMode;

/// How the tables of a store are written, and how much memory readers may take.
///
/// Only `order` must match an existing store; everything else may change between two openings.
#[derive(Clone)]
pub struct StorageConfig {
    /// The order of user keys.
    pub order: KeyOrder,
    /// The layout of a new store; its medium follows from the location. An existing store has the
    /// layout of its format file. Default: LevelDB's.
    pub layout: Layout,
    /// A data block ends once it has this many bytes, before compression. Default 4096.
    pub block_size: usize,
    /// Entries between two restart points of a data block. Default 16.
    pub block_restart_interval: usize,
    /// The compression of blocks. Default Snappy.
    pub codec: Codec,
    /// The level of [`Codec::Zstd`], in the library's numbers. Default 1.
    pub zstd_level: i32,
    /// The filter policy; `None` writes no filters and ignores existing ones. Default none.
    pub filter: Option<Arc<dyn FilterPolicy>>,
    /// The form of new filters; both forms are read. Default [`FilterForm::Block`].
    pub filter_form: FilterForm,
    /// Memory for decompressed data blocks, and for index and filter blocks of open tables as far
    /// as they exceed 32 MiB, in bytes. Data blocks keep at least a quarter of it. Default 8 MiB.
    pub block_cache_size: u64,
    /// Memory for everything that the [budget](crate::Budget) counts, in bytes. Default `None`:
    /// each part has its own bound.
    pub memory_budget: Option<u64>,
    /// The number of open tables. Each takes a descriptor and memory for its index and filter.
    /// Fewer, if `memory_budget` leaves no more. Default 990.
    pub max_open_files: usize,
    /// In directory tables, values of fewer bytes are stored next to their keys. Default 0: every
    /// value has a file.
    pub min_value_file_size: u64,
    /// Maps the files of tables and of finished value-log segments, and reads uncompressed blocks
    /// and values from the mapping. An unreadable page ends the process with a message
    /// (docs/decisions/0008-mapped-reads.md). Default false.
    pub allow_mmap_reads: bool,
    /// How WAL records reach the operating system. Default [`WalWriteMode::Write`].
    pub wal_write_mode: WalWriteMode,
    /// On a device, writes whole pages and pads the last one with zeros. Otherwise the kernel
    /// reads the rest of a page before it writes it. Default true.
    pub padding: bool,
    /// Reads and writes a device without the kernel's page cache. Default false.
    pub direct_io: bool,
    /// The least time between two batches of the durability modes `group` and `background`, unless
    /// descriptors get scarce. Default 1 s.
    pub durability_interval: Duration,
    /// Syncs each table of a flush job as it is finished, whatever the durability mode does with
    /// the tables of compactions. Default false.
    pub sync_flushes: bool,
    /// With a value log: the least size of a value that is stored in it, in bytes. Shorter values
    /// are in the tables. Default 512.
    pub value_log_threshold: usize,
    /// With a value log: batches without a value for it go to a WAL sidecar next to the segment.
    /// Default true.
    pub wal_sidecar: bool,
    /// The size at which a value-log segment of a flush or compaction job ends, and with it the
    /// open table, in bytes. Default 64 MiB.
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

/// The form of a table's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterForm {
    /// LevelDB's: one filter for the blocks that begin in each 2 KiB.
    #[default]
    Block,
    /// Terrace's: one filter for the whole table, so that a miss does not read the index. LevelDB
    /// ignores it.
    Table,
}
