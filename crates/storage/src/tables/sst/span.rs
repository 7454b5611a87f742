//! Sequential reads of data blocks with read-ahead. One system call reads several adjacent blocks,
//! a span. The spans grow while the iteration continues in one direction.
//!
//! The first two blocks of an iteration are read one by one. They are copied from the mapping of
//! the table if their pages are in memory, and enter the block cache unless later reads use the
//! mapping. A short range scan therefore reads no more than it returns. If the iteration continues
//! into adjacent blocks, it is treated as a long scan. The first span has [`BYTES_MIN`] bytes, and
//! each further span is twice as long, up to [`BYTES_MAX`]. Blocks of spans stay in the read-ahead
//! buffer and do not enter the cache.
use super::{
    Reader,
    buffers::{self, Buffer},
};
use crate::{Result, tables::TableReadOptions};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    block::{Block, Bytes},
    footer::{FOOTER_BYTES, Handle},
};

const BYTES_MIN: u64 = 16 << 10;
const BYTES_MAX: u64 = buffers::BYTES as u64;
/// Number of adjacent blocks that are read one by one before the first span.
const SINGLES: u32 = 2;

/// The read-ahead state of one cursor over an SSTable.
#[derive(Default)]
pub(super) struct Spans {
    /// The bytes of the last span, with their offset in the table. `None` until a span is read.
    span: Option<Buffer>,
    begin: u64,
    /// The range of the last requested block in the table, and whether the checksum of its bytes
    /// is verified if they are in the span.
    last: Range<u64>,
    is_verified: bool,
    /// Number of consecutive requests for adjacent blocks.
    neighbours: u32,
    /// The size of the last span in bytes; 0 before the first span.
    bytes: u64,
}

impl Spans {
    /// Returns the data block at position `at` of the index.
    pub fn block(&mut self, table: &Reader, at: usize, handle: Handle, how: TableReadOptions) -> Result<Arc<Block>> {
        let wanted = table.sealed(handle)?;
        let (ahead, back) = (wanted.start == self.last.end, wanted.end == self.last.start);
        if !(ahead || back) {
            (self.neighbours, self.bytes) = (0, 0);
        }
        self.neighbours = self.neighbours.saturating_add(1);
        let span_how = table.unverified(at, how);
        (self.last, self.is_verified) = (wanted.clone(), span_how.verify);
        if let Some(sealed) = self.within(&wanted) {
            return table.open_data(handle, sealed, span_how).map(Arc::new);
        }
        if let Some(block) = table.cached(handle, how) {
            return Ok(block);
        }
        if self.neighbours <= SINGLES {
            return table.owned_block(table.mapping_for(at, handle, how), at, handle, how);
        }
        if wanted.end - wanted.start >= BYTES_MAX {
            return table.read_block(at, handle, how);
        }
        self.read(table, &wanted, back)?;
        match self.within(&wanted) {
            Some(sealed) => table.open_data(handle, sealed, span_how).map(Arc::new),
            None => table.read_block(at, handle, how),
        }
    }

    /// Returns the last requested block in its stored form. Returns `None` if that block was read
    /// alone, came from the cache, or was not verified.
    pub fn sealed(&self) -> Option<Bytes> {
        self.within(&self.last).filter(|_| self.is_verified)
    }

    fn within(&self, wanted: &Range<u64>) -> Option<Bytes> {
        let span = self.span.as_ref()?.filled();
        let start = usize::try_from(wanted.start.checked_sub(self.begin)?).ok()?;
        let end = usize::try_from(wanted.end.checked_sub(self.begin)?).ok()?;
        Bytes::shared(span.clone(), start..end)
    }

    /// Reads a span (several adjacent blocks in one read) that contains the block in the range
    /// `wanted`. The span begins with this block, or ends with it if the iteration moves backward.
    fn read(&mut self, table: &Reader, wanted: &Range<u64>, back: bool) -> Result<()> {
        let fits = match &self.span {
            Some(buffer) => buffer.capacity() >= buffers::BYTES,
            None => table.budget.fits_read_ahead(BYTES_MAX),
        };
        self.bytes = (2 * self.bytes).clamp(BYTES_MIN, if fits { BYTES_MAX } else { BYTES_MIN });
        let blocks_end = table.source.bytes().saturating_sub(FOOTER_BYTES as u64);
        let span = match back {
            true => wanted.end.saturating_sub(self.bytes).min(wanted.start)..wanted.end,
            false => wanted.start..(wanted.start + self.bytes).min(blocks_end).max(wanted.end),
        };
        self.begin = span.start;
        let mut buffer = self.span.take().unwrap_or_else(|| Buffer::of(&table.budget));
        buffer.fill(|bytes| table.source.read_into(bytes, span))?;
        self.span = Some(buffer);
        Ok(())
    }
}
