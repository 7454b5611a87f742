//! RocksDB's C functions, bound at run time, behind methods that are safe to call in any order.
//!
//! Beside what `crate::ffi` argues, one thing carries that: *bytes are lent for one call.* RocksDB copies keys and
//! values before it returns, and what it lends in return is copied out before the next call. Only functions of
//! `rocksdb/c.h` are used whose signatures have not changed between releases 7 and 11; no C++ crosses the border.
#![allow(unsafe_code)]
pub(super) use crate::ffi::Handle;
use crate::{
    PeerError, Result,
    ffi::{Err, Loaded, Ptr, functions, lent, opaque, setters, start, threads},
};
use std::{
    ffi::{CStr, c_char, c_double, c_int, c_uchar, c_void},
    path::Path,
    ptr,
};

opaque! { Db Options BlockOptions Cache Filter ReadOptions WriteOptions Batch Iter Pinned }

functions! {
    "rocksdb_";
    free: fn(*mut c_void);
    options_create: fn() -> *mut Options;
    options_destroy: fn(*mut Options);
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
    readoptions_create: fn() -> *mut ReadOptions;
    readoptions_destroy: fn(*mut ReadOptions);
    readoptions_set_verify_checksums: fn(*mut ReadOptions, c_uchar);
    writeoptions_create: fn() -> *mut WriteOptions;
    writeoptions_destroy: fn(*mut WriteOptions);
    writeoptions_set_sync: fn(*mut WriteOptions, c_uchar);
    writebatch_create: fn() -> *mut Batch;
    writebatch_destroy: fn(*mut Batch);
    writebatch_put: fn(*mut Batch, Ptr, usize, Ptr, usize);
    writebatch_delete: fn(*mut Batch, Ptr, usize);
    open: fn(*const Options, Ptr, Err) -> *mut Db;
    close: fn(*mut Db);
    put: fn(*mut Db, *const WriteOptions, Ptr, usize, Ptr, usize, Err);
    delete: fn(*mut Db, *const WriteOptions, Ptr, usize, Err);
    write: fn(*mut Db, *const WriteOptions, *mut Batch, Err);
    get_pinned: fn(*mut Db, *const ReadOptions, Ptr, usize, Err) -> *mut Pinned;
    pinnableslice_value: fn(*const Pinned, *mut usize) -> Ptr;
    pinnableslice_destroy: fn(*mut Pinned);
    property_value: fn(*mut Db, Ptr) -> *mut c_char;
    compact_range: fn(*mut Db, Ptr, usize, Ptr, usize);
    create_iterator: fn(*mut Db, *const ReadOptions) -> *mut Iter;
    iter_destroy: fn(*mut Iter);
    iter_valid: fn(*const Iter) -> c_uchar;
    iter_seek_to_first: fn(*mut Iter);
    iter_seek_to_last: fn(*mut Iter);
    iter_seek: fn(*mut Iter, Ptr, usize);
    iter_seek_for_prev: fn(*mut Iter, Ptr, usize);
    iter_next: fn(*mut Iter);
    iter_prev: fn(*mut Iter);
    iter_key: fn(*const Iter, *mut usize) -> Ptr;
    iter_value: fn(*const Iter, *mut usize) -> Ptr;
    iter_get_error: fn(*const Iter, Err);
}

// A batch and an iterator belong to no thread. A database locks inside, and options change only before they are shared.
threads! { Movable: Batch Iter; Shared: Db Options ReadOptions WriteOptions }

/// Loads RocksDB from `file`.
///
/// # Errors
/// The dynamic linker's text, which names a function that is missing.
pub(super) fn load(file: &Path) -> std::result::Result<&'static Api, String> {
    static LOADED: Loaded<Api> = Loaded::new();
    LOADED.get(file, Api::bind)
}

/// Safe faces. Every pointer passed below comes from a live [`Handle`] or a borrowed slice, which is the argument for
/// each block unless it says more.
impl Api {
    pub(super) fn options(&self) -> Handle<Options> {
        // SAFETY: constructor and destructor of the same type.
        Handle::new(unsafe { (self.options_create)() }, self.options_destroy)
    }

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

    /// Everything about blocks at once: their size, their cache, the filter beside them.
    pub(super) fn set_tables(
        &self,
        options: &mut Handle<Options>,
        block_bytes: usize,
        cache_bytes: usize,
        bloom_bits: Option<f64>,
    ) {
        // SAFETY: constructors and destructors of the same types.
        let blocks = Handle::new(unsafe { (self.block_based_options_create)() }, self.block_based_options_destroy);
        // SAFETY: as above.
        let cache = Handle::new(unsafe { (self.cache_create_lru)(cache_bytes) }, self.cache_destroy);
        // SAFETY: the block options share the cache by count, so our handle may go; they take the filter over, so it
        // gets none; the options copy the block options, counts included.
        unsafe {
            (self.block_based_options_set_block_size)(blocks.as_ptr(), block_bytes);
            (self.block_based_options_set_block_cache)(blocks.as_ptr(), cache.as_ptr());
            if let Some(bits) = bloom_bits {
                let filter = (self.filterpolicy_create_bloom_full)(bits);
                (self.block_based_options_set_filter_policy)(blocks.as_ptr(), filter);
            }
            (self.options_set_block_based_table_factory)(options.as_ptr(), blocks.as_ptr());
        }
    }

    pub(super) fn read_options(&self, verify_checksums: bool) -> Handle<ReadOptions> {
        // SAFETY: constructor and destructor of the same type.
        let options = Handle::new(unsafe { (self.readoptions_create)() }, self.readoptions_destroy);
        // SAFETY: `options` is live and not shared yet.
        unsafe { (self.readoptions_set_verify_checksums)(options.as_ptr(), verify_checksums.into()) }
        options
    }

    pub(super) fn write_options(&self, sync: bool) -> Handle<WriteOptions> {
        // SAFETY: constructor and destructor of the same type.
        let options = Handle::new(unsafe { (self.writeoptions_create)() }, self.writeoptions_destroy);
        // SAFETY: `options` is live and not shared yet.
        unsafe { (self.writeoptions_set_sync)(options.as_ptr(), sync.into()) }
        options
    }

    pub(super) fn batch(&self) -> Handle<Batch> {
        // SAFETY: constructor and destructor of the same type.
        Handle::new(unsafe { (self.writebatch_create)() }, self.writebatch_destroy)
    }

    pub(super) fn batch_put(&self, batch: &mut Handle<Batch>, key: &[u8], value: &[u8]) {
        // SAFETY: the bytes are copied into the batch.
        unsafe { (self.writebatch_put)(batch.as_ptr(), start(key), key.len(), start(value), value.len()) }
    }

    pub(super) fn batch_delete(&self, batch: &mut Handle<Batch>, key: &[u8]) {
        // SAFETY: the bytes are copied into the batch.
        unsafe { (self.writebatch_delete)(batch.as_ptr(), start(key), key.len()) }
    }

    pub(super) fn open(&self, options: &Handle<Options>, name: &CStr) -> Result<Handle<Db>> {
        // SAFETY: RocksDB copies options and name.
        let db = self.checked("open", |e| unsafe { (self.open)(options.as_ptr(), name.as_ptr(), e) })?;
        Ok(Handle::new(db, self.close))
    }

    pub(super) fn put(&self, db: &Handle<Db>, how: &Handle<WriteOptions>, key: &[u8], value: &[u8]) -> Result<()> {
        self.checked("put", |e| {
            let (db, how) = (db.as_ptr(), how.as_ptr());
            // SAFETY: see the head of this block.
            unsafe { (self.put)(db, how, start(key), key.len(), start(value), value.len(), e) }
        })
    }

    pub(super) fn delete(&self, db: &Handle<Db>, how: &Handle<WriteOptions>, key: &[u8]) -> Result<()> {
        // SAFETY: see the head of this block.
        self.checked("delete", |e| unsafe { (self.delete)(db.as_ptr(), how.as_ptr(), start(key), key.len(), e) })
    }

    pub(super) fn write(&self, db: &Handle<Db>, how: &Handle<WriteOptions>, batch: &mut Handle<Batch>) -> Result<()> {
        // SAFETY: the batch is borrowed exclusively: writing stamps a sequence number into it.
        self.checked("write", |e| unsafe { (self.write)(db.as_ptr(), how.as_ptr(), batch.as_ptr(), e) })
    }

    /// Appends the value of `key` to `value`; false if there is none. The value is pinned, not copied twice.
    pub(super) fn get(
        &self,
        db: &Handle<Db>,
        how: &Handle<ReadOptions>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        // SAFETY: see the head of this block.
        let pinned =
            self.checked("get", |e| unsafe { (self.get_pinned)(db.as_ptr(), how.as_ptr(), start(key), key.len(), e) })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let pinned = Handle::new(pinned, self.pinnableslice_destroy);
        let mut len = 0;
        // SAFETY: the slice lives until `pinned` goes, at the end of this function.
        value.extend_from_slice(unsafe { lent((self.pinnableslice_value)(pinned.as_ptr(), &mut len), len) });
        Ok(true)
    }

    pub(super) fn property(&self, db: &Handle<Db>, name: &CStr) -> Option<String> {
        // SAFETY: see the head of this block.
        let text = unsafe { (self.property_value)(db.as_ptr(), name.as_ptr()) };
        self.own_text(text)
    }

    pub(super) fn compact_all(&self, db: &Handle<Db>) {
        // SAFETY: a null start means "unbounded" to RocksDB.
        unsafe { (self.compact_range)(db.as_ptr(), ptr::null(), 0, ptr::null(), 0) }
    }

    /// An iterator on `db`, which the caller keeps open until the iterator is gone.
    pub(super) fn iter(&self, db: &Handle<Db>, how: &Handle<ReadOptions>) -> Handle<Iter> {
        // SAFETY: RocksDB copies the read options.
        Handle::new(unsafe { (self.create_iterator)(db.as_ptr(), how.as_ptr()) }, self.iter_destroy)
    }

    /// Moves to the first entry at or behind `from` (the first of all), or, if `reverse`, to the last one at or before
    /// it (the last of all).
    pub(super) fn seek(&self, iter: &mut Handle<Iter>, from: Option<&[u8]>, reverse: bool) {
        let it = iter.as_ptr();
        // SAFETY: no precondition beyond a live iterator, borrowed exclusively; the target is copied.
        unsafe {
            match (from, reverse) {
                (None, false) => (self.iter_seek_to_first)(it),
                (None, true) => (self.iter_seek_to_last)(it),
                (Some(key), false) => (self.iter_seek)(it, start(key), key.len()),
                (Some(key), true) => (self.iter_seek_for_prev)(it, start(key), key.len()),
            }
        }
    }

    /// Visits entries from the current position on until `visit` says false, then reports what was met on the way.
    pub(super) fn visit(
        &self,
        iter: &mut Handle<Iter>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let it = iter.as_ptr();
        let advance = if reverse { self.iter_prev } else { self.iter_next };
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator is borrowed exclusively; entries are read, and it is advanced, only where it is valid,
        // and what it lends is gone before it moves.
        unsafe {
            while (self.iter_valid)(it) != 0 {
                let key = (self.iter_key)(it, &mut key_len);
                let value = (self.iter_value)(it, &mut value_len);
                if !visit(lent(key, key_len), lent(value, value_len)) {
                    break;
                }
                advance(it);
            }
        }
        // SAFETY: see the head of this block.
        self.checked("iterate", |e| unsafe { (self.iter_get_error)(it, e) })
    }

    /// Runs a call that may set an error text, and takes that text over.
    fn checked<T>(&self, op: &'static str, call: impl FnOnce(Err) -> T) -> Result<T> {
        let mut error = ptr::null_mut();
        let answer = call(&mut error);
        self.own_text(error).map_or(Ok(answer), |text| Err(PeerError::Refused { op, text }))
    }

    /// Copies a text of RocksDB's, and gives it back.
    fn own_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: RocksDB's texts end in a zero byte, are allocated by it, and asked back exactly this way.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            Some(copy)
        }
    }
}
