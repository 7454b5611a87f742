//! The three tables of an experiment that a sweep may vary: `[load]`, `[terms]` and `[device]`. All are at the paper's own size.
use super::size::Size;
use crate::{cell::CellSpec, device::FileSystem, target::Settings, workload::ycsb::Update};
use serde::Deserialize;

/// What is written and read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Keys of a fill.
    pub num: Option<u64>,
    /// Instead of `num`: bytes of all keys and values.
    pub bytes: Option<Size>,
    /// Operations of a thread in workloads that read, and of YCSB and its kin in all; `num` if it is left out.
    pub reads: Option<u64>,
    /// Random puts of a thread in db_bench's fills and `overwrite`; `num` if it is left out.
    pub writes: Option<u64>,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: Size,
    /// Threads that work at once.
    pub threads: usize,
    /// Changes in one write.
    pub batch: usize,
    /// Seed of every choice.
    pub seed: u64,
    /// What values compress to.
    pub compression_ratio: f64,
    /// What a YCSB update does: `blind` or `merge`.
    pub ycsb_update: Update,
    /// The engine may use so many processors; the kernel and the drive's server have the others to themselves.
    pub processors: Option<usize>,
    /// Memory that an engine's process may hold while a workload only reads, with what the kernel caches for it.
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
    /// Keys of a fill; the error says which field is wrong.
    pub fn keys(&self) -> Result<u64, String> {
        match (self.num, self.bytes) {
            (Some(num), None) => Ok(num),
            (None, Some(Size(bytes))) => Ok((bytes / (self.key_size as u64 + self.value_size.0)).max(1)),
            (None, None) => Err("it or `bytes` is to be given".into()),
            (Some(_), Some(_)) => Err("`bytes` is given as well; one of them decides".into()),
        }
    }
}

/// Equal terms for all engines; what is left out is [`Settings`]' default: LevelDB's numbers, a Bloom filter of 10 bits, no compression.
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
    /// As engines take them.
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

/// Where stores live.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is.
    pub kind: Kind,
    /// What the host sees of it. Needed but for `temporary`.
    pub size: Option<Size>,
    /// For engines that want one: `ext4`, `ext4-nojournal` or, on a loop device, `xfs`.
    #[serde(default)]
    pub file_system: FileSystem,
    /// Of a virtual SSD: one that comes with the program.
    pub profile: Option<String>,
    /// Of a virtual SSD: whether it has been in use.
    #[serde(default)]
    pub state: State,
    /// Of a virtual SSD or a drive in memory: whether ext4 tells it what was deleted, as it is deleted.
    #[serde(default)]
    pub discard: bool,
    /// Of these: µs that each flush of its cache takes longer than it would.
    #[serde(default)]
    pub flush_us: u64,
    /// Of these: bytes that it reads and writes in a second at most; of memory each as many, where the kernel sees to that.
    pub bytes_per_s: Option<Size>,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory; no device is counted.
    Temporary,
    /// A fresh file system on a loop device.
    Loop,
    /// A fresh ext4 on a virtual SSD.
    Vssd,
    /// A fresh ext4 on a drive that is this machine's memory.
    Memory,
}

/// States of a virtual SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As new.
    #[default]
    Initial,
    /// Filled and overwritten until its cost levels off.
    Steady,
}
