//! Walks a table: a cursor over the index, and one over the data block it stands on.
use super::Reader;
use crate::{
    Result,
    placement::{Cursor, EntryRef, Origin, ReadHow},
};
use std::sync::Arc;
use terrace_format::{Corrupt, block::BlockCursor, footer::Handle, key};

type Step = std::result::Result<(), Corrupt>;

/// See [`Cursor`]. Keys it shows are whole internal keys, whatever the block says.
pub(super) struct TableCursor {
    table: Arc<Reader>,
    how: ReadHow,
    index: BlockCursor,
    /// The data block that `index` stands on; `None` when the cursor stands nowhere.
    data: Option<(Handle, BlockCursor)>,
}

const NOWHERE: &str = "a cursor is asked for its entry only while it stands on one";

impl TableCursor {
    pub fn new(table: Arc<Reader>, how: ReadHow) -> TableCursor {
        let index = BlockCursor::new(table.tail.index.clone());
        TableCursor { table, how, index, data: None }
    }

    /// Takes up the block that the index stands on, and moves in it by `step`.
    fn enter(&mut self, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let left = self.data.take();
        if !self.index.valid() {
            return Ok(());
        }
        let handle = Handle::decode(self.index.value()).map_err(self.table.corrupt_index())?;
        let mut data = match left {
            Some((at, data)) if at == handle => data,
            _ => BlockCursor::new(self.table.block(handle, self.how)?),
        };
        step(&mut data).map_err(self.table.corrupt_at(handle.offset))?;
        self.data = Some((handle, data));
        Ok(())
    }

    /// Moves within the block.
    fn step(&mut self, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let (handle, mut data) = self.data.take().expect(NOWHERE);
        step(&mut data).map_err(self.table.corrupt_at(handle.offset))?;
        self.data = Some((handle, data));
        Ok(())
    }

    /// On to the next block while the block is at its end.
    fn skip_forward(&mut self) -> Result<()> {
        while self.data.as_ref().is_some_and(|(_, data)| !data.valid()) {
            self.move_index(BlockCursor::next)?;
            self.enter(BlockCursor::seek_first)?;
        }
        self.check_key()
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.data.as_ref().is_some_and(|(_, data)| !data.valid()) {
            self.move_index(BlockCursor::prev)?;
            self.enter(BlockCursor::seek_last)?;
        }
        self.check_key()
    }

    fn move_index(&mut self, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let outcome = step(&mut self.index).map_err(self.table.corrupt_index());
        if outcome.is_err() {
            self.data = None;
        }
        outcome
    }

    /// Shows no key that is none.
    fn check_key(&mut self) -> Result<()> {
        let Some((handle, data)) = &self.data else { return Ok(()) };
        let outcome = key::parse(data.key()).map(drop).map_err(self.table.corrupt_at(handle.offset));
        if outcome.is_err() {
            self.data = None;
        }
        outcome
    }

    fn at(&self) -> &BlockCursor {
        &self.data.as_ref().expect(NOWHERE).1
    }
}

impl Cursor for TableCursor {
    fn valid(&self) -> bool {
        self.data.is_some()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let table = self.table.clone();
        self.move_index(|index| index.seek(key, |a, b| table.order.internal(a, b)))?;
        self.enter(|data| data.seek(key, |a, b| table.order.internal(a, b)))?;
        self.skip_forward()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.move_index(BlockCursor::seek_first)?;
        self.enter(BlockCursor::seek_first)?;
        self.skip_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.move_index(BlockCursor::seek_last)?;
        self.enter(BlockCursor::seek_last)?;
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        self.step(BlockCursor::next)?;
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.step(BlockCursor::prev)?;
        self.skip_backward()
    }

    fn key(&self) -> &[u8] {
        self.at().key()
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(self.at().value())
    }

    fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.at().key(), stored: self.at().value(), origin: Origin::Table(self.table.id) }
    }
}
