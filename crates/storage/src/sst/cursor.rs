//! Finds a table's data blocks by its index.
use super::{Reader, span::Spans};
use crate::{Result, cursor::Blocks, placement::ReadHow};
use std::sync::Arc;
use terrace_format::{
    Corrupt,
    block::{BlockCursor, Bytes},
    footer::Handle,
};

type Step = std::result::Result<(), Corrupt>;

/// A position in the index, and the data block it stands for.
pub(super) struct TableBlocks {
    table: Arc<Reader>,
    how: ReadHow,
    /// In the index; behind all blocks, and before them, where there is none.
    index: usize,
    spans: Spans,
    /// The block that the entries at hand are in.
    entered: Option<Handle>,
}

impl TableBlocks {
    pub fn new(table: Arc<Reader>, how: ReadHow) -> TableBlocks {
        TableBlocks { table, how, index: 0, spans: Spans::default(), entered: None }
    }

    /// Turns `data` to the block at `index`, then on by `step`; nowhere if there is none.
    fn enter(&mut self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let left = self.entered.take();
        let Some(handle) = self.table.tail.index.handle(self.index) else {
            data.turn_to(None);
            return Ok(());
        };
        if left != Some(handle) {
            if left.is_some() {
                data.turn_to(None); // frees the block before the next one is read; and an error must leave it nowhere
            }
            data.turn_to(Some(self.spans.block(&self.table, handle, self.how)?));
        }
        self.entered = Some(handle);
        self.step(data, step)
    }

    /// Moves within the block that was entered.
    fn step(&self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        step(data).map_err(|found| self.table.corrupt_at(self.entered.map_or(0, |handle| handle.offset))(found))
    }

    /// Whether the block that was entered is the one that the index has for `key`.
    fn covers(&self, key: &[u8], data: &BlockCursor) -> bool {
        let order = &self.table.order;
        self.entered.is_some()
            && order.internal(self.table.tail.index.key(self.index), key).is_ge()
            && data.first_in_block().is_some_and(|first| order.internal(first, key).is_le())
    }

    /// On to the next block while the block is at its end.
    fn skip_forward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.entered.is_some() {
            self.index += 1;
            self.enter(data, BlockCursor::seek_first)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.entered.is_some() {
            self.index = self.index.wrapping_sub(1);
            self.enter(data, BlockCursor::seek_last)?;
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
        self.enter(data, |data| data.seek_internal(key, &order))?;
        self.skip_forward(data)
    }

    fn seek_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index = 0;
        self.enter(data, BlockCursor::seek_first)?;
        self.skip_forward(data)
    }

    fn seek_last(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index = self.table.tail.index.len().wrapping_sub(1);
        self.enter(data, BlockCursor::seek_last)?;
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
        self.enter(data, BlockCursor::seek_first)?;
        self.skip_forward(data)
    }

    fn bound(&self) -> Option<&[u8]> {
        self.entered.map(|_| self.table.tail.index.key(self.index))
    }

    fn stored(&self, data: &mut BlockCursor) -> Result<Option<Bytes>> {
        let sealed = self.spans.sealed(&self.table).filter(|_| self.how.verify);
        let (Some(bound), Some(sealed)) = (self.bound(), sealed) else { return Ok(None) };
        let (order, mut fits) = (&self.table.order, false);
        self.step(data, |data| {
            fits = data.decode_all()?;
            let [_, last] = data.bounds();
            if order.internal(last, bound).is_gt() {
                return Err(Corrupt::new("block", 0, "an entry behind the key under which the block is listed"));
            }
            Ok(())
        })?;
        Ok(Some(sealed).filter(|_| fits))
    }
}
