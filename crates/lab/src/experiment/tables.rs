//! The three tables of an experiment whose fields a sweep may vary: `[load]`, `[terms]` and
//! `[device]`. The sizes in these tables are those of the paper, before the scale reduces them.
use super::size::Size;
use crate::{cell::CellSpec, device::FileSystem, target::Settings, workload::ycsb::Update};
use serde::Deserialize;

/// The data that is written and read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Number of keys of a fill.
    pub num: Option<u64>,
    /// Total bytes of all keys and values of a fill. An experiment has either this field or `num`.
    pub bytes: Option<Size>,
    /// Number of operations of each thread in a workload that reads. In YCSB and similar workloads,
    /// the total number of operations of all threads. The default is `num`.
    pub reads: Option<u64>,
    /// Number of random puts of each thread in db_bench's random fills and in `overwrite`. The
    /// default is `num`.
    pub writes: Option<u64>,
    /// Key size in bytes.
    pub key_size: usize,
    /// Value size in bytes.
    pub value_size: Size,
    /// Number of concurrent threads.
    pub threads: usize,
    /// Number of changes per write.
    pub batch: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Compressed size of values divided by their uncompressed size.
    pub compression_ratio: f64,
    /// Semantics of a YCSB update: `blind` or `merge`.
    pub ycsb_update: Update,
    /// Number of processors for the engine. The other processors are reserved for the kernel, and
    /// for the process that serves the drive.
    pub processors: Option<usize>,
    /// Memory limit of an engine's process while a workload only reads. The limit includes the page
    /// cache.
    pub memory: Option<Size>,
}

impl Default for Load {
    fn default() -> Load {
        let spec = CellSpec::default();
        Load {
            num: None,
            bytes: None,
            reads: None,
            writes: None,
            key_size: spec.key_size,
            value_size: Size(spec.value_size as u64),
            threads: spec.threads,
            batch: spec.batch,
            seed: spec.seed,
            compression_ratio: spec.compression_ratio,
            ycsb_update: spec.ycsb_update,
            processors: spec.processors,
            memory: spec.memory.map(Size),
        }
    }
}

impl Load {
    /// Returns the number of keys of a fill. If a field is invalid, the error names it.
    pub fn keys(&self) -> Result<u64, String> {
        match (self.num, self.bytes) {
            (Some(num), None) => Ok(num),
            (None, Some(Size(bytes))) => Ok((bytes / (self.key_size as u64 + self.value_size.0)).max(1)),
            (None, None) => Err("it or `bytes` is required".into()),
            (Some(_), Some(_)) => Err("only one of it and `bytes` may be given".into()),
        }
    }
}

/// Settings that all engines have in common. Omitted fields have the defaults of [`Settings`],
/// which are LevelDB's values. There are two exceptions: a Bloom filter with 10 bits per key, and
/// no compression.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields of `Settings`")]
pub struct Terms {
    pub write_buffer_size: Size,
    pub max_file_size: Size,
    pub cache_size: Size,
    pub block_size: Size,
    pub bloom_bits: u32,
    pub compression: String,
    pub verify_checksums: bool,
    pub level_base: Size,
    pub l0_triggers: (u32, u32, u32),
    pub max_open_files: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        let settings = Settings::default();
        Terms {
            write_buffer_size: Size(settings.write_buffer_size),
            max_file_size: Size(settings.max_file_size),
            cache_size: Size(settings.cache_size),
            block_size: Size(settings.block_size),
            bloom_bits: settings.bloom_bits,
            compression: settings.compression,
            verify_checksums: settings.verify_checksums,
            level_base: Size(settings.level_base),
            l0_triggers: settings.l0_triggers,
            max_open_files: settings.max_open_files,
        }
    }
}

impl Terms {
    /// Returns the settings in the form that engines take.
    pub fn settings(&self) -> Settings {
        Settings {
            write_buffer_size: self.write_buffer_size.0,
            max_file_size: self.max_file_size.0,
            cache_size: self.cache_size.0,
            block_size: self.block_size.0,
            bloom_bits: self.bloom_bits,
            compression: self.compression.clone(),
            verify_checksums: self.verify_checksums,
            level_base: self.level_base.0,
            l0_triggers: self.l0_triggers,
            max_open_files: self.max_open_files,
        }
    }
}

/// Device that contains the stores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Kind of the device.
    pub kind: Kind,
    /// Size of the device in bytes. It is required for all kinds except `temporary`.
    pub size: Option<Size>,
    /// File system for engines that need one: `ext4`, `ext4-nojournal` or, on a loop device, `xfs`.
    #[serde(default)]
    pub file_system: FileSystem,
    /// Name of a built-in profile. It is required for a virtual SSD.
    pub profile: Option<String>,
    /// Initial state of a virtual SSD.
    #[serde(default)]
    pub state: State,
    /// Whether ext4 discards deleted blocks immediately. Valid for a virtual SSD and for a drive in
    /// memory.
    #[serde(default)]
    pub discard: bool,
    /// Time in µs by which each cache flush is delayed. Valid for a virtual SSD and for a drive in
    /// memory.
    #[serde(default)]
    pub flush_us: u64,
    /// Maximum number of bytes per second. Valid for a virtual SSD and for a drive in memory. A
    /// virtual SSD limits the sum of reads and writes. For a drive in memory, the kernel limits
    /// reads and writes separately.
    pub bytes_per_s: Option<Size>,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A temporary directory. The bytes that its device receives are not counted.
    Temporary,
    /// A fresh file system on a loop device.
    Loop,
    /// A fresh ext4 on a virtual SSD.
    Vssd,
    /// A fresh ext4 on a drive in this machine's memory.
    Memory,
}

/// Initial states of a virtual SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The SSD is new.
    #[default]
    Initial,
    /// The SSD was filled and then overwritten until its write amplification was constant.
    Steady,
}
