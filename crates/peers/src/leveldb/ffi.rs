//! LevelDB's C functions, bound at run time, behind methods that are safe to call in any order.
//!
//! Beside what `crate::ffi` argues, one thing carries that: *bytes are lent for one call.* LevelDB copies keys and
//! values before it returns; what it hands out with `malloc` becomes a [`Bytes`], which goes back through
//! `leveldb_free`.
#![allow(unsafe_code)]
pub(super) use crate::ffi::Handle;
use crate::{
    PeerError, Result,
    ffi::{Err, Loaded, Ptr, functions, lent, opaque, setters, start, threads},
};
use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_void},
    path::Path,
    ptr::{self, NonNull},
    slice,
};

opaque! { Db Options Cache Filter ReadOptions WriteOptions Batch Iter }

functions! {
    "leveldb_";
    major_version: fn() -> c_int;
    minor_version: fn() -> c_int;
    free: fn(*mut c_void);
    options_create: fn() -> *mut Options;
    options_destroy: fn(*mut Options);
    options_set_create_if_missing: fn(*mut Options, c_uchar);
    options_set_error_if_exists: fn(*mut Options, c_uchar);
    options_set_paranoid_checks: fn(*mut Options, c_uchar);
    options_set_compression: fn(*mut Options, c_int);
    options_set_write_buffer_size: fn(*mut Options, usize);
    options_set_max_file_size: fn(*mut Options, usize);
    options_set_block_size: fn(*mut Options, usize);
    options_set_max_open_files: fn(*mut Options, c_int);
    options_set_cache: fn(*mut Options, *mut Cache);
    options_set_filter_policy: fn(*mut Options, *mut Filter);
    cache_create_lru: fn(usize) -> *mut Cache;
    cache_destroy: fn(*mut Cache);
    filterpolicy_create_bloom: fn(c_int) -> *mut Filter;
    filterpolicy_destroy: fn(*mut Filter);
    readoptions_create: fn() -> *mut ReadOptions;
    readoptions_destroy: fn(*mut ReadOptions);
    readoptions_set_verify_checksums: fn(*mut ReadOptions, c_uchar);
    writeoptions_create: fn() -> *mut WriteOptions;
    writeoptions_destroy: fn(*mut WriteOptions);
    writeoptions_set_sync: fn(*mut WriteOptions, c_uchar);
    writebatch_create: fn() -> *mut Batch;
    writebatch_destroy: fn(*mut Batch);
    writebatch_clear: fn(*mut Batch);
    writebatch_put: fn(*mut Batch, Ptr, usize, Ptr, usize);
    writebatch_delete: fn(*mut Batch, Ptr, usize);
    open: fn(*const Options, Ptr, Err) -> *mut Db;
    close: fn(*mut Db);
    destroy_db: fn(*const Options, Ptr, Err);
    repair_db: fn(*const Options, Ptr, Err);
    put: fn(*mut Db, *const WriteOptions, Ptr, usize, Ptr, usize, Err);
    delete: fn(*mut Db, *const WriteOptions, Ptr, usize, Err);
    write: fn(*mut Db, *const WriteOptions, *mut Batch, Err);
    get: fn(*mut Db, *const ReadOptions, Ptr, usize, *mut usize, Err) -> *mut c_char;
    property_value: fn(*mut Db, Ptr) -> *mut c_char;
    approximate_sizes: fn(*mut Db, c_int, *const Ptr, *const usize, *const Ptr, *const usize, *mut u64);
    compact_range: fn(*mut Db, Ptr, usize, Ptr, usize);
    create_iterator: fn(*mut Db, *const ReadOptions) -> *mut Iter;
    iter_destroy: fn(*mut Iter);
    iter_valid: fn(*const Iter) -> c_uchar;
    iter_seek_to_first: fn(*mut Iter);
    iter_seek_to_last: fn(*mut Iter);
    iter_seek: fn(*mut Iter, Ptr, usize);
    iter_next: fn(*mut Iter);
    iter_prev: fn(*mut Iter);
    iter_key: fn(*const Iter, *mut usize) -> Ptr;
    iter_value: fn(*const Iter, *mut usize) -> Ptr;
    iter_get_error: fn(*const Iter, Err);
}

// A batch and an iterator belong to no thread. A database locks inside, caches and the Bloom filter are internally
// synchronised or constant, and options change only before they are shared.
threads! { Movable: Batch Iter; Shared: Db Options Cache Filter ReadOptions WriteOptions }

/// Memory that LevelDB allocated for us.
pub(super) struct Bytes {
    start: NonNull<c_char>,
    len: usize,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Bytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: LevelDB handed out `len` initialised bytes at `start`, ours until `free`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated by LevelDB, which asks for it back exactly this way.
        unsafe { (self.free)(self.start.as_ptr().cast()) }
    }
}

/// Loads LevelDB from `file`, a path or a name for the dynamic linker.
///
/// # Errors
/// The dynamic linker's text.
pub(super) fn load(file: &Path) -> std::result::Result<&'static Api, String> {
    static LOADED: Loaded<Api> = Loaded::new();
    LOADED.get(file, Api::bind)
}

/// Safe faces, in the order of `leveldb/c.h`. Every pointer passed below comes from a live [`Handle`] or a borrowed
/// slice, which is the argument for each block unless it says more.
impl Api {
    pub(super) fn version(&self) -> (i32, i32) {
        // SAFETY: no arguments, constant answers.
        unsafe { ((self.major_version)(), (self.minor_version)()) }
    }

    pub(super) fn options(&self) -> Handle<Options> {
        // SAFETY: constructor and destructor of the same type.
        Handle::new(unsafe { (self.options_create)() }, self.options_destroy)
    }

    setters! { Options:
        set_create_if_missing(options_set_create_if_missing, bool => c_uchar);
        set_error_if_exists(options_set_error_if_exists, bool => c_uchar);
        set_paranoid_checks(options_set_paranoid_checks, bool => c_uchar);
        set_compression(options_set_compression, c_int => c_int);
        set_write_buffer_size(options_set_write_buffer_size, usize => usize);
        set_max_file_size(options_set_max_file_size, usize => usize);
        set_block_size(options_set_block_size, usize => usize);
        set_max_open_files(options_set_max_open_files, c_int => c_int);
    }

    /// A block cache; the caller keeps it until every database opened with `options` is closed.
    pub(super) fn cache(&self, options: &mut Handle<Options>, bytes: usize) -> Handle<Cache> {
        // SAFETY: constructor and destructor of the same type.
        let cache = Handle::new(unsafe { (self.cache_create_lru)(bytes) }, self.cache_destroy);
        // SAFETY: both are live; `super::Opening` keeps the cache for as long as the options and the database.
        unsafe { (self.options_set_cache)(options.as_ptr(), cache.as_ptr()) }
        cache
    }

    /// A Bloom filter; the caller keeps it until every database opened with `options` is closed.
    pub(super) fn bloom(&self, options: &mut Handle<Options>, bits_per_key: c_int) -> Handle<Filter> {
        // SAFETY: constructor and destructor of the same type.
        let filter = Handle::new(unsafe { (self.filterpolicy_create_bloom)(bits_per_key) }, self.filterpolicy_destroy);
        // SAFETY: both are live; `super::Opening` keeps the filter for as long as the options and the database.
        unsafe { (self.options_set_filter_policy)(options.as_ptr(), filter.as_ptr()) }
        filter
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

    pub(super) fn batch_clear(&self, batch: &mut Handle<Batch>) {
        // SAFETY: see the head of this block.
        unsafe { (self.writebatch_clear)(batch.as_ptr()) }
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
        // SAFETY: LevelDB copies options and name; cache and filter are kept by the caller (`super::Store`).
        let db = self.checked("open", |e| unsafe { (self.open)(options.as_ptr(), name.as_ptr(), e) })?;
        Ok(Handle::new(db, self.close))
    }

    pub(super) fn destroy(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: see the head of this block.
        self.checked("destroy", |e| unsafe { (self.destroy_db)(options.as_ptr(), name.as_ptr(), e) })
    }

    pub(super) fn repair(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: see the head of this block.
        self.checked("repair", |e| unsafe { (self.repair_db)(options.as_ptr(), name.as_ptr(), e) })
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

    pub(super) fn get(&self, db: &Handle<Db>, how: &Handle<ReadOptions>, key: &[u8]) -> Result<Option<Bytes>> {
        let mut len = 0;
        let value = self.checked("get", |e| {
            // SAFETY: see the head of this block; `len` is ours.
            unsafe { (self.get)(db.as_ptr(), how.as_ptr(), start(key), key.len(), &mut len, e) }
        })?;
        Ok(self.own(value, len))
    }

    pub(super) fn property(&self, db: &Handle<Db>, name: &CStr) -> Option<Bytes> {
        // SAFETY: see the head of this block.
        let text = unsafe { (self.property_value)(db.as_ptr(), name.as_ptr()) };
        self.own_text(text)
    }

    pub(super) fn approximate_size(&self, db: &Handle<Db>, from: &[u8], to: &[u8]) -> u64 {
        let mut bytes = 0;
        // SAFETY: one range, so each array is one element, borrowed for the call.
        unsafe {
            (self.approximate_sizes)(db.as_ptr(), 1, &start(from), &from.len(), &start(to), &to.len(), &mut bytes);
        }
        bytes
    }

    pub(super) fn compact_range(&self, db: &Handle<Db>, from: Option<&[u8]>, to: Option<&[u8]>) {
        let (from_start, to_start) = (from.map_or(ptr::null(), start), to.map_or(ptr::null(), start));
        let (from_len, to_len) = (from.map_or(0, <[u8]>::len), to.map_or(0, <[u8]>::len));
        // SAFETY: a null start means "unbounded" to LevelDB, any other is a borrowed slice.
        unsafe { (self.compact_range)(db.as_ptr(), from_start, from_len, to_start, to_len) }
    }

    /// An iterator on `db`, which the caller keeps open until the iterator is gone (`super::Cursor` borrows it).
    pub(super) fn iter(&self, db: &Handle<Db>, how: &Handle<ReadOptions>) -> Handle<Iter> {
        // SAFETY: LevelDB copies the read options.
        Handle::new(unsafe { (self.create_iterator)(db.as_ptr(), how.as_ptr()) }, self.iter_destroy)
    }

    pub(super) fn valid(&self, iter: &Handle<Iter>) -> bool {
        // SAFETY: see the head of this block.
        unsafe { (self.iter_valid)(iter.as_ptr()) != 0 }
    }

    /// Moves the iterator, then reports what it met on the way. `Next` and `Prev` need a valid position; without one
    /// they do nothing, where LevelDB would be undefined.
    pub(super) fn step(&self, iter: &mut Handle<Iter>, step: Step<'_>) -> Result<()> {
        let it = iter.as_ptr();
        match step {
            // SAFETY: no precondition beyond a live iterator, borrowed exclusively; the target is copied.
            Step::First => unsafe { (self.iter_seek_to_first)(it) },
            // SAFETY: as above.
            Step::Last => unsafe { (self.iter_seek_to_last)(it) },
            // SAFETY: as above.
            Step::Seek(target) => unsafe { (self.iter_seek)(it, start(target), target.len()) },
            // SAFETY: as above, and the position is valid.
            Step::Next if self.valid(iter) => unsafe { (self.iter_next)(it) },
            // SAFETY: as above, and the position is valid.
            Step::Prev if self.valid(iter) => unsafe { (self.iter_prev)(it) },
            Step::Next | Step::Prev => {}
        }
        self.status(iter)
    }

    /// The entry under a valid iterator; the bytes live until it moves, which needs `&mut`.
    pub(super) fn entry<'a>(&self, iter: &'a Handle<Iter>) -> Option<(&'a [u8], &'a [u8])> {
        if !self.valid(iter) {
            return None;
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the position is valid, so both calls return that many readable bytes, stable until the iterator moves.
        unsafe {
            let key = (self.iter_key)(iter.as_ptr(), &mut key_len);
            let value = (self.iter_value)(iter.as_ptr(), &mut value_len);
            Some((lent(key, key_len), lent(value, value_len)))
        }
    }

    /// Visits entries from the current position on until `visit` says false, with as few calls as that takes, then
    /// reports what was met on the way.
    pub(super) fn visit(
        &self,
        iter: &mut Handle<Iter>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let advance = if reverse { self.iter_prev } else { self.iter_next };
        while let Some((key, value)) = self.entry(iter)
            && visit(key, value)
        {
            // SAFETY: the position is valid, and the iterator is borrowed exclusively.
            unsafe { advance(iter.as_ptr()) }
        }
        self.status(iter)
    }

    /// What the iterator met since it was made.
    fn status(&self, iter: &Handle<Iter>) -> Result<()> {
        // SAFETY: see the head of this block.
        self.checked("iterate", |e| unsafe { (self.iter_get_error)(iter.as_ptr(), e) })
    }

    /// Runs a call that may set an error text, and takes that text over.
    fn checked<T>(&self, op: &'static str, call: impl FnOnce(Err) -> T) -> Result<T> {
        let mut error = ptr::null_mut();
        let answer = call(&mut error);
        match self.own_text(error) {
            None => Ok(answer),
            Some(text) => Err(PeerError::Refused { op, text: String::from_utf8_lossy(text.as_slice()).into_owned() }),
        }
    }

    fn own(&self, start: *mut c_char, len: usize) -> Option<Bytes> {
        NonNull::new(start).map(|start| Bytes { start, len, free: self.free })
    }

    fn own_text(&self, text: *mut c_char) -> Option<Bytes> {
        // SAFETY: LevelDB's texts are null or end in a zero byte.
        let len = if text.is_null() { 0 } else { unsafe { CStr::from_ptr(text) }.to_bytes().len() };
        self.own(text, len)
    }
}

/// A movement of an iterator.
pub(super) enum Step<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    Next,
    Prev,
}
