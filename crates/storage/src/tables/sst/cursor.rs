//! Iterates over an SSTable's data blocks, which it finds by the table's index.
//!
//! Invariant: an iteration either returns keys in ascending order or reports corruption. Within a
//! block, the block cursor checks the order of keys. Between blocks, this module checks each
//! block's keys. They must be greater than the index key of the previous block, at most the index
//! key of their own block, and within the bounds that the manifest states for the table.
use super::{Reader, span::Spans};
use crate::{
    Error, Result,
    tables::{Blocks, Cursor, TableReadOptions},
};
use std::sync::Arc;
use terrace_format::{
    Corrupt,
    block::{BlockCursor, Bytes},
    footer::Handle,
};

type Step = std::result::Result<(), Corrupt>;

const PAST_BLOCK_END: &str = "a key is past the end of its block according to the index or the manifest";

impl Reader {
    /// Makes a cursor that is at no entry yet.
    pub fn cursor(self: Arc<Self>, how: TableReadOptions) -> Cursor {
        Cursor::new(self.id, Box::new(TableBlocks::new(self, how)))
    }
}

/// The source of an SSTable's blocks: a position in the index, and the data block at this
/// position.
pub(super) struct TableBlocks {
    table: Arc<Reader>,
    how: TableReadOptions,
    /// The position in the index. It is out of range before the first block and after the last one.
    index: usize,
    spans: Spans,
    /// The position in the index and the handle of the loaded block; `None` if no block is loaded.
    loaded: Option<(usize, Handle)>,
}

impl TableBlocks {
    pub fn new(table: Arc<Reader>, how: TableReadOptions) -> TableBlocks {
        TableBlocks { table, how, index: 0, spans: Spans::default(), loaded: None }
    }

    /// Loads the block at `self.index` into the block cursor `data` and positions `data` by calling
    /// `step`. If there is no such block, `data` is invalid afterwards.
    fn load(&mut self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let previous = self.loaded.take();
        let Some(handle) = self.table.tail.index.handle(self.index) else {
            data.set_block(None);
            return Ok(());
        };
        let loaded = Some((self.index, handle));
        if previous != loaded {
            if previous.is_some() {
                // The old block is freed before the next one is read, to save memory. It also makes
                // `data` invalid, as it must be if the read fails.
                data.set_block(None);
            }
            data.set_block(Some(self.spans.block(&self.table, self.index, handle, self.how)?));
            self.loaded = loaded;
            if data.first_in_block().is_some_and(|first| !self.table.may_begin(self.index, first)) {
                return Err(self.out_of_order(data, "its first key is not greater than the previous block's index key"));
            }
        }
        self.loaded = loaded;
        self.step(data, step)
    }
    /// Returns whether `key`, the last key of the loaded block, is at most the block's upper bound.
    fn check_last(&self, key: Option<&[u8]>) -> bool {
        key.is_none_or(|key| self.table.order.internal(key, self.table.upper(self.index)).is_le())
    }

    /// Returns the error for a key of the loaded block that is out of order, and invalidates
    /// `data`.
    fn out_of_order(&self, data: &mut BlockCursor, detail: &str) -> Error {
        data.set_block(None);
        let offset = self.loaded.map_or(0, |(_, handle)| handle.offset);
        self.table.corrupt_at(offset)(Corrupt::new("block", 0, detail))
    }

    /// Loads the block with the number `self.index` and moves `data` to its first entry. In the
    /// last block of the table, first checks that the last key is at most the table's largest key,
    /// because a lookup would not find a larger key.
    fn load_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        if self.index + 1 == self.table.tail.index.len() {
            self.load_last(data)?;
        }
        self.load(data, BlockCursor::seek_first)
    }

    /// Loads the block with the number `self.index` and moves `data` to its last entry.
    fn load_last(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.load(data, BlockCursor::seek_last)?;
        let in_bounds = !data.valid() || self.check_last(Some(data.key()));
        if in_bounds { Ok(()) } else { Err(self.out_of_order(data, PAST_BLOCK_END)) }
    }

    /// Moves the block cursor `data` within the loaded block by calling `step`. Reports an error in
    /// the block as corruption of the table.
    fn step(&self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        step(data).map_err(|found| self.table.corrupt_at(self.loaded.map_or(0, |(_, handle)| handle.offset))(found))
    }

    /// Returns whether the index locates `key` in the loaded block, so that a seek needs no other
    /// block.
    fn covers(&self, key: &[u8], data: &BlockCursor) -> bool {
        let order = &self.table.order;
        self.loaded.is_some()
            && order.internal(self.table.tail.index.key(self.index), key).is_ge()
            && data.first_in_block().is_some_and(|first| order.internal(first, key).is_le())
    }

    /// Loads following blocks until `data` is at an entry or the table ends.
    fn skip_forward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.loaded.is_some() {
            if !self.check_last(data.passed()) {
                return Err(self.out_of_order(data, PAST_BLOCK_END));
            }
            self.index += 1;
            self.load_first(data)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.loaded.is_some() {
            self.index = self.index.wrapping_sub(1);
            self.load_last(data)?;
        }
        Ok(())
    }
}

impl Blocks for TableBlocks {
    fn seek(&mut self, key: &[u8], data: &mut BlockCursor) -> Result<()> {
        let order = self.table.order.clone();
        if !self.covers(key, data) {
            self.index = self.table.tail.index.seek(&order, key);
        }
        self.load(data, |data| data.seek_internal(key, &order))?;
        self.skip_forward(data)
    }

    fn seek_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index = 0;
        self.load_first(data)?;
        self.skip_forward(data)
    }

    fn seek_last(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index = self.table.tail.index.len().wrapping_sub(1);
        self.load_last(data)?;
        self.skip_backward(data)
    }

    fn next(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.step(data, BlockCursor::next)?;
        self.skip_forward(data)
    }

    fn prev(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.step(data, BlockCursor::prev)?;
        self.skip_backward(data)
    }

    fn skip_block(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index += 1;
        self.load_first(data)?;
        self.skip_forward(data)
    }

    fn bound(&self) -> Option<&[u8]> {
        self.loaded.map(|_| self.table.upper(self.index))
    }

    fn stored(&self, data: &mut BlockCursor) -> Result<Option<Bytes>> {
        let sealed = self.spans.sealed();
        let (Some(bound), Some(sealed)) = (self.bound(), sealed) else { return Ok(None) };
        let (order, mut fits) = (&self.table.order, false);
        self.step(data, |data| {
            fits = data.decode_all()?;
            let [_, last] = data.bounds();
            if order.internal(last, bound).is_gt() {
                return Err(Corrupt::new("block", 0, "a key is greater than the block's index key"));
            }
            Ok(())
        })?;
        Ok(Some(sealed).filter(|_| fits))
    }
}
