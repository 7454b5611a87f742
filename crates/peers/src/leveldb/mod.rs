//! LevelDB 1.23 through its C API: the reference that our format and our costs are held against.
//!
//! ```no_run
//! use terrace_peers::leveldb::{Library, OpenOptions};
//!
//! let library = Library::load()?;
//! let store = library.open("/tmp/a-store".as_ref(), &OpenOptions { create_if_missing: true, ..Default::default() })?;
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

/// The machine's own LevelDB, tried in this order: Debian's name, upstream's soname, the development link.
const LIBRARY_NAMES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// LevelDB's code, loaded. Cheap to copy; the code stays in the process until it ends.
#[derive(Clone, Copy)]
pub struct Library {
    api: &'static Api,
}

impl Library {
    /// Finds and binds the machine's own shared library.
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

    /// Binds the shared library in `file`, which stays loaded beside others.
    ///
    /// # Errors
    /// [`PeerError::NotLoaded`], with the dynamic linker's reason.
    pub fn load_file(file: &Path) -> Result<Library> {
        Ok(Library { api: ffi::load(file).map_err(not_loaded)? })
    }

    /// Major and minor version, `(1, 23)` for the release that our formats follow.
    pub fn version(&self) -> (i32, i32) {
        self.api.version()
    }

    /// Opens a store, recovering it first if it was not closed.
    ///
    /// # Errors
    /// LevelDB's, for one that is missing, exists, is locked or is damaged.
    pub fn open(&self, path: &Path, options: &OpenOptions) -> Result<Store> {
        let name = c_name(path)?;
        let opening = Opening::new(self.api, options);
        let verify = options.paranoid_checks || options.verify_checksums;
        let db = self.api.common.open(&opening.options, &name)?;
        Ok(Store::new(&self.api.common, db, verify, Own { api: self.api, _opening: opening }))
    }

    /// Removes a store's files, and its directory if nothing else is in it. A missing store is no error.
    ///
    /// # Errors
    /// LevelDB's, for a store in use.
    pub fn destroy(&self, path: &Path) -> Result<()> {
        let opening = Opening::new(self.api, &OpenOptions::default());
        self.api.destroy(&opening.options, &c_name(path)?)
    }

    /// Rebuilds a store from whatever tables and logs can be read.
    ///
    /// # Errors
    /// LevelDB's, if nothing can be rebuilt.
    pub fn repair(&self, path: &Path, options: &OpenOptions) -> Result<()> {
        let opening = Opening::new(self.api, options);
        self.api.repair(&opening.options, &c_name(path)?)
    }
}

/// LevelDB's mark on what it shares with RocksDB.
pub enum LevelDb {}

/// What a LevelDB store has of its own.
pub struct Own {
    api: &'static Api,
    _opening: Opening, // its cache and filter are borrowed by the database
}

impl store::Library for LevelDb {
    type Own = Own;
}

/// An open LevelDB store.
pub type Store = store::Store<LevelDb>;
/// Changes to be applied together; made by [`Store::batch`](store::Store::batch).
pub type Batch = store::Batch<LevelDb>;

impl Store {
    /// The newest value of a key.
    ///
    /// # Errors
    /// LevelDB's; absence is `None`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.own.api.get(&self.db, &self.read, key)?.map(|value| value.as_slice().to_vec()))
    }

    /// Puts the newest value of a key into `value`, which is cleared first; false if there is none.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.own.api.get(&self.db, &self.read, key)?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes.as_slice()));
        Ok(found.is_some())
    }

    /// A position over a snapshot of the whole store, not yet on an entry.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.own.api, self.common.iter(&self.db, &self.read))
    }

    /// All entries in key order.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn forward(&self) -> Result<Pairs> {
        self.cursor().collect_forward()
    }

    /// All entries in reverse key order.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn backward(&self) -> Result<Pairs> {
        self.cursor().collect_backward()
    }

    /// Bytes of table files, roughly, that hold keys from `from` up to but not including `to`.
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        self.own.api.approximate_size(&self.db, from, to)
    }
}

fn not_loaded(reason: String) -> PeerError {
    PeerError::NotLoaded { name: "LevelDB", reason, install: "on Debian and Ubuntu: apt-get install libleveldb1d" }
}
