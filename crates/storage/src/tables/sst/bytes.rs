//! The interface between SSTables and files: writes and reads the bytes of one table.
use crate::Result;
use std::ops::Range;
use terrace_format::block::Bytes;
use terrace_vfs::Mapping;

/// Receives the bytes of a table, in order.
pub(crate) trait ByteSink {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Returns the name of the file, for messages.
    fn name(&self) -> &str;
}

/// Random access to the bytes of a finished, immutable table. Callers request only ranges within
/// the table.
pub(crate) trait ByteSource: Send + Sync {
    /// Reads the bytes of `range`.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
    /// Reads `range` into `buffer`, replacing its contents.
    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()>;
    /// Hints that `range` will be read soon. May have no effect.
    fn expect(&self, range: Range<u64>);
    /// Returns the mapping of the table; `None` if the table is not mapped.
    fn mapping(&self) -> Option<&Mapping>;
    /// Returns the size of the table in bytes.
    fn bytes(&self) -> u64;
    /// Returns the name of the file, for messages.
    fn name(&self) -> &str;
}
