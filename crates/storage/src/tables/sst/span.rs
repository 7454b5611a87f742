//! Reads blocks one after the other: what lies next to each other comes with one call, in spans that grow for as long as
//! the reading goes on in one direction.
//!
//! The first two blocks come one by one, so that a short range read reads no more than it shows and leaves its blocks in
//! the cache. After that it is a scan: spans of [`BYTES_MIN`] and twice as much each time, up to [`BYTES_MAX`], whose
//! blocks stay where they were read to and do not enter the cache.
//!
//! Blocks that are mapped as they are need no span: while one is looked at, the processor fetches the one after it.
use super::{
    Reader,
    buffers::{self, Buffer},
};
use crate::{Result, tables::ReadHow};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    block::{Block, Bytes},
    footer::{FOOTER_BYTES, Handle},
};

const BYTES_MIN: u64 = 16 << 10;
const BYTES_MAX: u64 = buffers::BYTES as u64;
/// Neighbours read one by one before the first span.
const SINGLES: u32 = 2;
/// Bytes of a mapped block that the processor is told to fetch ahead, at most: more would push out what is looked at.
const AHEAD_MAX: u64 = 8 << 10;

/// What one cursor has read ahead.
#[derive(Default)]
pub(super) struct Spans {
    /// Bytes of the table, and where in it they begin; none until a span is read.
    span: Option<Buffer>,
    begin: u64,
    /// The block asked for last, and whether it is shown where it is mapped.
    last: Range<u64>,
    in_place: bool,
    /// Blocks asked for in a row, each beside the one before it.
    neighbours: u32,
    /// Of the span read last; 0 before the first one.
    bytes: u64,
}

impl Spans {
    /// The data block at `handle`.
    pub fn block(&mut self, table: &Reader, handle: Handle, how: ReadHow) -> Result<Arc<Block>> {
        let wanted = table.sealed(handle)?;
        let (ahead, back) = (wanted.start == self.last.end, wanted.end == self.last.start);
        if !(ahead || back) {
            (self.neighbours, self.bytes) = (0, 0);
        }
        self.neighbours = self.neighbours.saturating_add(1);
        (self.last, self.in_place) = (wanted.clone(), false);
        if let Some(sealed) = self.within(&wanted) {
            return table.open_data(handle, sealed, how).map(Arc::new);
        }
        if let Some(block) = table.in_place(handle, how)? {
            self.in_place = true;
            if ahead || back {
                table.source.prefetch(beyond(&wanted, back));
            }
            return Ok(Arc::new(block));
        }
        if self.neighbours <= SINGLES || wanted.end - wanted.start >= BYTES_MAX {
            return table.kept(handle, how);
        }
        if let Some(block) = table.cached(handle, how.verify) {
            return Ok(block);
        }
        self.read(table, &wanted, back)?;
        match self.within(&wanted) {
            Some(sealed) => table.open_data(handle, sealed, how).map(Arc::new),
            None => table.kept(handle, how),
        }
    }

    /// The block asked for last as it was read from storage, unless it came alone or from the cache.
    pub fn sealed(&self, table: &Reader) -> Option<Bytes> {
        if self.in_place { table.source.read(self.last.clone()).ok() } else { self.within(&self.last) }
    }

    fn within(&self, wanted: &Range<u64>) -> Option<Bytes> {
        let span = self.span.as_ref()?.filled();
        let start = usize::try_from(wanted.start.checked_sub(self.begin)?).ok()?;
        let end = usize::try_from(wanted.end.checked_sub(self.begin)?).ok()?;
        Bytes::shared(span.clone(), start..end)
    }

    /// Reads a span that has `wanted` at its front or, going back, at its end.
    fn read(&mut self, table: &Reader, wanted: &Range<u64>, back: bool) -> Result<()> {
        self.bytes = (2 * self.bytes).clamp(BYTES_MIN, BYTES_MAX);
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

/// As many bytes as those of `block`, within limits, in front of it if `back`, else behind it.
fn beyond(block: &Range<u64>, back: bool) -> Range<u64> {
    let bytes = (block.end - block.start).min(AHEAD_MAX);
    if back { block.start.saturating_sub(bytes)..block.start } else { block.end..block.end + bytes }
}
