//! The two meanings that an update can have in the benchmark YCSB: it puts a whole record, or
//! replaces one field of the record.
use serde::{Deserialize, Serialize};

/// The effect of an update on a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// Puts a whole record without reading the old one.
    #[default]
    Blind,
    /// Reads the record, replaces one of its ten fields, and puts the record back, as YCSB's own
    /// binding for RocksDB does.
    Merge,
}
