//! How a LevelDB store is opened.
use super::ffi::{self, Api, Handle};
use std::ffi::c_int;

/// How LevelDB compresses the blocks it writes. It reads either kind, whatever this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// Snappy, where it saves an eighth or more.
    #[default]
    Snappy,
}

/// LevelDB's options by LevelDB's names; the default is LevelDB's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Make a store where none is.
    pub create_if_missing: bool,
    /// Refuse a store that exists.
    pub error_if_exists: bool,
    /// Stop at the first damage instead of dropping what is damaged. Reads then verify checksums too.
    pub paranoid_checks: bool,
    /// Reads verify the checksums of blocks.
    pub verify_checksums: bool,
    /// Of new blocks.
    pub compression: Compression,
    /// Bytes of memory that a memtable may fill. LevelDB clips it to 64 KiB ..= 1 GiB.
    pub write_buffer_size: usize,
    /// Bytes at which a table of a compaction is closed. LevelDB clips it to 1 MiB ..= 1 GiB.
    pub max_file_size: usize,
    /// Bytes of entries in one block, before compression. LevelDB clips it to 1 KiB ..= 4 MiB.
    pub block_size: usize,
    /// Bytes of uncompressed blocks kept in memory.
    pub cache_bytes: usize,
    /// A Bloom filter with that many bits per key, or none.
    pub bloom_bits: Option<u32>,
    /// Files kept open. LevelDB clips it to 74 ..= 50,000.
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

/// LevelDB's options object with what it borrows, which must outlive the database opened with it.
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
