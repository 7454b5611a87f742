//! The description of a cell.
use crate::{target::Settings, workload::ycsb::Update};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The complete description of a cell. The same seed gives the same operations for every engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// Engine name as `--engine` spells it.
    pub engine: String,
    /// Settings common to all engines.
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
    /// Changes per write, unless the workload fixes it.
    pub batch: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Number of the repetition, from 1.
    pub round: u32,
    /// Directory of the store. Fills remove and recreate its subdirectory `store`.
    pub dir: PathBuf,
    /// Block device node under `dir`, for the kernel's statistics.
    pub device: Option<PathBuf>,
    /// Whether the latency of each operation is recorded.
    pub histogram: bool,
    /// Whether every result of a read is checked against the expected contents.
    pub check_answers: bool,
    /// Operations per thread of workloads that read, and total operations of YCSB; `num` if `None`.
    pub reads: Option<u64>,
    /// Random puts per thread of db_bench's fills and `overwrite`; `num` if `None`.
    pub writes: Option<u64>,
    /// Compressed size of values divided by their uncompressed size.
    pub compression_ratio: f64,
    /// Semantics of a YCSB update.
    pub ycsb_update: Update,
    /// Number of processors for the engine and its driver; the kernel and the drive's server have
    /// the others to themselves. `None` for all processors.
    #[serde(default)]
    pub processors: Option<usize>,
    /// Memory limit of the process in bytes while a workload only reads, page cache included;
    /// `None` for no limit.
    #[serde(default)]
    pub memory: Option<u64>,
}

impl Default for CellSpec {
    /// db_bench's defaults with engine `terrace`, without a directory.
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
