//! Append-only logs and value-log segments, and the coalesced reads of scans.
mod log;
mod read_coalescer;

pub use log::{LogKind, LogReader, LogWriter, SegmentReader, SegmentWriter};
pub use read_coalescer::ReadCoalescer;
