//! Key ranges and snapshots: the arguments of all reads.
use crate::arguments::Bytes;
use terrace::{ReadOptions, Snapshot};

/// Keys from `start` (included) to `stop` (excluded) that start with `prefix`.
pub struct Range<'a> {
    pub start: Option<Bytes<'a>>,
    pub stop: Option<Bytes<'a>>,
    pub prefix: Option<Bytes<'a>>,
}

impl Range<'_> {
    /// Returns the engine's read options.
    pub fn options(self, snapshot: Option<&Snapshot>) -> ReadOptions {
        let mut options = at(snapshot);
        if let Some(start) = self.start {
            options = options.from(start);
        }
        if let Some(stop) = self.stop {
            options = options.to(stop);
        }
        if let Some(prefix) = self.prefix {
            options = options.prefix(prefix);
        }
        options
    }
}

/// Returns read options that read at `snapshot`, or the present state without a snapshot.
pub fn at(snapshot: Option<&Snapshot>) -> ReadOptions {
    snapshot.map_or_else(ReadOptions::new, |snapshot| ReadOptions::new().snapshot(snapshot))
}
