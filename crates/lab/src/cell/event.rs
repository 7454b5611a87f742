//! The messages that a child process sends while it runs a cell (one engine in one round).
use super::row::Row;
use serde::{Deserialize, Serialize};

/// A message of a child process, one JSON object per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Event {
    /// Reports the progress of the current workload. It is sent about twice a second.
    Progress {
        /// The progress.
        progress: Progress,
    },
    /// The row of a workload that finished or failed.
    Row(Box<Row>),
}

/// Progress of a workload in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Name of the workload.
    pub workload: String,
    /// `run` while the operations run, then `settle` while the engine's background work finishes.
    pub phase: String,
    /// Number of operations that have finished so far.
    pub done: u64,
    /// Total number of operations, as far as known.
    pub total: u64,
}
