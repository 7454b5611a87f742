//! A cell: one engine, one round, all workloads in order on one store; what one child process does and reports.
//!
//! The parent hands a [`CellSpec`] to the child as JSON; the child answers one [`Event`] a line: progress while it
//! works, and one [`Row`] for each workload. A figure that cannot be had is `None` here and `null` there, never a guess.
mod account;
mod cost;
pub(crate) mod memory;
mod over_time;
pub(crate) mod processors;
mod run;

pub use over_time::{LatencyOverTime, OverTime};
pub use run::{Engines, run_cell};

use crate::{
    machine::Machine,
    target::{Build, Settings},
    workload::ycsb::Update,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// The kinds of syncs that every row names, in the order of reports.
pub const SYNC_KINDS: [&str; 7] = ["tables", "manifest", "log", "value_log", "directory", "root", "filesystem"];

/// Everything a child needs to know. The same seed gives the same operations for every engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// As `--engine` spells it.
    pub engine: String,
    /// Equal terms.
    pub settings: Settings,
    /// Workloads by name, in order.
    pub workloads: Vec<String>,
    /// Keys of a fill.
    pub num: u64,
    /// Bytes of a key; YCSB's keys have their own size.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Threads that work at once.
    pub threads: usize,
    /// Changes in one write, where the workload does not say.
    pub batch: usize,
    /// Seed of every choice.
    pub seed: u64,
    /// Which repetition this is, from 1.
    pub round: u32,
    /// Where the store is: a directory `store` in it is removed and made anew by fills.
    pub dir: PathBuf,
    /// Block device node under `dir`, for the kernel's statistics.
    pub device: Option<PathBuf>,
    /// Whether the latency of each operation is recorded.
    pub histogram: bool,
    /// Whether every answer is checked against what the store must hold.
    pub check_answers: bool,
    /// Operations of a thread in workloads that read, and operations in all of YCSB; `num` if `None`.
    pub reads: Option<u64>,
    /// Random puts of a thread in db_bench's fills and `overwrite`; `num` if `None`.
    pub writes: Option<u64>,
    /// Size of values after compression over their size before it.
    pub compression_ratio: f64,
    /// What a YCSB update does.
    pub ycsb_update: Update,
    /// The engine and its driver may use so many processors, and the kernel and the drive's server have the others to themselves; all of
    /// them if `None`.
    #[serde(default)]
    pub processors: Option<usize>,
    /// Memory that the process may hold while a workload only reads, with what the kernel caches for it; any if `None`.
    #[serde(default)]
    pub memory: Option<u64>,
}

impl Default for CellSpec {
    /// db_bench's numbers on engine `terrace`, in no directory yet.
    fn default() -> CellSpec {
        CellSpec {
            engine: "terrace".into(),
            settings: Settings::default(),
            workloads: Vec::new(),
            num: 1_000_000,
            key_size: 16,
            value_size: 100,
            threads: 1,
            batch: 1,
            seed: 1,
            round: 1,
            dir: PathBuf::new(),
            device: None,
            histogram: true,
            check_answers: true,
            reads: None,
            writes: None,
            compression_ratio: 0.5,
            ycsb_update: Update::Blind,
            processors: None,
            memory: None,
        }
    }
}

/// What a child says, one JSON object a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Event {
    /// How far it is; told about twice a second.
    Progress {
        /// The news.
        progress: Progress,
    },
    /// A finished, or failed, workload.
    Row(Box<Row>),
}

/// How far a workload is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Its name.
    pub workload: String,
    /// `run`, then `settle`.
    pub phase: String,
    /// Operations done.
    pub done: u64,
    /// Operations to do, as far as that is known.
    pub total: u64,
}

/// Times of one kind of operation, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations timed.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// 1 % took no longer.
    #[serde(default)]
    pub p1: f64,
    /// 5 %.
    #[serde(default)]
    pub p5: f64,
    /// Half took no longer.
    pub p50: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 95 %.
    #[serde(default)]
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// The longest.
    pub max: f64,
}

/// Bytes that moved, layer by layer (docs/lab.md). From the start of the workload until the engine has settled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Keys and values of acknowledged puts, keys of deletes.
    pub user: u64,
    /// Keys and values that reads returned.
    pub returned: u64,
    /// Handed to storage by the engine, as it counts itself.
    pub engine: Option<u64>,
    /// The same by purpose.
    pub engine_by_purpose: Option<BTreeMap<String, u64>>,
    /// Those of `compaction` by the level that the tables are for; levels that got none are left out.
    #[serde(default)]
    pub engine_compaction_by_level: Option<BTreeMap<String, u64>>,
    /// Charged to the process by the kernel, minus what was cancelled before it reached the device.
    pub process: Option<u64>,
    /// Read from storage for the process.
    pub process_read: Option<u64>,
    /// That reached the block device.
    pub device: Option<u64>,
    /// Read from the block device.
    pub device_read: Option<u64>,
    /// `device` by what caused it: kinds of files (each block's first write), `rewritten`, `directory`, `metadata`,
    /// `journal`, `elsewhere` (other files on the device) and `unknown`.
    pub device_by_cause: Option<BTreeMap<String, u64>>,
    /// Of these, what is `rewritten`, by the kind of file.
    #[serde(default)]
    pub device_rewritten_by_kind: Option<BTreeMap<String, u64>>,
    /// Dirtied by the process, and deleted before it was written to any device.
    pub never_written: Option<u64>,
    /// Written by the file system, by its own count.
    pub file_system: Option<u64>,
    /// That a virtual SSD was told to write, by its own count.
    pub drive: Option<u64>,
    /// Programmed into flash.
    pub nand: Option<u64>,
    /// The same by cause: `host`, `gc`, `wear_levelling`, `padding`.
    pub nand_by_cause: Option<BTreeMap<String, u64>>,
}

/// Write amplification: each a ratio of two layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// engine / user.
    pub engine: Option<f64>,
    /// device / engine.
    pub fs: Option<f64>,
    /// device / user.
    pub wa1: Option<f64>,
    /// nand / device.
    pub wa2: Option<f64>,
    /// `wa1` × `wa2`.
    pub total: Option<f64>,
}

/// Syncs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncRow {
    /// Calls.
    pub count: u64,
    /// Of these, calls that a foreground write, a flush or a compaction waited for.
    pub blocking: Option<u64>,
    /// Bytes they covered.
    pub bytes: Option<u64>,
    /// Seconds spent in them.
    pub seconds: Option<f64>,
}

/// Syncs in all and by kind. Every kind of [`SYNC_KINDS`] is there; the kernel may name `other` and
/// `unknown` besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncRows {
    /// Calls of every kind.
    pub count: Option<u64>,
    /// Blocking calls of every kind.
    pub blocking: Option<u64>,
    /// Those of tables, by what these were written for, where the engine tells.
    #[serde(default)]
    pub tables_by_purpose: Option<BTreeMap<String, SyncRow>>,
    /// By kind; `None` where nobody counted it.
    #[serde(flatten)]
    pub kinds: BTreeMap<String, Option<SyncRow>>,
}

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// In the process.
    pub user: f64,
    /// In the kernel for it.
    pub system: f64,
}

/// What the driver itself costs, measured in the same process against an engine that does nothing, in a random fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverCost {
    /// Of an operation, in ns.
    pub ns_per_op: f64,
    /// Of an operation whose latency is recorded.
    pub ns_per_op_with_latency: f64,
    /// Of checking the answer of a read.
    pub ns_per_check: f64,
    /// Of checking that a scan met the right pair.
    pub ns_per_pair: f64,
    /// Memory in which the driver keeps what the store must hold; part of the process's.
    pub memory_bytes: u64,
}

/// One engine × workload × round. `engine` and `preset` are the two halves of `name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine as `--engine` spells it.
    pub name: String,
    /// Without its preset.
    pub engine: String,
    /// The preset, the default one's name included; `None` if the engine has none.
    pub preset: Option<String>,
    /// The engine's version.
    pub version: String,
    /// The workload's name.
    pub workload: String,
    /// From 1.
    pub round: u32,
    /// Keys of the fill, as this workload scales it.
    pub num: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value, as this workload has it.
    pub value_size: usize,
    /// Threads.
    pub threads: usize,
    /// Changes in one write.
    pub batch: usize,
    /// Seed.
    pub seed: u64,
    /// When it began, as RFC 3339 has it, in UTC.
    #[serde(default)]
    pub began: Option<String>,
    /// Operations done; each change of a batch and each pair of a sequential read is one.
    pub ops: u64,
    /// Reads that found their key.
    pub found: u64,
    /// Until the last operation ended.
    pub seconds: Option<f64>,
    /// `seconds` / operations of one thread, in µs: what one thread waits for one operation.
    pub micros_per_op: Option<f64>,
    /// User bytes written and returned / `seconds`, in MiB.
    pub user_mib_per_s: Option<f64>,
    /// From then until background work was done, with the lab's one sync of the file system at the end.
    pub settle_seconds: Option<f64>,
    /// Of these, in that sync.
    pub settle_sync_seconds: Option<f64>,
    /// Whether it was done in time.
    pub settled: Option<bool>,
    /// By kind of operation; empty if latency was not recorded.
    pub latency_us: BTreeMap<String, Latency>,
    /// Operations and latencies over time; `None` if no latency was recorded.
    #[serde(default)]
    pub over_time: Option<OverTime>,
    /// Time that writers waited for background work.
    pub stall_seconds: Option<f64>,
    /// Bytes, layer by layer.
    pub bytes: Bytes,
    /// Write amplification.
    pub wa: Amplification,
    /// Bytes read from the device (from storage, if the device is not known) / bytes returned.
    pub ra: Option<f64>,
    /// Bytes of the store's files / bytes of its live keys and values.
    pub sa: Option<f64>,
    /// Syncs, as the engine counts them, or the kernel where it does not.
    pub syncs: SyncRows,
    /// The same as the kernel counts them for the process, where it does.
    pub syncs_outside: Option<BTreeMap<String, SyncRow>>,
    /// Memtables that became tables, where the engine tells.
    #[serde(default)]
    pub flushes: Option<u64>,
    /// Times the device was told to empty its cache.
    pub device_flushes: Option<u64>,
    /// Commits of the file system's journal.
    pub journal_commits: Option<u64>,
    /// Bytes of the store's files at the end.
    pub space_bytes: Option<u64>,
    /// Most bytes that they had at once, looked at ten times a second; `None` for workloads that only read.
    #[serde(default)]
    pub space_peak_bytes: Option<u64>,
    /// Most memory the process had, files it maps included.
    pub peak_rss_bytes: Option<u64>,
    /// Most memory of its own.
    pub peak_anon_bytes: Option<u64>,
    /// Processor time, settling included.
    pub cpu_seconds: Option<CpuSeconds>,
    /// The same in seconds for those threads that lived on to the end, by name.
    #[serde(default)]
    pub cpu_by_thread: Option<BTreeMap<String, f64>>,
    /// Which build answered.
    pub build: Option<Build>,
    /// Equal terms.
    pub settings: Settings,
    /// Where this engine departs from them.
    pub departures: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The driver's own cost.
    pub driver: Option<DriverCost>,
    /// One-minute load average of the machine before the workload.
    pub load_before: Option<f64>,
    /// After it.
    pub load_after: Option<f64>,
    /// Whether other processes took part of the machine; the parent knows.
    pub disturbed: Option<bool>,
    /// Remarks on figures of this row.
    pub notes: Vec<String>,
    /// Why the cell ended here; the figures of such a row mean nothing.
    pub error: Option<String>,
}

impl Row {
    /// What `spec` says of every row.
    pub fn blank(spec: &CellSpec) -> Row {
        Row {
            name: spec.engine.clone(),
            engine: spec.engine.split(':').next().unwrap_or_default().into(),
            preset: preset_in(&spec.engine),
            round: spec.round,
            num: spec.num,
            key_size: spec.key_size,
            value_size: spec.value_size,
            threads: spec.threads,
            batch: spec.batch,
            seed: spec.seed,
            settings: spec.settings.clone(),
            ..Row::default()
        }
    }
}

/// What stands behind the colon of an engine's name.
fn preset_in(name: &str) -> Option<String> {
    name.split_once(':').map(|(_, preset)| preset.into())
}
