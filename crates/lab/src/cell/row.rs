//! The row: the result of one engine in one workload and one round.
use super::{over_time::OverTime, spec::CellSpec};
use crate::{
    machine::Machine,
    target::{EngineBuild, Settings},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kinds of syncs that every row counts, in the order of reports. The kind of a sync is the
/// kind of the synced file, or `filesystem` for a sync of the whole file system.
pub const SYNC_KINDS: [&str; 7] = ["tables", "manifest", "log", "value_log", "directory", "root", "filesystem"];

/// Latencies of one kind of operation, such as puts, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of operations timed.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// 1st percentile.
    #[serde(default)]
    pub p1: f64,
    /// 5th percentile.
    #[serde(default)]
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    #[serde(default)]
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Maximum.
    pub max: f64,
}

/// Bytes moved at each layer (docs/lab.md), from the start of the workload until its background
/// work has finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Bytes of the keys and values of acknowledged puts, and of the keys of acknowledged deletes.
    pub user: u64,
    /// Bytes of the keys and values that reads returned.
    pub returned: u64,
    /// Bytes that the engine wrote to its storage, by its own count.
    pub engine: Option<u64>,
    /// The bytes of `engine` by purpose, such as `wal`, `flush` or `compaction`.
    pub engine_by_purpose: Option<BTreeMap<String, u64>>,
    /// The bytes of compactions in `engine`, by output level. Levels without output are omitted.
    #[serde(default)]
    pub engine_compaction_by_level: Option<BTreeMap<String, u64>>,
    /// Bytes that the process wrote according to the kernel, minus writes that were cancelled
    /// before they reached the device.
    pub process: Option<u64>,
    /// Bytes that the kernel read from storage for the process.
    pub process_read: Option<u64>,
    /// Bytes written to the block device.
    pub device: Option<u64>,
    /// Bytes read from the block device.
    pub device_read: Option<u64>,
    /// The bytes of `device` by cause. The causes are kinds of files (the first write to a block),
    /// `rewritten` (later writes to a block), `directory`, `metadata`, `journal`, `elsewhere`
    /// (other files on the device) and `unknown`.
    pub device_by_cause: Option<BTreeMap<String, u64>>,
    /// The `rewritten` bytes of `device_by_cause`, by kind of file.
    #[serde(default)]
    pub device_rewritten_by_kind: Option<BTreeMap<String, u64>>,
    /// Bytes that the process dirtied and that were deleted before they were written to a device.
    pub never_written: Option<u64>,
    /// Bytes that the file system wrote, by its own count.
    pub file_system: Option<u64>,
    /// Bytes of the write commands that a virtual SSD received, by its own count.
    pub drive: Option<u64>,
    /// Bytes programmed into flash.
    pub nand: Option<u64>,
    /// The bytes of `nand` by cause: `host`, `gc`, `wear_levelling`, `padding`.
    pub nand_by_cause: Option<BTreeMap<String, u64>>,
}

/// Write amplification. Each field is a ratio between the bytes of two layers, which are two
/// fields of [`Bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// Bytes written by the engine / bytes written by the user.
    pub engine: Option<f64>,
    /// Bytes written to the device / bytes written by the engine.
    pub fs: Option<f64>,
    /// Bytes written to the device / bytes written by the user.
    pub wa1: Option<f64>,
    /// Bytes programmed into flash / bytes written to the device.
    pub wa2: Option<f64>,
    /// Total write amplification: `wa1` × `wa2`.
    pub total: Option<f64>,
}

/// Syncs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncRow {
    /// Number of calls of this kind.
    pub count: u64,
    /// Number of calls that blocked a foreground write, a flush or a compaction.
    pub blocking: Option<u64>,
    /// Bytes that the calls synced.
    pub bytes: Option<u64>,
    /// Seconds spent in the calls.
    pub seconds: Option<f64>,
}

/// Syncs in total and by kind. Every kind of [`SYNC_KINDS`] is present. The kernel's counts may
/// add `other` and `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncRows {
    /// Number of calls of all kinds.
    pub count: Option<u64>,
    /// Number of blocking calls of all kinds.
    pub blocking: Option<u64>,
    /// Syncs of SSTables by the purpose for which the SSTable was written, if the engine reports
    /// it.
    #[serde(default)]
    pub tables_by_purpose: Option<BTreeMap<String, SyncRow>>,
    /// Syncs by kind; `None` if the kind was not counted.
    #[serde(flatten)]
    pub kinds: BTreeMap<String, Option<SyncRow>>,
}

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// Seconds in user mode.
    pub user: f64,
    /// Seconds in kernel mode.
    pub system: f64,
}

/// Cost of the benchmark driver itself. The cell's process measures it with random keys and with
/// an engine that does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverCost {
    /// Time per put in ns.
    pub ns_per_op: f64,
    /// Time per put in ns, if latencies are recorded.
    pub ns_per_op_with_latency: f64,
    /// Time in ns to check one result of a read.
    pub ns_per_check: f64,
    /// Time in ns to check one entry of a scan.
    pub ns_per_pair: f64,
    /// Memory of the driver's expected contents of the store, in bytes. This is a part of the
    /// process's memory.
    pub memory_bytes: u64,
}

/// Result of one engine in one workload and one round. `name` consists of `engine` and `preset`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the engine, in the form of `--engine`.
    pub name: String,
    /// Engine name without its preset.
    pub engine: String,
    /// Name of the preset, which is also present for the default preset. `None` if the engine has
    /// no presets.
    pub preset: Option<String>,
    /// Version of the engine.
    pub version: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of the round, from 1. In each round, every engine runs once.
    pub round: u32,
    /// Number of keys of a fill. Some workloads use a fraction of it.
    pub num: u64,
    /// Key size in bytes.
    pub key_size: usize,
    /// Value size of this workload in bytes.
    pub value_size: usize,
    /// Number of threads.
    pub threads: usize,
    /// Number of changes (puts and deletes) per write.
    pub batch: usize,
    /// Seed of the cell's random choices.
    pub seed: u64,
    /// Start time in UTC, in the format of RFC 3339.
    #[serde(default)]
    pub began: Option<String>,
    /// Number of finished operations. Each change of a batch and each entry of a sequential read is
    /// one operation.
    pub ops: u64,
    /// Number of reads that found their key.
    pub found: u64,
    /// Seconds until the last operation finished.
    pub seconds: Option<f64>,
    /// Mean time of an operation in one thread, in µs: `seconds` divided by the number of
    /// operations of one thread.
    pub micros_per_op: Option<f64>,
    /// Bytes that the user wrote and read, divided by `seconds`, in MiB per second.
    pub user_mib_per_s: Option<f64>,
    /// Seconds from the last operation until background work finished. They include the single sync
    /// of the file system that the lab performs at the end.
    pub settle_seconds: Option<f64>,
    /// Seconds of the single sync of the file system that the lab performs after the workload.
    pub settle_sync_seconds: Option<f64>,
    /// Whether background work finished within the time limit of the lab.
    pub settled: Option<bool>,
    /// Latencies by kind of operation; empty if latency was not recorded.
    pub latency_us: BTreeMap<String, Latency>,
    /// Operations and latencies over time; `None` if latency was not recorded.
    #[serde(default)]
    pub over_time: Option<OverTime>,
    /// Seconds of write stalls.
    pub stall_seconds: Option<f64>,
    /// Bytes at each layer.
    pub bytes: Bytes,
    /// Write amplification.
    pub wa: Amplification,
    /// Read amplification: bytes read from the device / bytes returned to the user. If the device
    /// is unknown, the bytes that the process read from storage are used.
    pub ra: Option<f64>,
    /// Space amplification: bytes of the store's files / bytes of its live keys and values.
    pub sa: Option<f64>,
    /// Syncs that the engine counted, or that the kernel counted if the engine does not count them.
    pub syncs: SyncRows,
    /// Syncs of the process that the kernel counted; `None` if the kernel cannot count them.
    pub syncs_outside: Option<BTreeMap<String, SyncRow>>,
    /// Number of memtable flushes, if the engine reports it.
    #[serde(default)]
    pub flushes: Option<u64>,
    /// Number of cache flush commands sent to the device.
    pub device_flushes: Option<u64>,
    /// Number of journal commits of the file system.
    pub journal_commits: Option<u64>,
    /// Size of the store's files at the end, in bytes.
    pub space_bytes: Option<u64>,
    /// Peak size of the store's files, sampled ten times a second; `None` for workloads that only
    /// read.
    #[serde(default)]
    pub space_peak_bytes: Option<u64>,
    /// Peak resident memory of the process, including mapped files.
    pub peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process.
    pub peak_anon_bytes: Option<u64>,
    /// Processor time until background work finished.
    pub cpu_seconds: Option<CpuSeconds>,
    /// Processor seconds by thread name. Only threads that still ran at the end are included.
    #[serde(default)]
    pub cpu_by_thread: Option<BTreeMap<String, f64>>,
    /// Build of the engine.
    pub build: Option<EngineBuild>,
    /// Settings that all engines have in common.
    pub settings: Settings,
    /// Deviations of this engine from the common settings.
    pub departures: Vec<String>,
    /// Description of the machine.
    pub machine: Machine,
    /// Cost of the driver itself.
    pub driver: Option<DriverCost>,
    /// One-minute load average of the machine before the workload.
    pub load_before: Option<f64>,
    /// One-minute load average of the machine after the workload.
    pub load_after: Option<f64>,
    /// Whether other processes used so much processor time that the row's times are doubtful. The
    /// parent process sets this field.
    pub disturbed: Option<bool>,
    /// Notes on figures of this row.
    pub notes: Vec<String>,
    /// Error that ended the cell in this workload. If there is an error, the figures of the row are
    /// meaningless.
    pub error: Option<String>,
}

impl Row {
    /// Returns a row without measurements, with the fields that `spec` determines.
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

/// Returns the part of an engine's name after the colon.
pub(super) fn preset_in(name: &str) -> Option<String> {
    name.split_once(':').map(|(_, preset)| preset.into())
}
