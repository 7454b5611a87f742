//! The peers as targets of the lab, on equal terms as far as their C APIs let them.
mod leveldb;
mod rocksdb;

pub use leveldb::LevelDb;
pub use rocksdb::RocksDb;

use crate::{library::Facts, rocksdb::Layout};
use terrace_lab::target::{Build, Engine};

/// The peers by the names that `--engine` takes.
pub const NAMES: [&str; 5] = ["leveldb", "leveldb:debian", "rocksdb", "rocksdb:universal", "rocksdb:blob"];

/// The peer called so, whether its library is here or not; `None` for a name that is not in [`NAMES`].
pub fn engine(name: &str) -> Option<Box<dyn Engine>> {
    Some(match name {
        "leveldb" => Box::new(LevelDb::Strongest),
        "leveldb:debian" => Box::new(LevelDb::System),
        "rocksdb" => Box::new(RocksDb::new(Layout::Leveled)),
        "rocksdb:universal" => Box::new(RocksDb::new(Layout::Universal)),
        "rocksdb:blob" => Box::new(RocksDb::new(Layout::Blob)),
        _ => return None,
    })
}

fn build(version: String, facts: Facts) -> Build {
    Build { version, source: facts.source, hardware_crc: facts.hardware_crc, assertions: facts.assertions }
}

/// `--option` style sizes for departures: whole MiB or KiB where they are whole.
fn bytes(count: u64) -> String {
    match count {
        _ if count != 0 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count != 0 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}
