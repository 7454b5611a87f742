//! The functions of `leveldb_env_t`, the environment in which stores are opened: the operating
//! system, or an environment whose stores are in memory.
#![expect(unsafe_code, reason = "exported functions keep their C names")]
use crate::memory;
use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    ptr,
    sync::{Arc, Mutex, PoisonError},
};
use terrace::{Db, Error, Options, Result, Storage, repair_on};
use terrace_storage::{Location, Memory, placement::OpenMode};

/// The C handle `leveldb_env_t`. `None` is the environment of the operating system.
pub struct Env(pub Option<MemoryStores>);

/// The stores of an environment in memory, by their paths. A store keeps its contents while it is
/// closed. Clones have the same stores.
#[derive(Clone, Default)]
pub struct MemoryStores(Arc<Mutex<HashMap<PathBuf, Memory>>>);

impl MemoryStores {
    /// Opens the store `path`; see [`Db::open`].
    pub fn open(&self, path: &Path, options: Options) -> Result<Db> {
        options.validate()?;
        let mut memory = self.find(path);
        if memory.is_none() && options.create_if_missing {
            memory = Some(self.locked().entry(path.into()).or_default().clone());
        }
        let mode = if options.create_if_missing { OpenMode::Create } else { OpenMode::Write };
        Db::open_on(open(&memory.unwrap_or_default(), mode, &options)?, options)
    }

    /// Removes the store `path`; see [`Db::destroy`].
    pub fn destroy(&self, path: &Path) -> Result<()> {
        let Some(memory) = self.find(path) else { return Ok(()) };
        terrace_storage::destroy(&Location::Memory(memory))?;
        self.locked().remove(path);
        Ok(())
    }

    /// Replaces the store `path` by a new one with its readable pairs.
    pub fn repair(&self, path: &Path, options: &Options) -> Result<()> {
        options.validate()?;
        let missing = || Error::Missing { what: "store", object: path.display().to_string() };
        let (damaged, fresh) = (self.find(path).ok_or_else(missing)?, Memory::new());
        repair_on(&*open(&damaged, OpenMode::Salvage, options)?, &*open(&fresh, OpenMode::Create, options)?, options)?;
        self.locked().insert(path.into(), fresh);
        Ok(())
    }

    fn find(&self, path: &Path) -> Option<Memory> {
        self.locked().get(path).cloned()
    }

    fn locked(&self) -> impl std::ops::DerefMut<Target = HashMap<PathBuf, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // no operation on the map can fail half-way
    }
}

fn open(memory: &Memory, mode: OpenMode, options: &Options) -> Result<Box<dyn Storage>> {
    Ok(terrace_storage::open(&Location::Memory(memory.clone()), mode, options.durability, &options.setup())?)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<Env> {
    Box::new(Env(None))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_create_memory_env() -> Box<Env> {
    Box::new(Env(Some(MemoryStores::default())))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Box<Env>) {
    drop(env);
}

/// Returns `$TEST_TMPDIR`. If it is not set, creates a directory for the user in the directory for
/// temporary files (on Unix `/tmp`), and returns `NULL` if that fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(_env: &Env) -> *mut u8 {
    let named = env::var_os("TEST_TMPDIR").filter(|name| !name.is_empty());
    let path = named.map_or_else(own_test_directory, PathBuf::from);
    match fs::create_dir_all(&path) {
        Ok(()) => memory::copy_text(path.into_os_string().into_encoded_bytes()),
        Err(_) => ptr::null_mut(),
    }
}

#[cfg(unix)]
fn own_test_directory() -> PathBuf {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    format!("/tmp/leveldbtest-{user}").into()
}

/// Every user of Windows has a directory for temporary files.
#[cfg(windows)]
fn own_test_directory() -> PathBuf {
    env::temp_dir().join("leveldbtest")
}
