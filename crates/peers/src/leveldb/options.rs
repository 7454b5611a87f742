//! Options for opening a LevelDB store.
use super::ffi::{self, Api, Handle};
use std::ffi::c_int;

/// Compression of new blocks. With either setting, LevelDB can read blocks of both kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are not compressed.
    None,
    /// Blocks are compressed with Snappy if this saves at least one eighth of the size.
    #[default]
    Snappy,
}

/// LevelDB's options, with LevelDB's names and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Create the store if it does not exist.
    pub create_if_missing: bool,
    /// Return an error if the store exists.
    pub error_if_exists: bool,
    /// Stop at the first corruption instead of dropping corrupted data. Reads then also verify
    /// checksums.
    pub paranoid_checks: bool,
    /// Reads verify block checksums.
    pub verify_checksums: bool,
    /// Compression of new blocks.
    pub compression: Compression,
    /// Size of a memtable in bytes. LevelDB limits it to 64 KiB ..= 1 GiB.
    pub write_buffer_size: usize,
    /// Size in bytes at which a compaction closes an output SSTable. LevelDB limits it to 1 MiB ..=
    /// 1 GiB.
    pub max_file_size: usize,
    /// Uncompressed bytes of entries per block. LevelDB limits it to 1 KiB ..= 4 MiB.
    pub block_size: usize,
    /// Size of the cache of uncompressed blocks, in bytes.
    pub cache_bytes: usize,
    /// Bits per key of the Bloom filter; `None` for no filter.
    pub bloom_bits: Option<u32>,
    /// Maximum number of open files. LevelDB limits it to 74 ..= 50,000.
    pub max_open_files: u32,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            verify_checksums: false,
            compression: Compression::Snappy,
            write_buffer_size: 4 << 20,
            max_file_size: 2 << 20,
            block_size: 4 << 10,
            cache_bytes: 8 << 20,
            bloom_bits: None,
            max_open_files: 1000,
        }
    }
}

/// LevelDB's options object, and the objects that it borrows. They must exist as long as the
/// database that was opened with the options.
pub(super) struct Opening {
    pub(super) options: Handle<ffi::Options>,
    _cache: Handle<ffi::Cache>,
    _filter: Option<Handle<ffi::Filter>>,
}

impl Opening {
    pub(super) fn new(api: &Api, chosen: &OpenOptions) -> Opening {
        let mut options = api.common.options();
        let compression = match chosen.compression {
            Compression::None => 0,
            Compression::Snappy => 1,
        };
        api.set_create_if_missing(&mut options, chosen.create_if_missing);
        api.set_error_if_exists(&mut options, chosen.error_if_exists);
        api.set_paranoid_checks(&mut options, chosen.paranoid_checks);
        api.set_compression(&mut options, compression);
        api.set_write_buffer_size(&mut options, chosen.write_buffer_size);
        api.set_max_file_size(&mut options, chosen.max_file_size);
        api.set_block_size(&mut options, chosen.block_size);
        api.set_max_open_files(&mut options, saturated(chosen.max_open_files));
        let cache = api.cache(&mut options, chosen.cache_bytes);
        let filter = chosen.bloom_bits.map(|bits| api.bloom(&mut options, saturated(bits)));
        Opening { options, _cache: cache, _filter: filter }
    }
}

fn saturated(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}
