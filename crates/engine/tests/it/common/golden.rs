//! Golden stores: small stores with known contents. Every later version of Terrace must be able to
//! read them.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use std::{collections::BTreeMap, path::Path};
use terrace::{Db, Options, Result, WriteBatch, WriteOptions};

/// The description from which one golden store is made.
pub struct Golden {
    pub name: &'static str,
    options: &'static [(&'static str, &'static str)],
    /// Whether the store is closed cleanly. If not, its files are those that a kill leaves, with
    /// writes that are only in a WAL.
    closed: bool,
}

/// The golden stores. Together they have SSTables in all levels with each codec, both filter
/// forms, range tombstones, and WALs of both engines.
pub const STORES: &[Golden] = &[
    Golden { name: "leveldb", options: &[], closed: true },
    Golden { name: "leveldb-killed", options: &[("compression", "none"), ("bloom_bits", "10")], closed: false },
    Golden {
        name: "zstd",
        options: &[("compression", "zstd"), ("bloom_bits", "10"), ("filter_form", "table")],
        closed: true,
    },
    Golden { name: "lz4-ranges", options: &[("compression", "lz4"), ("range_tombstones", "on")], closed: false },
    Golden {
        name: "mapped-log",
        options: &[("wal_write_mode", "map"), ("block_restart_interval", "3")],
        closed: false,
    },
];

impl Golden {
    /// Returns the options with which the store was created. They may also be used to open it.
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        for (name, value) in [("write_buffer_size", "64KiB"), ("target_file_size", "64KiB")].iter().chain(self.options)
        {
            options.set(name, value).expect("an option of every version");
        }
        options
    }

    /// Creates the store in `folder` and returns its contents.
    pub fn make(&self, folder: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let db = Db::open(folder, self.options())?;
        let mut model = BTreeMap::new();
        for round in 0..4u32 {
            for n in (round..120).step_by(1 + round as usize) {
                let (key, value) = pair(round, n);
                db.put(&key, &value)?;
                model.insert(key, value);
            }
            let mut batch = WriteBatch::new();
            for n in (10 * round)..(10 * round + 4) {
                let (key, _) = pair(round, n);
                batch.delete(&key);
                model.remove(&key);
            }
            db.write(batch, WriteOptions::synced())?;
            if round == 2 {
                let (from, to) = (&b"key070"[..], &b"key080"[..]);
                db.delete_range(from, to, WriteOptions::default())?;
                model.retain(|key, _| !(from..to).contains(&&key[..]));
            }
            if round < 3 {
                db.flush()?;
            }
        }
        if self.closed {
            db.close()?
        } else {
            drop(db)
        }
        Ok(model)
    }

    /// Returns the pairs in the store.
    pub fn contents(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        self.make(&scratch.path().join("again")).expect("it was made before")
    }
}

/// Returns a key and a value of arbitrary bytes. Some keys and values are empty, and one is long.
fn pair(round: u32, n: u32) -> (Vec<u8>, Vec<u8>) {
    let key = if n == 119 { Vec::new() } else { format!("key{n:03}").into_bytes() };
    let bytes = if n == 57 { 5000 } else { n as usize % 40 };
    let value = (0..bytes).map(|at| ((at as u32 * (n + 7 * round + 1)) >> 2) as u8).collect();
    (key, value)
}
