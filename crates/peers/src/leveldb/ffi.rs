//! The C functions that only LevelDB has, bound at run time. `crate::ffi::common` has those that
//! RocksDB also has. The methods are safe to call in any order.
//!
//! A buffer that LevelDB allocates with `malloc` becomes a [`Bytes`], which is freed with
//! `leveldb_free`.
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

// Caches are internally synchronised; the Bloom filter is constant.
threads! { SendObject: ; SyncObject: Cache Filter }

/// LevelDB's C functions.
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
        // SAFETY: LevelDB returned `len` initialised bytes at `start`, which stay valid until
        // `free`.
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

/// Safe methods, in the order of `leveldb/c.h`. Every pointer passed below is from a live
/// [`Handle`] or a borrowed slice. This is the safety argument of each block unless its comment
/// says more.
impl Api {
    pub(super) fn version(&self) -> (i32, i32) {
        // SAFETY: no arguments, constant results.
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

    /// Adds a block cache to `options` and returns the cache. The caller keeps the cache until
    /// every database that was opened with `options` is closed.
    pub(super) fn cache(&self, options: &mut Handle<Options>, bytes: usize) -> Handle<Cache> {
        // SAFETY: constructor and destructor of the same type.
        let cache = Handle::new(unsafe { (self.extra.cache_create_lru)(bytes) }, self.extra.cache_destroy);
        // SAFETY: both are live; `super::Opening` keeps the cache for as long as the options and
        // the database.
        unsafe { (self.extra.options_set_cache)(options.as_ptr(), cache.as_ptr()) }
        cache
    }

    /// Adds a Bloom filter to `options` and returns the filter. The caller keeps the filter until
    /// every database that was opened with `options` is closed.
    pub(super) fn bloom(&self, options: &mut Handle<Options>, bits_per_key: c_int) -> Handle<Filter> {
        // SAFETY: constructor and destructor of the same type.
        let filter = Handle::new(
            unsafe { (self.extra.filterpolicy_create_bloom)(bits_per_key) },
            self.extra.filterpolicy_destroy,
        );
        // SAFETY: both are live; `super::Opening` keeps the filter for as long as the options and
        // the database.
        unsafe { (self.extra.options_set_filter_policy)(options.as_ptr(), filter.as_ptr()) }
        filter
    }

    pub(super) fn destroy(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: see the comment on this `impl` block.
        self.common.checked("destroy", |e| unsafe { (self.extra.destroy_db)(options.as_ptr(), name.as_ptr(), e) })
    }

    pub(super) fn repair(&self, options: &Handle<Options>, name: &CStr) -> Result<()> {
        // SAFETY: see the comment on this `impl` block.
        self.common.checked("repair", |e| unsafe { (self.extra.repair_db)(options.as_ptr(), name.as_ptr(), e) })
    }

    pub(super) fn get(&self, db: &Handle<Db>, how: &Handle<ReadOptions>, key: &[u8]) -> Result<Option<Bytes>> {
        let mut len = 0;
        let value = self.common.checked("get", |e| {
            // SAFETY: see the comment on this `impl` block; `len` is a local variable.
            unsafe { (self.extra.get)(db.as_ptr(), how.as_ptr(), start(key), key.len(), &mut len, e) }
        })?;
        Ok(NonNull::new(value).map(|start| Bytes { start, len, free: self.common.free }))
    }

    pub(super) fn approximate_size(&self, db: &Handle<Db>, from: &[u8], to: &[u8]) -> u64 {
        let mut bytes = 0;
        // SAFETY: one range, so each array is one element, borrowed for the call.
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

    /// Moves the iterator and returns its status. `Next` and `Prev` do nothing if the iterator is
    /// not on an entry (in LevelDB this is undefined behaviour).
    pub(super) fn step(&self, iter: &mut Handle<Iter>, step: Step<'_>) -> Result<()> {
        let it = iter.as_ptr();
        match step {
            // SAFETY: no precondition except a live iterator, borrowed exclusively; the target is
            // copied.
            Step::First => unsafe { (self.common.iter_seek_to_first)(it) },
            // SAFETY: as above.
            Step::Last => unsafe { (self.common.iter_seek_to_last)(it) },
            // SAFETY: as above.
            Step::Seek(target) => unsafe { (self.common.iter_seek)(it, start(target), target.len()) },
            // SAFETY: as above, and the position is valid.
            Step::Next if self.common.valid(iter) => unsafe { (self.common.iter_next)(it) },
            // SAFETY: as above, and the position is valid.
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
