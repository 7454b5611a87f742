//! What the lab asks of an engine: Terrace, a peer, or a fake one with known costs.
//!
//! An [`Engine`] is a way to open stores; a [`Target`] is one open store. Calls come from several threads. The driver
//! calls nothing else in the measured window, so a target does its work and no bookkeeping of its own.
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Result of an engine's call; the text ends up in the row of the cell that failed.
pub type Result<T> = anyhow::Result<T>;

/// Equal terms: the same for every engine of a run, and printed with every result. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Size at which a memtable is full; each engine may have two.
    pub write_buffer_size: u64,
    /// Size at which a compaction ends a file.
    pub max_file_size: u64,
    /// Cache of uncompressed blocks.
    pub cache_size: u64,
    /// Uncompressed size of a block.
    pub block_size: u64,
    /// Bits of Bloom filter per key; 0 for none.
    pub bloom_bits: u32,
    /// `none`, `snappy`, `zstd` or `lz4`.
    pub compression: String,
    /// Whether reads verify checksums.
    pub verify_checksums: bool,
    /// Bytes that level 1 may hold.
    pub level_base: u64,
    /// Files in level 0 that start its compaction, slow writes, stop them.
    pub l0_triggers: (u32, u32, u32),
    /// Files kept open at most.
    pub max_open_files: u32,
}

impl Default for Settings {
    /// LevelDB's own numbers, without compression.
    fn default() -> Settings {
        Settings {
            write_buffer_size: 4 << 20,
            max_file_size: 2 << 20,
            cache_size: 8 << 20,
            block_size: 4 << 10,
            bloom_bits: 10,
            compression: "none".into(),
            verify_checksums: false,
            level_base: 10 << 20,
            l0_triggers: (4, 8, 12),
            max_open_files: 1000,
        }
    }
}

/// Which build of an engine answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// As the engine tells it.
    pub version: String,
    /// Where the library came from: a package, a jar, a source build, this repository.
    pub source: String,
    /// Whether checksums use the processor's CRC-32C instruction; `None` if it cannot be told.
    pub hardware_crc: Option<bool>,
    /// Whether it was compiled with assertions; `None` if it cannot be told.
    pub assertions: Option<bool>,
}

/// What an engine's stores lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Below {
    /// A file system.
    #[default]
    FileSystem,
    /// A device without one.
    Device,
    /// A small file system, and the rest of the same device without one.
    Both,
}

/// Beside the store, where it may lie on a device without a file system: a link to that.
pub const BARE: &str = "bare";

/// Nothing is called `dir` any more, be it a directory or a link to a device.
pub fn vacate(dir: &Path) -> Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => fs::remove_file(dir),
        Ok(_) => fs::remove_dir_all(dir),
        Err(_) => return Ok(()),
    }
    .with_context(|| format!("remove {}", dir.display()))
}

/// The link to a device beside `dir`, for the engine called `name`, which needs one.
///
/// # Errors
/// There is none.
pub fn bare_beside(dir: &Path, name: &str) -> Result<PathBuf> {
    let bare = dir.with_file_name(BARE);
    ensure!(bare.exists(), "{name} lies on a device without a file system, and --device gives none");
    Ok(bare)
}

/// A way to open stores.
pub trait Engine: Send + Sync {
    /// As `--engine` spells it, preset included: `terrace:volatile`, `leveldb`, `rocksdb:universal`.
    fn name(&self) -> String;
    /// The build, or what to install to get it.
    fn build(&self) -> std::result::Result<Build, String>;
    /// Terms that this engine cannot take over as they are, with what it does instead. Printed with its results.
    fn departures(&self, settings: &Settings) -> Vec<String>;
    /// What its stores lie on.
    fn below(&self) -> Below {
        Below::FileSystem
    }
    /// Makes `dir` a place for a new store, whatever was there.
    fn clear(&self, dir: &Path, _: &Settings) -> Result<()> {
        vacate(dir)?;
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))
    }
    /// Opens the store in `dir`, making it if it is missing. Refuses what `settings` ask for and it cannot give.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>>;
    /// For crash campaigns: from now on its stores do every few milliseconds what they otherwise do every few seconds. How long
    /// a history must last, for everything that happens behind it to happen several times.
    fn hurry(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Verifies everything in the closed store in `dir`, where the engine can.
    fn check(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    /// A control of crash campaigns: from now on its stores take files for durable that are not.
    ///
    /// # Errors
    /// It has no such belief that could be false.
    fn deceive(&mut self) -> Result<()> {
        anyhow::bail!("{} waits for no tickets", self.name())
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets a key.
    Put(&'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(&'a [u8]),
}

/// One open store.
pub trait Target: Send + Sync {
    /// Applies `changes` as one batch; durable at return if `sync`.
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()>;
    /// Puts the value of `key` into `value` (cleared first); false if there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Visits pairs in order from `from` on (from the first, or the last if `reverse`, if `None`) until `visit` says
    /// false. Reverse starts at the last key at or before `from`.
    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
    /// Merges everything down, as db_bench's `compact` does.
    fn compact(&self) -> Result<()>;
    /// How far it has got, if it tells.
    fn reach(&self) -> Option<Reach> {
        None
    }
    /// Returns once everything written so far survives a power cut; only for those that tell their [`reach`](Target::reach).
    fn wait_durable(&self) -> Result<()> {
        anyhow::bail!("it promises durability with `sync` alone")
    }
    /// Changes that are made but not yet durable, and so keep what they replace.
    fn pending(&self) -> u64 {
        0
    }
    /// The engine's own counts, where it has any.
    fn own(&self) -> Own {
        Own::default()
    }
    /// Closes cleanly; where nothing can go wrong, dropping is enough.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Writes, in numbers of the engine's own, which rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Of the last one.
    pub written: u64,
    /// Of the last one that survives a power cut, with all before it.
    pub durable: u64,
}

/// What an engine counts by itself; peers leave it empty. Totals since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Bytes handed to storage by purpose (`wal flush compaction ingest value_log gc manifest other`, as far as there is such a thing);
    /// `None` for peers.
    pub bytes_by_purpose: Option<BTreeMap<String, u64>>,
    /// Those of `compaction` by the level that the tables are for; `None` for peers.
    pub compaction_by_level: Option<BTreeMap<String, u64>>,
    /// Syncs by kind (`tables manifest log value_log directory root filesystem`); `None` for peers.
    pub syncs: Option<BTreeMap<String, SyncCount>>,
    /// Those of tables, by what these were written for (`flush compaction …`).
    pub table_syncs: Option<BTreeMap<String, SyncCount>>,
    /// Memtables that became tables.
    pub flushes: Option<u64>,
    /// Bytes that the place of the store has left, if the engine tells.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Time that writers waited for background work; `None` if the engine does not tell.
    pub stall: Option<Duration>,
}

/// Syncs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncCount {
    /// Calls.
    pub count: u64,
    /// Of these, calls that a foreground write, a flush or a compaction waited for.
    pub blocking: u64,
    /// Bytes they covered; `None` where the counter cannot tell.
    pub bytes: Option<u64>,
    /// Seconds spent in them.
    pub seconds: f64,
}
