//! Append-only logs, value-log segments, and the combined (coalesced) reads of adjacent values.
mod log;
mod read_coalescer;

pub use log::{LogKind, LogReader, LogWriter, SegmentReader, SegmentWriter};
pub use read_coalescer::ReadCoalescer;
