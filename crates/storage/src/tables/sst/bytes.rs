//! The interface between SSTables and files: writes and reads the bytes of one table.
use crate::Result;
use std::ops::Range;
use terrace_format::block::Bytes;

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
    /// Returns the bytes of `range`. If the source is [`mapped`](ByteSource::mapped), the result
    /// refers to the mapping and nothing is copied.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
    /// Reads `range` into `buffer`, replacing its contents.
    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()>;
    /// Hints that `range` will be read soon. May have no effect.
    fn expect(&self, range: Range<u64>);
    /// Hints the processor to load the mapped bytes of `range` into its caches, without waiting for
    /// them. `range` may extend beyond the table.
    fn prefetch(&self, range: Range<u64>);
    /// Returns whether the bytes of the table are mapped into memory.
    fn mapped(&self) -> bool;
    /// Returns the size of the table in bytes.
    fn bytes(&self) -> u64;
    /// Returns the name of the file, for messages.
    fn name(&self) -> &str;
}
