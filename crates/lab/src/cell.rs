//! A cell is the run of one engine in one round of a comparison. One child process runs all
//! workloads of a cell in order on one store.
//!
//! ```text
//! parent process            child process
//! CellSpec (JSON)  ───────▶ open store, run stages, read counters
//! Event per line   ◀─────── Progress while it works, one Row per workload
//! ```
//!
//! A field of a [`Row`] is `None` in Rust and `null` in JSON if the cell did not measure its
//! figure. A field never contains an estimate.
mod account;
mod cost;
mod event;
pub(crate) mod memory;
mod over_time;
pub(crate) mod processors;
mod row;
mod run;
mod spec;

pub use event::{Event, Progress};
pub use over_time::{LatencyOverTime, OverTime};
pub use row::{Amplification, Bytes, CpuSeconds, DriverCost, Latency, Row, SYNC_KINDS, SyncRow, SyncRows};
pub use run::{Engines, run_cell};
pub use spec::CellSpec;
