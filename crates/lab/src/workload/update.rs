//! Semantics of an update in YCSB.
use serde::{Deserialize, Serialize};

/// What an update does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// Puts a whole record.
    #[default]
    Blind,
    /// Reads the record, replaces one of its ten fields, and puts it back. YCSB's own binding for
    /// RocksDB does the same.
    Merge,
}
