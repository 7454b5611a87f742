//! Values outside of tables: the logs and segments that hold them, and how scans read them.
mod log;
mod read_coalescer;

pub use log::{LogKind, LogReader, LogWriter, SegmentReader, SegmentWriter};
pub use read_coalescer::ReadCoalescer;
