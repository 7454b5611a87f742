//! The C functions that only LevelDB has, bound at run time. `crate::ffi::common` has the
//! functions that RocksDB also has. The methods of this module may be called in any order.
//!
//! If LevelDB returns a buffer that it allocated with `malloc`, this module converts the buffer to
//! [`Bytes`]. Dropping the `Bytes` frees the buffer with `leveldb_free`.
#![allow(unsafe_code)]
use super::LevelDb;
pub(super) use crate::ffi::Handle;
use crate::{
    Result,
    ffi::{
        Err, Loaded, Ptr,
        common::{self, Common},
        functions, opaque, setters, start, threads,
    },
};
use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_void},
    path::Path,
    ptr::NonNull,
    slice,
};

pub(super) type Db = common::Db<LevelDb>;
pub(super) type Options = common::Options<LevelDb>;
pub(super) type ReadOptions = common::ReadOptions<LevelDb>;
pub(super) type Iter = common::Iter<LevelDb>;

opaque! { Cache Filter }

functions! {
    ExtraFunctions;
    major_version: fn() -> c_int;
    minor_version: fn() -> c_int;
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
    destroy_db: fn(*const Options, Ptr, Err);
    repair_db: fn(*const Options, Ptr, Err);
    get: fn(*mut Db, *const ReadOptions, Ptr, usize, *mut usize, Err) -> *mut c_char;
    approximate_sizes: fn(*mut Db, c_int, *const Ptr, *const usize, *const Ptr, *const usize, *mut u64);
}

// Several threads may use a cache or a Bloom filter at the same time: a cache locks internally,
// and a Bloom filter never changes.
threads! { SendObject: ; SyncObject: Cache Filter }

/// The loaded C functions of LevelDB: the functions that RocksDB also has, and the functions that
/// only LevelDB has.
pub(super) struct Api {
    pub(super) common: Common<LevelDb>,
    extra: ExtraFunctions,
}

/// Memory allocated by LevelDB and owned by the caller.
pub(super) struct Bytes {
    start: NonNull<c_char>,
    len: usize,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Bytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: LevelDB returned `len` initialised bytes at `start`. They stay valid until `free`
        // is called.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: LevelDB allocated `start` and frees it with this function.
        unsafe { (self.free)(self.start.as_ptr().cast()) }
    }
}

/// Loads LevelDB from `file`, a path or a name for the dynamic linker.
///
/// # Errors
/// The dynamic linker's text.
pub(super) fn load(file: &Path) -> std::result::Result<&'static Api, String> {
    static LOADED: Loaded<Api> = Loaded::new();
    let bind = |library: &_| {
        let prefix = "leveldb_";
        Ok(Api { common: Common::bind(library, prefix)?, extra: ExtraFunctions::bind(library, prefix)? })
    };
    LOADED.get(file, bind)
}

/// Safe methods that call the C functions, in the order of `leveldb/c.h`. Each pointer that a
/// method passes is from a live [`Handle`] or from a borrowed slice. This is the safety argument
/// of each `unsafe` block below whose comment gives no other.
impl Api {
    pub(super) fn version(&self) -> (i32, i32) {
        // SAFETY: the functions take no arguments and return constants.
        unsafe { ((self.extra.major_version)(), (self.extra.minor_version)()) }
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

    /// Adds a block cache to `options` and returns the cache. The caller must keep the cache until
    /// every database that was opened with `options` is closed.
    pub(super) fn cache(&self, options: &mut Handle<Options>, bytes: usize) -> Handle<Cache> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        let cache = Handle::new(unsafe { (self.extra.cache_create_lru)(bytes) }, self.extra.cache_destroy);
        // SAFETY: both objects are live, and `super::Opening` keeps the cache as long as the
        // options and the database exist.
        unsafe { (self.extra.options_set_cache)(options.as_ptr(), cache.as_ptr()) }
        cache
    }

    /// Adds a Bloom filter to `options` and returns the filter. The caller must keep the filter
    /// until every database that was opened with `options` is closed.
    pub(super) fn bloom(&self, options: &mut Handle<Options>, bits_per_key: c_int) -> Handle<Filter> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        let filter = Handle::new(
            unsafe { (self.extra.filterpolicy_create_bloom)(bits_per_key) },
            self.extra.filterpolicy_destroy,
        );
        // SAFETY: both objects are live, and `super::Opening` keeps the filter as long as the
        // options and the database exist.
        unsafe { (self.extra.options_set_filter_policy)(options.as_ptr(), filter.as_ptr()) }
        filter
    }

    pub(super) fn destroy(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        self.common.checked("destroy", |e| unsafe { (self.extra.destroy_db)(options.as_ptr(), name.as_ptr(), e) })
    }

    pub(super) fn repair(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        self.common.checked("repair", |e| unsafe { (self.extra.repair_db)(options.as_ptr(), name.as_ptr(), e) })
    }

    pub(super) fn get(&self, db: &Handle<Db>, how: &Handle<ReadOptions>, key: &[u8]) -> Result<Option<Bytes>> {
        let mut len = 0;
        let value = self.common.checked("get", |e| {
            // SAFETY: all pointers are from live handles or borrowed slices, and `len` is a local
            // variable.
            unsafe { (self.extra.get)(db.as_ptr(), how.as_ptr(), start(key), key.len(), &mut len, e) }
        })?;
        Ok(NonNull::new(value).map(|start| Bytes { start, len, free: self.common.free }))
    }

    pub(super) fn approximate_size(&self, db: &Handle<Db>, from: &[u8], to: &[u8]) -> u64 {
        let mut bytes = 0;
        // SAFETY: the call passes one range, so each array has one element, which is borrowed for
        // the call.
        unsafe {
            (self.extra.approximate_sizes)(
                db.as_ptr(),
                1,
                &start(from),
                &from.len(),
                &start(to),
                &to.len(),
                &mut bytes,
            );
        }
        bytes
    }

    /// Moves the iterator and returns its status. In LevelDB, `Next` and `Prev` of an iterator that
    /// is not at an entry are undefined behaviour. Here they do nothing.
    pub(super) fn step(&self, iter: &mut Handle<Iter>, step: Step<'_>) -> Result<()> {
        let it = iter.as_ptr();
        match step {
            // SAFETY: the call requires only a live iterator, which is borrowed exclusively.
            Step::First => unsafe { (self.common.iter_seek_to_first)(it) },
            // SAFETY: the call requires only a live iterator, which is borrowed exclusively.
            Step::Last => unsafe { (self.common.iter_seek_to_last)(it) },
            // SAFETY: the call requires only a live iterator, which is borrowed exclusively.
            // LevelDB copies the target.
            Step::Seek(target) => unsafe { (self.common.iter_seek)(it, start(target), target.len()) },
            // SAFETY: the iterator is live and borrowed exclusively, and it is at an entry.
            Step::Next if self.common.valid(iter) => unsafe { (self.common.iter_next)(it) },
            // SAFETY: the iterator is live and borrowed exclusively, and it is at an entry.
            Step::Prev if self.common.valid(iter) => unsafe { (self.common.iter_prev)(it) },
            Step::Next | Step::Prev => {}
        }
        self.common.status(iter)
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
