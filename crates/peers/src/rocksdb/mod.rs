//! RocksDB through its C API, with the functions that benchmarks need.
//!
//! ```no_run
//! use terrace_peers::rocksdb::{Library, OpenOptions};
//!
//! let library = Library::load()?;
//! let options = OpenOptions { create_if_missing: true, ..Default::default() };
//! let store = library.open("/tmp/a-store".as_ref(), &options)?;
//! store.put(b"key", b"value", false)?;
//! let mut value = Vec::new();
//! assert!(store.get_into(b"key", &mut value)? && value == b"value");
//! # Ok::<(), terrace_peers::PeerError>(())
//! ```
mod ffi;
mod options;

pub use options::{Compression, Layout, OpenOptions};

use crate::{PeerError, Result, error::c_name, library, store};
use ffi::Api;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// File names of RocksDB's library in the directory of `make peers`, the fastest build first. The
/// first is the build for this processor, the second the build from Maven. The packages of
/// distributions are not used, because they may be slower than RocksDB can be. Debian's package is
/// compiled with assertions.
const LIBRARY_FILES: [&str; 2] = ["librocksdb.so", "librocksdb-maven.so"];

/// The loaded library of RocksDB. It stays loaded until the process ends.
#[derive(Clone)]
pub struct Library {
    api: &'static Api,
    file: PathBuf,
}

impl Library {
    /// Finds the fastest shared library in the directory of `make peers` and binds its functions.
    ///
    /// # Errors
    /// [`PeerError::NotLoaded`], which says how to get a library.
    pub fn load() -> Result<Library> {
        let mut reason = None;
        for name in LIBRARY_FILES {
            let file = library::directory().join(name);
            match ffi::load(&file) {
                Ok(api) => return Ok(Library { api, file }),
                Err(e) => reason = reason.or(Some(e)),
            }
        }
        Err(not_loaded(reason.expect("the list of files is not empty")))
    }

    /// Returns the path of the library's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Opens a store. If the store was not closed, RocksDB recovers it.
    ///
    /// # Errors
    /// RocksDB's errors, for a store that is missing, locked or corrupted, or for a compression
    /// that this RocksDB was built without.
    pub fn open(&self, path: &Path, options: &OpenOptions) -> Result<Store> {
        let name = c_name(path)?;
        let object = options.object(self.api);
        let db = self.api.common.open(&object, &name)?;
        Ok(Store::new(&self.api.common, db, options.verify_checksums, Parts { api: self.api }))
    }
}

/// Marker type of RocksDB. Types with this parameter belong to RocksDB's library.
pub enum RocksDb {}

impl store::PeerLibrary for RocksDb {
    type Parts = Parts;
}

/// The objects that only a RocksDB store has, in addition to those that the stores of all
/// libraries have: RocksDB's functions.
pub struct Parts {
    api: &'static Api,
}

/// An open RocksDB store.
pub type Store = store::Store<RocksDb>;
/// A batch of changes, which are applied atomically. [`Store::batch`](store::Store::batch) creates
/// it.
pub type Batch = store::Batch<RocksDb>;

impl Store {
    /// Copies the newest value of a key into `value`, which is cleared first. Returns false if the
    /// key is absent.
    ///
    /// # Errors
    /// RocksDB's errors.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        self.parts.api.get(&self.db, &self.read, key, value)
    }

    /// Visits the entries of a snapshot in key order until `visit` returns false. The scan starts
    /// at the first entry at or after `from`. If `reverse`, it starts at the last entry at or
    /// before `from` and moves backwards. If `from` is `None`, it starts at the first entry or, if
    /// `reverse`, at the last.
    ///
    /// # Errors
    /// RocksDB's errors.
    pub fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut iter = self.common.iter(&self.db, &self.read);
        self.parts.api.seek(&mut iter, from, reverse);
        self.common.visit(&mut iter, reverse, visit)
    }

    /// Returns the total time of write slowdowns and stops since the store was opened, as RocksDB
    /// measures it.
    pub fn stalled(&self) -> Option<Duration> {
        stall_in(&self.property("rocksdb.dbstats")?)
    }
}

/// Parses the total stall time from RocksDB's statistics, such as `Cumulative stall: 00:01:2.345
/// H:M:S, …`.
fn stall_in(stats: &str) -> Option<Duration> {
    let line = stats.lines().find_map(|line| line.strip_prefix("Cumulative stall: "))?;
    let mut parts = line.split(' ').next()?.split(':');
    let (hours, minutes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds = Duration::try_from_secs_f64(parts.next()?.parse().ok()?).ok()?;
    seconds.checked_add(Duration::from_secs(hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?))
}

fn not_loaded(reason: String) -> PeerError {
    PeerError::NotLoaded { name: "RocksDB", reason, install: "`make peers` fetches and builds it" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_out_of_the_statistics() {
        let text =
            "** DB Stats **\nCumulative stall: 01:02:3.250 H:M:S, 4.0 percent\nInterval stall: 00:00:9.000 H:M:S";
        assert_eq!(stall_in(text), Some(Duration::from_millis(3_723_250)));
        assert_eq!(stall_in("Cumulative stall: soon"), None);
        assert_eq!(stall_in(""), None);
    }
}
