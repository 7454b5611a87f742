//! The interface below SSTables: the bytes of one table.
use crate::Result;
use std::ops::Range;
use terrace_format::block::Bytes;

/// Takes a table's bytes, in order.
pub(crate) trait ByteSink {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Name of the file, for messages.
    fn name(&self) -> &str;
}

/// Random access to the bytes of a finished, immutable table. Callers request only ranges within
/// the table.
pub(crate) trait ByteSource: Send + Sync {
    /// Returns the bytes of `range`. A [`mapped`](ByteSource::mapped) source returns them in place,
    /// without a copy.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
    /// Reads `range` into `buffer`, replacing its contents.
    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()>;
    /// Hints that `range` will be read soon. May have no effect.
    fn expect(&self, range: Range<u64>);
    /// Hints the processor to fetch the mapped bytes of `range` into its caches, without waiting.
    /// `range` need not lie within the table.
    fn prefetch(&self, range: Range<u64>);
    /// Whether the bytes are mapped into memory.
    fn mapped(&self) -> bool;
    /// Size in bytes.
    fn bytes(&self) -> u64;
    /// Name of the file, for messages.
    fn name(&self) -> &str;
}
