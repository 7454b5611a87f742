//! The functions of `leveldb_cache_t`, and the functions that return the version of the interface.
#![expect(unsafe_code, reason = "exported functions keep their C names")]
use libc::c_int;

/// `leveldb_cache_t`: only a cache size. Each store that is opened with it gets a separate cache
/// of that size.
pub struct Cache {
    pub bytes: u64,
}

/// Largest cache size in bytes that an open accepts.
const CACHE_BYTES_MAX: u64 = 1 << 40;

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<Cache> {
    Box::new(Cache { bytes: (capacity as u64).min(CACHE_BYTES_MAX) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Box<Cache>) {
    drop(cache);
}

/// Returns the version of LevelDB that the interface follows.
#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// Returns the minor version; see [`leveldb_major_version`].
#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    23
}
