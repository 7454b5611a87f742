//! Finds a table's data blocks by its index.
//!
//! A walk meets keys in their order, or reports corruption: within a block its cursor sees to that; between blocks, the keys of
//! each must lie behind the key under which the block before is listed, at or before its own, and within the table's bounds.
use super::{Reader, span::Spans};
use crate::{
    Error, Result,
    tables::{Blocks, Cursor, ReadHow},
};
use std::sync::Arc;
use terrace_format::{
    Corrupt,
    block::{BlockCursor, Bytes},
    footer::Handle,
};

type Step = std::result::Result<(), Corrupt>;

const BEHIND_ITS_END: &str = "an entry behind the key at which the block ends by the index or the manifest";

impl Reader {
    /// A cursor that stands nowhere yet.
    pub fn cursor(self: Arc<Self>, how: ReadHow) -> Cursor {
        Cursor::new(self.id, Box::new(TableBlocks::new(self, how)))
    }
}

/// A position in the index, and the data block it stands for.
pub(super) struct TableBlocks {
    table: Arc<Reader>,
    how: ReadHow,
    /// In the index; behind all blocks, and before them, where there is none.
    index: usize,
    spans: Spans,
    /// The block that the entries at hand are in, and its place in the index.
    entered: Option<(usize, Handle)>,
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
        let entered = Some((self.index, handle));
        if left != entered {
            if left.is_some() {
                data.turn_to(None); // frees the block before the next one is read; and an error must leave it nowhere
            }
            data.turn_to(Some(self.spans.block(&self.table, handle, self.how)?));
            self.entered = entered;
            if data.first_in_block().is_some_and(|first| !self.table.may_begin(self.index, first)) {
                return Err(self.out_of_place(data, "its first key does not lie behind the block before it"));
            }
        }
        self.entered = entered;
        self.step(data, step)
    }

    /// Checks that `key`, the last one of the block that was entered, does not lie behind its end.
    fn check_last(&self, key: Option<&[u8]>) -> bool {
        key.is_none_or(|key| self.table.order.internal(key, self.table.upper(self.index)).is_le())
    }

    /// An error of the block that was entered; leaves `data` standing nowhere.
    fn out_of_place(&self, data: &mut BlockCursor, detail: &str) -> Error {
        data.turn_to(None);
        let offset = self.entered.map_or(0, |(_, handle)| handle.offset);
        self.table.corrupt_at(offset)(Corrupt::new("block", 0, detail))
    }

    /// To the first entry of the block at `index`. The last block is looked through first: what it has behind the table's end, no search
    /// would find.
    fn enter_at_start(&mut self, data: &mut BlockCursor) -> Result<()> {
        if self.index + 1 == self.table.tail.index.len() {
            self.enter_at_end(data)?;
        }
        self.enter(data, BlockCursor::seek_first)
    }

    /// To the last entry of the block at `index`.
    fn enter_at_end(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.enter(data, BlockCursor::seek_last)?;
        let ends = !data.valid() || self.check_last(Some(data.key()));
        if ends { Ok(()) } else { Err(self.out_of_place(data, BEHIND_ITS_END)) }
    }

    /// Moves within the block that was entered.
    fn step(&self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        step(data).map_err(|found| self.table.corrupt_at(self.entered.map_or(0, |(_, handle)| handle.offset))(found))
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
            if !self.check_last(data.passed()) {
                return Err(self.out_of_place(data, BEHIND_ITS_END));
            }
            self.index += 1;
            self.enter_at_start(data)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.entered.is_some() {
            self.index = self.index.wrapping_sub(1);
            self.enter_at_end(data)?;
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
        self.enter_at_start(data)?;
        self.skip_forward(data)
    }

    fn seek_last(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.index = self.table.tail.index.len().wrapping_sub(1);
        self.enter_at_end(data)?;
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
        self.enter_at_start(data)?;
        self.skip_forward(data)
    }

    fn bound(&self) -> Option<&[u8]> {
        self.entered.map(|_| self.table.upper(self.index))
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
