//! What stands for the machine: `leveldb_cache_t`, a number of bytes, and `leveldb_env_t`; and which version this is.
#![expect(unsafe_code, reason = "C finds functions by their names")]
use crate::memory;
use libc::c_int;
use std::{env, fs, os::unix::ffi::OsStringExt, path::PathBuf, ptr};

/// `leveldb_cache_t`. Each store that is opened with it gets a cache of this size for itself.
pub struct Cache {
    pub bytes: u64,
}

/// More is refused when a store is opened.
const CACHE_BYTES_MAX: u64 = 1 << 40;

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<Cache> {
    Box::new(Cache { bytes: (capacity as u64).min(CACHE_BYTES_MAX) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Box<Cache>) {
    drop(cache);
}

/// `leveldb_env_t`: files, threads and clock of the machine. There is no other.
pub struct Env;

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<Env> {
    Box::new(Env)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Box<Env>) {
    drop(env);
}

/// `$TEST_TMPDIR`, or a directory of the user's own below `/tmp`, which is made; `NULL` if it cannot be.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(_env: &Env) -> *mut u8 {
    let named = env::var_os("TEST_TMPDIR").filter(|name| !name.is_empty());
    // SAFETY: it asks for nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = named.map_or_else(|| format!("/tmp/leveldbtest-{user}").into(), PathBuf::from);
    match fs::create_dir_all(&path) {
        Ok(()) => memory::copy_text(path.into_os_string().into_vec()),
        Err(_) => ptr::null_mut(),
    }
}

/// The version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// As [`leveldb_major_version`].
#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    23
}
