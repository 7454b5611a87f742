//! The description of a cell (one engine in one round): engine, workloads, sizes, seed and device.
//! The parent process sends it to the child process that runs the cell.
use crate::{target::Settings, workload::ycsb::Update};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The complete description of a cell. With the same seed, every engine receives the same
/// operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Settings that all engines have in common.
    pub settings: Settings,
    /// Names of the workloads, in order.
    pub workloads: Vec<String>,
    /// Number of keys of a fill.
    pub num: u64,
    /// Key size in bytes; YCSB's keys have their own size.
    pub key_size: usize,
    /// Value size in bytes.
    pub value_size: usize,
    /// Number of concurrent threads.
    pub threads: usize,
    /// Number of changes per write, unless the workload determines it.
    pub batch: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Number of the round, from 1. In each round, every engine runs once.
    pub round: u32,
    /// Directory of the store. Fills remove and recreate its subdirectory `store`.
    pub dir: PathBuf,
    /// The block device on which `dir` is, for the kernel's statistics.
    pub device: Option<PathBuf>,
    /// Whether the latency of each operation is recorded.
    pub histogram: bool,
    /// Whether the driver checks every result of a read against the expected contents.
    pub check_answers: bool,
    /// Number of operations of each thread in a workload that reads. In YCSB, the total number of
    /// operations of all threads. The default is `num`.
    pub reads: Option<u64>,
    /// Number of random puts of each thread in db_bench's random fills and in `overwrite`. The
    /// default is `num`.
    pub writes: Option<u64>,
    /// Compressed size of values divided by their uncompressed size.
    pub compression_ratio: f64,
    /// Semantics of a YCSB update.
    pub ycsb_update: Update,
    /// Number of processors for the engine and the benchmark driver. The other processors are
    /// reserved for the kernel and for the process that serves the drive. `None` for no
    /// restriction.
    #[serde(default)]
    pub processors: Option<usize>,
    /// Memory limit of the process in bytes while a workload only reads, including the page cache;
    /// `None` for no limit.
    #[serde(default)]
    pub memory: Option<u64>,
}

impl Default for CellSpec {
    /// Returns db_bench's defaults, with engine `terrace` and without a directory.
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
