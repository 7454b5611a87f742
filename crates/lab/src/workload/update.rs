//! Semantics of an update of YCSB.
use serde::{Deserialize, Serialize};

/// Semantics of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// Puts a whole record.
    #[default]
    Blind,
    /// Reads the record, replaces one of its ten fields, puts it back, as YCSB's own RocksDB
    /// binding does.
    Merge,
}
