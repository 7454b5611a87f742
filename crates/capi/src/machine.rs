//! `leveldb_cache_t`, `leveldb_env_t`, and the version of the interface.
#![expect(unsafe_code, reason = "exported functions keep their C names")]
use crate::memory;
use libc::c_int;
use std::{env, fs, os::unix::ffi::OsStringExt, path::PathBuf, ptr};

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

/// `leveldb_env_t`: the operating system's files, threads and clock. There is no other
/// environment.
pub struct Env;

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<Env> {
    Box::new(Env)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Box<Env>) {
    drop(env);
}

/// Returns `$TEST_TMPDIR`. If it is not set, creates a directory for the user in `/tmp`, and
/// returns `NULL` if that fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(_env: &Env) -> *mut u8 {
    let named = env::var_os("TEST_TMPDIR").filter(|name| !name.is_empty());
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = named.map_or_else(|| format!("/tmp/leveldbtest-{user}").into(), PathBuf::from);
    match fs::create_dir_all(&path) {
        Ok(()) => memory::copy_text(path.into_os_string().into_vec()),
        Err(_) => ptr::null_mut(),
    }
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
