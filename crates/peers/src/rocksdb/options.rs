//! Options for opening a RocksDB store.
use super::ffi::{self, Api, Handle};
use std::ffi::c_int;

/// Compression of new blocks. The numbers are those of RocksDB's C API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are not compressed.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4.
    Lz4 = 4,
    /// Zstandard.
    Zstd = 7,
}

/// The compaction style of a RocksDB store, and the place of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Leveled compaction; each level is ten times as large as the one above.
    #[default]
    Leveled,
    /// Universal compaction: sorted runs of similar size are compacted together.
    Universal,
    /// Leveled compaction of keys, with the values in blob files. Compactions also remove garbage
    /// from the blob files.
    Blob,
}

/// The options of RocksDB that this interface sets, with RocksDB's names. All other options have
/// RocksDB's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Create the store if it does not exist.
    pub create_if_missing: bool,
    /// Organisation of the SSTables.
    pub layout: Layout,
    /// Compression of new blocks and blobs.
    pub compression: Compression,
    /// Size of a memtable in bytes. RocksDB may have two memtables.
    pub write_buffer_size: u64,
    /// Size in bytes at which a compaction closes an output SSTable.
    pub target_file_size_base: u64,
    /// Size limit of level 1 in bytes.
    pub max_bytes_for_level_base: u64,
    /// Three counts of level 0 files: the one that triggers a compaction, the one that slows writes
    /// down, and the one that stops them. With universal compaction, they are counts of sorted
    /// runs.
    pub level0_triggers: (u32, u32, u32),
    /// Uncompressed bytes of entries per block.
    pub block_size: u64,
    /// Size of the cache of uncompressed blocks, in bytes.
    pub cache_bytes: u64,
    /// Bits per key of the Bloom filter; `None` for no filter.
    pub bloom_bits: Option<u32>,
    /// Maximum number of open files.
    pub max_open_files: u32,
    /// Reads verify block checksums.
    pub verify_checksums: bool,
}

impl Default for OpenOptions {
    /// RocksDB's defaults, without compression.
    fn default() -> OpenOptions {
        OpenOptions {
            create_if_missing: false,
            layout: Layout::Leveled,
            compression: Compression::None,
            write_buffer_size: 64 << 20,
            target_file_size_base: 64 << 20,
            max_bytes_for_level_base: 256 << 20,
            level0_triggers: (4, 20, 36),
            block_size: 4 << 10,
            cache_bytes: 32 << 20,
            bloom_bits: None,
            max_open_files: 1000,
            verify_checksums: true,
        }
    }
}

impl OpenOptions {
    /// Returns RocksDB's options object. The object has its own references to the cache and the
    /// filter.
    pub(super) fn object(&self, api: &Api) -> Handle<ffi::Options> {
        let mut options = api.common.options();
        api.set_create_if_missing(&mut options, self.create_if_missing);
        api.set_compression(&mut options, self.compression as c_int);
        api.set_write_buffer_size(&mut options, size(self.write_buffer_size));
        api.set_max_write_buffer_number(&mut options, 2);
        api.set_target_file_size_base(&mut options, self.target_file_size_base);
        api.set_max_bytes_for_level_base(&mut options, self.max_bytes_for_level_base);
        let (compact, slow, stop) = self.level0_triggers;
        api.set_level0_compaction_trigger(&mut options, saturated(compact));
        api.set_level0_slowdown_trigger(&mut options, saturated(slow));
        api.set_level0_stop_trigger(&mut options, saturated(stop));
        api.set_max_open_files(&mut options, saturated(self.max_open_files));
        match self.layout {
            Layout::Leveled => {}
            Layout::Universal => api.set_compaction_style(&mut options, 1),
            Layout::Blob => {
                api.set_enable_blob_files(&mut options, true);
                api.set_enable_blob_gc(&mut options, true);
                api.set_blob_compression_type(&mut options, self.compression as c_int);
            }
        }
        let bloom_bits = self.bloom_bits.map(f64::from);
        api.set_tables(&mut options, size(self.block_size), size(self.cache_bytes), bloom_bits);
        options
    }
}

fn saturated(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
