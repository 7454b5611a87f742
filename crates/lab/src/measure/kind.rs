//! The kinds of operations whose latencies the lab records separately, such as puts, gets and
//! scans.

/// Kinds of operations. Each kind has its own latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A write that puts a single entry or a batch.
    Put,
    /// A point lookup.
    Get,
    /// A write that deletes a single entry or a batch.
    Delete,
    /// A whole scan: a seek and the steps to the entries after it.
    Scan,
    /// A read-modify-write: a read, and a write that depends on the result of the read.
    Rmw,
    /// A step of a scan to the next entry. If results are checked, its latency includes the check
    /// of this entry.
    Next,
    /// Opening an existing store.
    Open,
    /// A full compaction.
    Compact,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] =
        [Kind::Put, Kind::Get, Kind::Delete, Kind::Scan, Kind::Rmw, Kind::Next, Kind::Open, Kind::Compact];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        ["put", "get", "delete", "scan", "rmw", "next", "open", "compact"][self as usize]
    }
}
