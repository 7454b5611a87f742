//! How a RocksDB store is opened.
use super::ffi::{self, Api, Handle};
use std::ffi::c_int;

/// How RocksDB compresses the blocks it writes, by its own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored as they are.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4.
    Lz4 = 4,
    /// Zstandard.
    Zstd = 7,
}

/// How RocksDB lays out its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Levels, each ten times as large as the one above.
    #[default]
    Leveled,
    /// Sorted runs that are merged when they are alike in size.
    Universal,
    /// Levels of keys, with the values in blob files that compactions collect.
    Blob,
}

/// What of RocksDB's options this face sets, by RocksDB's names; all others stay RocksDB's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Make a store where none is.
    pub create_if_missing: bool,
    /// How tables are laid out.
    pub layout: Layout,
    /// Of new blocks and blobs.
    pub compression: Compression,
    /// Bytes of memory that a memtable may fill; there are two.
    pub write_buffer_size: u64,
    /// Bytes at which a table of a compaction is closed.
    pub target_file_size_base: u64,
    /// Bytes that the first level may hold.
    pub max_bytes_for_level_base: u64,
    /// Files in level 0 (sorted runs, if universal) that start a compaction, slow writes, stop them.
    pub level0_triggers: (u32, u32, u32),
    /// Bytes of entries in one block, before compression.
    pub block_size: u64,
    /// Bytes of uncompressed blocks kept in memory.
    pub cache_bytes: u64,
    /// A Bloom filter with that many bits per key, or none.
    pub bloom_bits: Option<u32>,
    /// Files kept open.
    pub max_open_files: u32,
    /// Reads verify the checksums of blocks.
    pub verify_checksums: bool,
}

impl Default for OpenOptions {
    /// RocksDB's own numbers, without compression.
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
    /// RocksDB's options object, which keeps what it needs of the cache and the filter by itself.
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
