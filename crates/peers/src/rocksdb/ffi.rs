//! The C functions that only RocksDB has, bound at run time. `crate::ffi::common` has the
//! functions that LevelDB also has. The methods of this module may be called in any order.
//!
//! This file uses only functions of `rocksdb/c.h` whose signatures are the same in releases 7 to
//! 11. No C++ type crosses the interface.
#![allow(unsafe_code)]
use super::RocksDb;
pub(super) use crate::ffi::Handle;
use crate::{
    Result,
    ffi::{
        Err, Loaded, Ptr, borrowed_bytes,
        common::{self, Common},
        functions, opaque, setters, start,
    },
};
use std::{
    ffi::{c_double, c_int, c_uchar},
    path::Path,
};

pub(super) type Db = common::Db<RocksDb>;
pub(super) type Options = common::Options<RocksDb>;
pub(super) type ReadOptions = common::ReadOptions<RocksDb>;
pub(super) type Iter = common::Iter<RocksDb>;

opaque! { BlockOptions Cache Filter Pinned }

functions! {
    ExtraFunctions;
    options_set_create_if_missing: fn(*mut Options, c_uchar);
    options_set_compression: fn(*mut Options, c_int);
    options_set_write_buffer_size: fn(*mut Options, usize);
    options_set_max_write_buffer_number: fn(*mut Options, c_int);
    options_set_target_file_size_base: fn(*mut Options, u64);
    options_set_max_bytes_for_level_base: fn(*mut Options, u64);
    options_set_level0_file_num_compaction_trigger: fn(*mut Options, c_int);
    options_set_level0_slowdown_writes_trigger: fn(*mut Options, c_int);
    options_set_level0_stop_writes_trigger: fn(*mut Options, c_int);
    options_set_max_open_files: fn(*mut Options, c_int);
    options_set_compaction_style: fn(*mut Options, c_int);
    options_set_enable_blob_files: fn(*mut Options, c_uchar);
    options_set_enable_blob_gc: fn(*mut Options, c_uchar);
    options_set_blob_compression_type: fn(*mut Options, c_int);
    options_set_block_based_table_factory: fn(*mut Options, *mut BlockOptions);
    block_based_options_create: fn() -> *mut BlockOptions;
    block_based_options_destroy: fn(*mut BlockOptions);
    block_based_options_set_block_size: fn(*mut BlockOptions, usize);
    block_based_options_set_block_cache: fn(*mut BlockOptions, *mut Cache);
    block_based_options_set_filter_policy: fn(*mut BlockOptions, *mut Filter);
    cache_create_lru: fn(usize) -> *mut Cache;
    cache_destroy: fn(*mut Cache);
    filterpolicy_create_bloom_full: fn(c_double) -> *mut Filter;
    get_pinned: fn(*mut Db, *const ReadOptions, Ptr, usize, Err) -> *mut Pinned;
    pinnableslice_value: fn(*const Pinned, *mut usize) -> Ptr;
    pinnableslice_destroy: fn(*mut Pinned);
    iter_seek_for_prev: fn(*mut Iter, Ptr, usize);
}

/// The loaded C functions of RocksDB: the functions that LevelDB also has, and the functions that
/// only RocksDB has.
pub(super) struct Api {
    pub(super) common: Common<RocksDb>,
    extra: ExtraFunctions,
}

/// Loads RocksDB from `file` and binds its functions.
///
/// # Errors
/// The dynamic linker's text, or the name of a missing function.
pub(super) fn load(file: &Path) -> std::result::Result<&'static Api, String> {
    static LOADED: Loaded<Api> = Loaded::new();
    let bind = |library: &_| {
        let prefix = "rocksdb_";
        Ok(Api { common: Common::bind(library, prefix)?, extra: ExtraFunctions::bind(library, prefix)? })
    };
    LOADED.get(file, bind)
}

/// Safe methods that call the C functions. Each pointer that a method passes is from a live
/// [`Handle`] or from a borrowed slice. This is the safety argument of each `unsafe` block below
/// whose comment gives no other.
impl Api {
    setters! { Options:
        set_create_if_missing(options_set_create_if_missing, bool => c_uchar);
        set_compression(options_set_compression, c_int => c_int);
        set_write_buffer_size(options_set_write_buffer_size, usize => usize);
        set_max_write_buffer_number(options_set_max_write_buffer_number, c_int => c_int);
        set_target_file_size_base(options_set_target_file_size_base, u64 => u64);
        set_max_bytes_for_level_base(options_set_max_bytes_for_level_base, u64 => u64);
        set_level0_compaction_trigger(options_set_level0_file_num_compaction_trigger, c_int => c_int);
        set_level0_slowdown_trigger(options_set_level0_slowdown_writes_trigger, c_int => c_int);
        set_level0_stop_trigger(options_set_level0_stop_writes_trigger, c_int => c_int);
        set_max_open_files(options_set_max_open_files, c_int => c_int);
        set_compaction_style(options_set_compaction_style, c_int => c_int);
        set_enable_blob_files(options_set_enable_blob_files, bool => c_uchar);
        set_enable_blob_gc(options_set_enable_blob_gc, bool => c_uchar);
        set_blob_compression_type(options_set_blob_compression_type, c_int => c_int);
    }

    /// Sets all block options in one call: block size, block cache and filter.
    pub(super) fn set_tables(
        &self,
        options: &mut Handle<Options>,
        block_bytes: usize,
        cache_bytes: usize,
        bloom_bits: Option<f64>,
    ) {
        // SAFETY: the functions are the constructor and the destructor of the same type.
        let blocks =
            Handle::new(unsafe { (self.extra.block_based_options_create)() }, self.extra.block_based_options_destroy);
        // SAFETY: the functions are the constructor and the destructor of the same type.
        let cache = Handle::new(unsafe { (self.extra.cache_create_lru)(cache_bytes) }, self.extra.cache_destroy);
        // SAFETY: the block options share the cache by reference count, so the handle of the cache
        // may be dropped here. They take ownership of the filter, so the filter has no handle. The
        // options copy the block options with their reference counts.
        unsafe {
            (self.extra.block_based_options_set_block_size)(blocks.as_ptr(), block_bytes);
            (self.extra.block_based_options_set_block_cache)(blocks.as_ptr(), cache.as_ptr());
            if let Some(bits) = bloom_bits {
                let filter = (self.extra.filterpolicy_create_bloom_full)(bits);
                (self.extra.block_based_options_set_filter_policy)(blocks.as_ptr(), filter);
            }
            (self.extra.options_set_block_based_table_factory)(options.as_ptr(), blocks.as_ptr());
        }
    }

    /// Appends the value of `key` to `value`. Returns false if the key is absent. The library pins
    /// the value, so the value is copied only once.
    pub(super) fn get(
        &self,
        db: &Handle<Db>,
        how: &Handle<ReadOptions>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        let pinned = self.common.checked("get", |e| unsafe {
            (self.extra.get_pinned)(db.as_ptr(), how.as_ptr(), start(key), key.len(), e)
        })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let pinned = Handle::new(pinned, self.extra.pinnableslice_destroy);
        let mut len = 0;
        // SAFETY: the slice is valid until `pinned` is dropped at the end of this function.
        value.extend_from_slice(unsafe {
            borrowed_bytes((self.extra.pinnableslice_value)(pinned.as_ptr(), &mut len), len)
        });
        Ok(true)
    }

    /// Moves the iterator to the first entry with a key at or after `from`. If `reverse`, moves it
    /// to the last entry with a key at or before `from`. If `from` is `None`, moves it to the first
    /// entry of the store or, if `reverse`, to the last.
    pub(super) fn seek(&self, iter: &mut Handle<Iter>, from: Option<&[u8]>, reverse: bool) {
        let it = iter.as_ptr();
        // SAFETY: the calls require only a live iterator, which is borrowed exclusively. RocksDB
        // copies the target.
        unsafe {
            match (from, reverse) {
                (None, false) => (self.common.iter_seek_to_first)(it),
                (None, true) => (self.common.iter_seek_to_last)(it),
                (Some(key), false) => (self.common.iter_seek)(it, start(key), key.len()),
                (Some(key), true) => (self.extra.iter_seek_for_prev)(it, start(key), key.len()),
            }
        }
    }
}
