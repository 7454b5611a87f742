//! The parameters of storage: those options of the engine that this crate needs.
use std::{fmt, sync::Arc, time::Duration};
use terrace_format::{KeyOrder, Layout, compress::Codec, filter::FilterPolicy};
use terrace_vfs::WalWriteMode;

/// Parameters for writing the tables of a store, and limits for the memory of its readers.
///
/// `order` must be that of the existing store. All other parameters may change between two
/// openings of a store.
#[derive(Clone)]
pub struct StorageConfig {
    /// The order of user keys.
    pub order: KeyOrder,
    /// The layout of a new store, except its medium, which depends on the store's location. An
    /// existing store has the layout of its format file. Default: LevelDB's layout.
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
    /// Memory in bytes for decompressed data blocks. The part of the index and filter blocks of
    /// open tables above 32 MiB is charged to this memory too. At least a quarter of this memory is
    /// kept for data blocks. Default 8 MiB.
    pub block_cache_size: u64,
    /// The limit in bytes on all memory that the [budget](crate::Budget) counts. Default `None`:
    /// each part of the memory has only its own limit.
    pub memory_budget: Option<u64>,
    /// The maximum number of open tables. Each open table takes a file descriptor and memory for
    /// its index and filter. Fewer tables are open if `memory_budget` has no room for more. Default
    /// 990.
    pub max_open_files: usize,
    /// In directory tables, a value of fewer bytes than this is stored next to its key instead of
    /// in a file of its own. Default 0: every value has a file.
    pub min_value_file_size: u64,
    /// Whether to map the files of tables into memory, and to read uncompressed blocks that are in
    /// memory through the mapping (docs/decisions/0048-mapped-reads-that-fail.md). Default false.
    pub allow_mmap_reads: bool,
    /// How WAL records reach the operating system. Default [`WalWriteMode::Write`].
    pub wal_write_mode: WalWriteMode,
    /// On a raw device, whether to write whole pages and pad the last one with zeros. Without
    /// padding, a write of a part of a page makes the kernel read the rest of the page first.
    /// Default true.
    pub padding: bool,
    /// Whether to read and write a raw device without the kernel's page cache. Default false.
    pub direct_io: bool,
    /// The minimum time between two batch syncs in the durability modes `group` and `background`.
    /// If file descriptors get scarce, a batch sync begins before this time has passed. Default 1
    /// s.
    pub durability_interval: Duration,
    /// Whether each table of a flush job is synced when it is finished. If it is, the durability
    /// mode applies only to the tables of compactions. Default false.
    pub sync_flushes: bool,
    /// With a value log: the minimum size in bytes of a value that is stored in the value log.
    /// Shorter values are stored in the tables. Default 512.
    pub value_log_threshold: usize,
    /// With a value log: whether batches that have no value for the value log are written to a WAL
    /// sidecar (a second file next to the WAL). Default true.
    pub wal_sidecar: bool,
    /// The size in bytes at which a flush or compaction job ends its value-log segment. The job
    /// then ends its open table too. Default 64 MiB.
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
    /// LevelDB's form: one filter for the data blocks that begin within each 2 KiB of the table.
    #[default]
    Block,
    /// Terrace's form: one filter for the whole table. A lookup of an absent key then does not read
    /// the index. LevelDB ignores this filter.
    Table,
}
