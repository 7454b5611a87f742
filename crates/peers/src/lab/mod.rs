//! The peers (other engines) as benchmark targets. Their settings are as equal to each other as
//! their options permit.
mod compiled;
#[cfg(feature = "fjall")]
mod fjall;
mod leveldb;
#[cfg(feature = "redb")]
mod redb;
mod rocksdb;

#[cfg(feature = "fjall")]
pub use fjall::Fjall;
pub use leveldb::LevelDb;
#[cfg(feature = "redb")]
pub use redb::Redb;
pub use rocksdb::RocksDb;

use crate::{library::LibraryInfo, rocksdb::Layout, store};
use std::sync::{Mutex, PoisonError};
use terrace_lab::target::{Change, Engine, EngineBuild, Result};

/// The names of the peers for the flag `--engine`.
pub const NAMES: [&str; 7] =
    ["leveldb", "leveldb:debian", "rocksdb", "rocksdb:universal", "rocksdb:blob", "fjall", "redb"];

/// Returns the peer with this name, even if it is not installed. Returns `None` for a name that is
/// not in [`NAMES`].
pub fn engine(name: &str) -> Option<Box<dyn Engine>> {
    Some(match name {
        "leveldb" => Box::new(LevelDb::Optimized),
        "leveldb:debian" => Box::new(LevelDb::System),
        "rocksdb" => Box::new(RocksDb::new(Layout::Leveled)),
        "rocksdb:universal" => Box::new(RocksDb::new(Layout::Universal)),
        "rocksdb:blob" => Box::new(RocksDb::new(Layout::Blob)),
        #[cfg(feature = "fjall")]
        "fjall" => Box::new(Fjall),
        #[cfg(not(feature = "fjall"))]
        "fjall" => Box::new(compiled::Absent("fjall")),
        #[cfg(feature = "redb")]
        "redb" => Box::new(Redb),
        #[cfg(not(feature = "redb"))]
        "redb" => Box::new(compiled::Absent("redb")),
        _ => return None,
    })
}

fn build(version: String, info: LibraryInfo) -> EngineBuild {
    EngineBuild { version, source: info.source, hardware_crc: info.hardware_crc, assertions: info.assertions }
}

/// An open store with a pool of write batches. A write reuses the memory of an earlier batch, as
/// the benchmark programs of these engines do.
struct Batched<L: store::PeerLibrary> {
    store: store::Store<L>,
    /// Batches that are not in use. The lock is held only to take a batch or to return it.
    batches: Mutex<Vec<store::Batch<L>>>,
}

impl<L: store::PeerLibrary> Batched<L> {
    fn new(store: store::Store<L>) -> Batched<L> {
        Batched { store, batches: Mutex::default() }
    }

    /// Applies `changes` atomically.
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let free_batches = || self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = free_batches().pop().unwrap_or_else(|| self.store.batch());
        batch.clear();
        for change in changes {
            match *change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
            }
        }
        let written = self.store.write(&mut batch, sync);
        free_batches().push(batch);
        Ok(written?)
    }
}

/// Formats a size for the text of a departure. A departure is a setting that an engine cannot use,
/// and the value that it uses instead. The unit is MiB or KiB if the size is a whole number of
/// them, otherwise bytes.
fn bytes(count: u64) -> String {
    match count {
        _ if count != 0 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count != 0 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}
