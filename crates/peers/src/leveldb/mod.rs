//! LevelDB 1.23 through its C API. LevelDB is the reference for Terrace's file formats and for its
//! costs.
//!
//! ```no_run
//! use terrace_peers::leveldb::{Library, OpenOptions};
//!
//! let library = Library::load()?;
//! let options = OpenOptions { create_if_missing: true, ..Default::default() };
//! let store = library.open("/tmp/a-store".as_ref(), &options)?;
//! store.put(b"key", b"value", false)?;
//! assert_eq!(store.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), terrace_peers::PeerError>(())
//! ```
mod cursor;
mod ffi;
mod options;

pub use cursor::{Cursor, Pairs};
pub use options::{Compression, OpenOptions};

use crate::{PeerError, Result, error::c_name, store};
use ffi::Api;
use options::Opening;
use std::path::Path;

/// File names of the system's LevelDB library, in the order in which they are tried: Debian's
/// name, upstream's soname, and the development link.
const LIBRARY_NAMES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// LevelDB's loaded library. The value is cheap to copy. The library stays loaded until the
/// process ends.
#[derive(Clone, Copy)]
pub struct Library {
    api: &'static Api,
}

impl Library {
    /// Finds the system's shared library of LevelDB and binds its functions.
    ///
    /// # Errors
    /// [`PeerError::NotLoaded`], which says what to install.
    pub fn load() -> Result<Library> {
        let mut reason = None;
        for name in LIBRARY_NAMES {
            match ffi::load(name.as_ref()) {
                Ok(api) => return Ok(Library { api }),
                Err(e) => reason = reason.or(Some(e)),
            }
        }
        Err(not_loaded(reason.expect("the list of names is not empty")))
    }

    /// Loads the shared library in `file` and binds its functions. Other LevelDB libraries may be
    /// loaded at the same time.
    ///
    /// # Errors
    /// [`PeerError::NotLoaded`], with the dynamic linker's reason.
    pub fn load_file(file: &Path) -> Result<Library> {
        Ok(Library { api: ffi::load(file).map_err(not_loaded)? })
    }

    /// Returns the major and the minor version of the library. It is `(1, 23)` for the release
    /// whose formats Terrace follows.
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }

    /// Opens a store. If the store was not closed, LevelDB recovers it.
    ///
    /// # Errors
    /// LevelDB's errors, for a store that is missing, exists, is locked or is corrupted.
    pub fn open(&self, path: &Path, options: &OpenOptions) -> Result<Store> {
        let name = c_name(path)?;
        let opening = Opening::new(self.api, options);
        let verify = options.paranoid_checks || options.verify_checksums;
        let db = self.api.common.open(&opening.options, &name)?;
        Ok(Store::new(&self.api.common, db, verify, Parts { api: self.api, _opening: opening }))
    }

    /// Removes the files of a store. Also removes the directory of the store, if it contains
    /// nothing else. A missing store is not an error.
    ///
    /// # Errors
    /// LevelDB's errors, for a store in use.
    pub fn destroy(&self, path: &Path) -> Result<()> {
        let opening = Opening::new(self.api, &OpenOptions::default());
        self.api.destroy(&opening.options, &c_name(path)?)
    }

    /// Rebuilds a store from its readable SSTables and WALs.
    ///
    /// # Errors
    /// LevelDB's errors, if nothing can be rebuilt.
    pub fn repair(&self, path: &Path, options: &OpenOptions) -> Result<()> {
        let opening = Opening::new(self.api, options);
        self.api.repair(&opening.options, &c_name(path)?)
    }
}

/// Marker type of LevelDB. Types with this parameter belong to LevelDB's library.
pub enum LevelDb {}

/// The objects that only a LevelDB store has, in addition to those that the stores of all
/// libraries have: LevelDB's functions, and the cache and filter that the database borrows.
pub struct Parts {
    api: &'static Api,
    _opening: Opening, // the database borrows its cache and filter
}

impl store::PeerLibrary for LevelDb {
    type Parts = Parts;
}

/// An open LevelDB store.
pub type Store = store::Store<LevelDb>;
/// A batch of changes, which are applied atomically. [`Store::batch`](store::Store::batch) creates
/// it.
pub type Batch = store::Batch<LevelDb>;

impl Store {
    /// Returns the newest value of a key, or `None` if the key is absent.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.parts.api.get(&self.db, &self.read, key)?.map(|value| value.as_slice().to_vec()))
    }

    /// Copies the newest value of a key into `value`, which is cleared first. Returns false if the
    /// key is absent.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.parts.api.get(&self.db, &self.read, key)?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes.as_slice()));
        Ok(found.is_some())
    }

    /// Returns a cursor over a snapshot of the whole store. The cursor is not at an entry yet.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.parts.api, self.common.iter(&self.db, &self.read))
    }

    /// Returns all entries in key order.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn forward(&self) -> Result<Pairs> {
        self.cursor().collect_forward()
    }

    /// Returns all entries in reverse key order.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn backward(&self) -> Result<Pairs> {
        self.cursor().collect_backward()
    }

    /// Returns the approximate size in bytes of the SSTable data with keys from `from` (inclusive)
    /// to `to` (exclusive).
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        self.parts.api.approximate_size(&self.db, from, to)
    }
}

fn not_loaded(reason: String) -> PeerError {
    PeerError::NotLoaded { name: "LevelDB", reason, install: "on Debian and Ubuntu: apt-get install libleveldb1d" }
}
