//! The interface below SSTables: the bytes of one table.
use crate::Result;
use std::ops::Range;
use terrace_format::block::Bytes;

/// Takes a table's bytes, in order.
pub(crate) trait ByteSink {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// For messages.
    fn name(&self) -> &str;
}

/// Gives a table's bytes, which never change. A range that is asked for lies within the table.
pub(crate) trait ByteSource: Send + Sync {
    /// The bytes of `range`: read, or shown where they are if the source is [`mapped`](ByteSource::mapped).
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
    /// Reads `range` into `buffer`, which holds nothing else afterwards.
    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()>;
    /// Says that `range` will be read soon. A hint, which may come to nothing.
    fn expect(&self, range: Range<u64>);
    /// Has the processor fetch what is mapped of `range`, which need not lie within the table, while it goes on. A hint.
    fn prefetch(&self, range: Range<u64>);
    /// Whether the bytes lie in memory already.
    fn mapped(&self) -> bool;
    /// Size in bytes.
    fn bytes(&self) -> u64;
    /// For messages.
    fn name(&self) -> &str;
}
