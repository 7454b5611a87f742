//! The lab's interface to an engine. An engine is Terrace, a peer (another engine), or a fake
//! engine with known costs.
//!
//! An [`Engine`] opens stores, and a [`Target`] is one open store. Several threads call a target.
//! During a measurement the driver makes no calls except those that are measured. A target must
//! therefore do only the work of a call, without bookkeeping.
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Result of an engine's call. The lab stores the error text in the row of the failed cell (one
/// engine in one round).
pub type Result<T> = anyhow::Result<T>;

/// Settings that all engines of a run have in common. Every report prints them. Sizes are in
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Size at which a memtable is full. Each engine may have two memtables.
    pub write_buffer_size: u64,
    /// Size at which a compaction closes an output SSTable.
    pub max_file_size: u64,
    /// Size of the cache of uncompressed blocks.
    pub cache_size: u64,
    /// Uncompressed size of a block.
    pub block_size: u64,
    /// Bits per key of the Bloom filter; 0 for none.
    pub bloom_bits: u32,
    /// Compression of blocks: `none`, `snappy`, `zstd` or `lz4`.
    pub compression: String,
    /// Whether reads verify checksums.
    pub verify_checksums: bool,
    /// Size limit of level 1.
    pub level_base: u64,
    /// Three counts of level 0 files: at the first a compaction starts, at the second writes slow
    /// down, at the third writes stop.
    pub l0_triggers: (u32, u32, u32),
    /// Maximum number of open files.
    pub max_open_files: u32,
}

impl Default for Settings {
    /// LevelDB's defaults, without compression.
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

/// The build of an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineBuild {
    /// Version as the engine reports it.
    pub version: String,
    /// Source of the library: a package, a jar, a source build, this repository.
    pub source: String,
    /// Whether checksums use the processor's CRC-32C instruction; `None` if unknown.
    pub hardware_crc: Option<bool>,
    /// Whether the library was compiled with assertions; `None` if unknown.
    pub assertions: Option<bool>,
}

/// The storage medium that an engine's stores need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMedium {
    /// A file system.
    #[default]
    FileSystem,
    /// A device without a file system.
    Device,
    /// A small file system in a first partition of a device, and the rest of the device without
    /// one.
    Both,
}

/// Name of the link to a device without a file system. The link is in the parent directory of the
/// store.
pub const BARE: &str = "bare";

/// Removes the store at `dir`, which is a directory or a link to a device.
pub fn remove_store(dir: &Path) -> Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => fs::remove_file(dir),
        Ok(_) => fs::remove_dir_all(dir),
        Err(_) => return Ok(()),
    }
    .with_context(|| format!("remove {}", dir.display()))
}

/// Returns the path of the link to a device, which is in the parent directory of `dir`. `name` is
/// the name of the engine that needs the link.
///
/// # Errors
/// The link does not exist.
pub fn bare_device_link(dir: &Path, name: &str) -> Result<PathBuf> {
    let bare = dir.with_file_name(BARE);
    ensure!(bare.exists(), "{name} needs a device without a file system; choose one with --device");
    Ok(bare)
}

/// An engine, which opens stores.
pub trait Engine: Send + Sync {
    /// Returns the name in the form of `--engine`, with the preset: `terrace:volatile`, `leveldb`,
    /// `rocksdb:universal`.
    fn name(&self) -> String;
    /// Returns information about the engine's build. If the engine is not installed, the error
    /// explains how to install it.
    fn build(&self) -> std::result::Result<EngineBuild, String>;
    /// Returns the settings that this engine does not support, each with the value that the engine
    /// uses instead. Reports print them.
    fn departures(&self, settings: &Settings) -> Vec<String>;
    /// Returns the storage medium that the engine's stores need.
    fn below(&self) -> StoreMedium {
        StoreMedium::FileSystem
    }
    /// Clears `dir`, whatever it contains, so that a new store can be created there.
    fn clear(&self, dir: &Path, _: &Settings) -> Result<()> {
        remove_store(dir)?;
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))
    }
    /// Opens the store in `dir`, and creates it if it is missing. A setting that the engine can
    /// neither use nor replace, such as a compression that it lacks, is an error.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>>;
    /// Shortens the engine's timers from seconds to milliseconds for crash campaigns. Returns the
    /// minimum duration of a history (the batches that a crash test writes) in which all kinds of
    /// background work happen several times.
    fn shorten_timers(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Verifies all data of the closed store in `dir`, if the engine supports that.
    fn check(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    /// Makes stores report files as durable although the files are not. This is a negative control
    /// (an intentional fault) of crash campaigns.
    ///
    /// # Errors
    /// The engine does not track durability.
    fn claim_early_durability(&mut self) -> Result<()> {
        anyhow::bail!("{} does not track durability", self.name())
    }
}

/// One change in a write: a put or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets a key.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key.
    Delete(&'a [u8]),
}

/// One open store of an engine.
pub trait Target: Send + Sync {
    /// Applies `changes` as one batch. If `sync`, the batch is durable on return.
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()>;
    /// Copies the value of `key` into `value`, which is cleared first. Returns false if the key is
    /// absent.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Returns the values of `keys`, in their order. Engines without a call for several keys read
    /// them one by one.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter()
            .map(|key| {
                let mut value = Vec::new();
                Ok(self.get(key, &mut value)?.then_some(value))
            })
            .collect()
    }
    /// Visits entries in key order until `visit` returns false. The scan starts at the first key at
    /// or after `from`, or, if `reverse`, at the last key at or before `from`. Without `from`, it
    /// starts at the first key or, if `reverse`, at the last.
    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
    /// Compacts the whole store, as db_bench's workload `compact` does.
    fn compact(&self) -> Result<()>;
    /// Returns two watermarks, the position of the last write and that of the last durable write in
    /// the sequence of writes. Returns `None` if the engine does not report them.
    fn watermarks(&self) -> Option<Watermarks> {
        None
    }
    /// Waits until all previous writes survive a power cut. Only engines that report
    /// [`watermarks`](Target::watermarks) support this.
    fn wait_durable(&self) -> Result<()> {
        anyhow::bail!("the engine makes writes durable only with `sync`")
    }
    /// Returns the number of version edits that are not durable yet. Until an edit is durable, the
    /// store keeps the files that the edit replaces.
    fn pending(&self) -> u64 {
        0
    }
    /// Returns the engine's own counters, if it has any.
    fn counters(&self) -> EngineCounts {
        EngineCounts::default()
    }
    /// Closes the store cleanly. If closing cannot fail, dropping the store is enough.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Two positions in the sequence of writes. A position is a number that the engine defines and
/// that increases with each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The position of the last write.
    pub written: u64,
    /// The position of the last write that survives a power cut. All writes before it survive, too.
    pub durable: u64,
}

/// An engine's own counters since the store was opened. Of the peers (other engines), some report
/// stall times, and none reports other counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineCounts {
    /// Bytes written to storage by purpose: `wal flush compaction ingest value_log gc manifest
    /// other`, as far as the engine has them. `None` for peers.
    pub bytes_by_purpose: Option<BTreeMap<String, u64>>,
    /// Bytes that compactions wrote, by output level; `None` for peers.
    pub compaction_by_level: Option<BTreeMap<String, u64>>,
    /// Syncs by kind: `tables manifest log value_log directory root filesystem`. `None` for peers.
    pub syncs: Option<BTreeMap<String, SyncCount>>,
    /// Syncs of SSTables by the purpose for which the SSTable was written, such as `flush` or
    /// `compaction`.
    pub table_syncs: Option<BTreeMap<String, SyncCount>>,
    /// Number of memtable flushes.
    pub flushes: Option<u64>,
    /// Free bytes of the store's medium, if the engine reports them.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Total time of write stalls. `None` if the engine does not report it.
    pub stall: Option<Duration>,
}

/// Syncs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncCount {
    /// Number of calls.
    pub count: u64,
    /// Calls that blocked a foreground write, a flush or a compaction.
    pub blocking: u64,
    /// Bytes synced; `None` if unknown.
    pub bytes: Option<u64>,
    /// Seconds spent in the calls.
    pub seconds: f64,
}
