//! The peers as targets of the lab, on equal terms as far as their options let them.
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

use crate::{library::Facts, rocksdb::Layout, store};
use std::sync::{Mutex, PoisonError};
use terrace_lab::target::{Build, Change, Engine, Result};

/// The peers by the names that `--engine` takes.
pub const NAMES: [&str; 7] =
    ["leveldb", "leveldb:debian", "rocksdb", "rocksdb:universal", "rocksdb:blob", "fjall", "redb"];

/// The peer called so, whether it is here or not; `None` for a name that is not in [`NAMES`].
pub fn engine(name: &str) -> Option<Box<dyn Engine>> {
    Some(match name {
        "leveldb" => Box::new(LevelDb::Strongest),
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

fn build(version: String, facts: Facts) -> Build {
    Build { version, source: facts.source, hardware_crc: facts.hardware_crc, assertions: facts.assertions }
}

/// An open store, and the batches with which its writers take turns. What these peers' own benchmarks do with one thread:
/// the memory of a write serves the next one.
struct Batched<L: store::Library> {
    store: store::Store<L>,
    /// Those that nobody uses now. Held for no longer than it takes to take one out or put it back.
    batches: Mutex<Vec<store::Batch<L>>>,
}

impl<L: store::Library> Batched<L> {
    fn new(store: store::Store<L>) -> Batched<L> {
        Batched { store, batches: Mutex::default() }
    }

    /// Applies `changes` as one.
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let spare = || self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = spare().pop().unwrap_or_else(|| self.store.batch());
        batch.clear();
        for change in changes {
            match *change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
            }
        }
        let written = self.store.write(&mut batch, sync);
        spare().push(batch);
        Ok(written?)
    }
}

/// `--option` style sizes for departures: whole MiB or KiB where they are whole.
fn bytes(count: u64) -> String {
    match count {
        _ if count != 0 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count != 0 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}
