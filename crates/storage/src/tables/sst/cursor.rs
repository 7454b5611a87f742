//! Iterates over an SSTable's data blocks, which it finds by the table's index.
//!
//! Invariant: an iteration either returns keys in ascending order or reports corruption. Within a
//! block, the block cursor checks the order of keys. Between blocks, this module checks each
//! block's keys. They must be greater than the index key of the previous block, at most the index
//! key of their own block, and within the bounds that the manifest states for the table.
use super::{Reader, index::Partition, mapped::contents_of, span::Spans};
use crate::{
    Error, Result,
    tables::{Blocks, Cursor, TableReadOptions},
};
use std::sync::Arc;
use terrace_format::{
    Corrupt,
    block::{Block, BlockCursor, Bytes},
    footer::Handle,
};

type Step = std::result::Result<(), Corrupt>;

/// The longest value that a seek copies instead of loading its block.
const COPIED_VALUE_BYTES_MAX: usize = 4096;

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
    at: usize,
    /// A part of the index, usually with the entry at `at`; `None` until the first move.
    index: Option<Arc<Partition>>,
    spans: Spans,
    /// The position in the index and the handle of the loaded block; `None` if no block is loaded.
    loaded: Option<(usize, Handle)>,
    /// Whether the block cursor has only a copy of one entry of the loaded block.
    is_copied: bool,
}

impl TableBlocks {
    pub fn new(table: Arc<Reader>, how: TableReadOptions) -> TableBlocks {
        TableBlocks { table, how, at: 0, index: None, spans: Spans::default(), loaded: None, is_copied: false }
    }

    /// Loads the block at `self.at` into the block cursor `data` and positions `data` by calling
    /// `step`. If there is no such block, `data` is invalid afterwards.
    fn load(&mut self, data: &mut BlockCursor, step: impl FnOnce(&mut BlockCursor) -> Step) -> Result<()> {
        let previous = self.loaded.take().filter(|_| !self.is_copied);
        if std::mem::take(&mut self.is_copied) {
            data.set_block(None); // it must be invalid if the read fails
        }
        let handle = self.handle();
        let Ok(Some(handle)) = handle else {
            data.set_block(None);
            return handle.map(|_| ());
        };
        let loaded = Some((self.at, handle));
        if previous != loaded {
            if previous.is_some() {
                // The old block is freed before the next one is read, to save memory. It also makes
                // `data` invalid, as it must be if the read fails.
                data.set_block(None);
            }
            data.set_block(Some(self.spans.block(&self.table, self.at, handle, self.how)?));
            self.loaded = loaded;
            self.check_first(data)?;
        }
        self.loaded = loaded;
        self.step(data, step)
    }

    /// Searches the block at `self.at` for the first entry at or after `key` through the mapping of
    /// the table, and copies this entry into `data`. A merging iterator seeks in many tables and
    /// then moves in few of them, so most blocks are never copied as a whole. Returns false if the
    /// block must be loaded: it is loaded already or not mapped, or the search found no entry in
    /// order. The load then finds the reason.
    fn copy_entry(&mut self, key: &[u8], data: &mut BlockCursor) -> bool {
        let Ok(Some(handle)) = self.handle() else { return false };
        if self.loaded == Some((self.at, handle)) && !self.is_copied {
            return false;
        }
        let (Some(mapping), Some(index)) = (self.table.mapping_for(self.at, handle, self.how), &self.index) else {
            return false;
        };
        mapping.prefetch(contents_of(handle));
        let found = mapping.look(contents_of(handle), |bytes| {
            // The closure changes `data`, which is made invalid below if the mapping was
            // unreadable.
            let block = Block::of_borrowed_keys(bytes)?;
            let in_order = block.first_key().is_some_and(|first| self.table.may_begin(index, self.at, first));
            Ok(in_order && data.copy_entry(&block, key, &self.table.order, COPIED_VALUE_BYTES_MAX)?)
        });
        self.is_copied = matches!(found, Some(Ok::<_, Corrupt>(true)));
        self.loaded = Some((self.at, handle)).filter(|_| self.is_copied);
        if !self.is_copied {
            data.set_block(None); // also if a page was unreadable, and the entry is not that of the file
        }
        self.is_copied
    }

    /// If `data` has only a copy of its entry, loads the block of this entry.
    fn attach(&mut self, data: &mut BlockCursor) -> Result<()> {
        let Some((at, handle)) = self.loaded.filter(|_| self.is_copied) else { return Ok(()) };
        self.is_copied = false;
        let attached = self.spans.block(&self.table, at, handle, self.how);
        let attached = attached.and_then(|block| data.attach(block).map_err(self.table.corrupt_at(handle.offset)));
        attached.inspect_err(|_| {
            self.loaded = None;
            data.set_block(None);
        })?;
        self.check_first(data)
    }

    /// Checks that the first key of the loaded block is greater than the previous block's index
    /// key.
    fn check_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        match data.first_in_block() {
            Some(first) if !self.may_begin(first) => {
                Err(self.out_of_order(data, "its first key is not greater than the previous block's index key"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the handle of the block at `self.at`; `None` if there is no such block.
    fn handle(&mut self) -> Result<Option<Handle>> {
        let known = self.index.as_ref().and_then(|index| index.handle(self.at));
        if known.is_some() || self.at >= self.table.tail.index.len() {
            return Ok(known);
        }
        let index = self.table.index_at(self.at)?;
        Ok(self.index.insert(index).handle(self.at))
    }

    /// Sets `self.at` to the position of the only block that may contain `key`. If the index cannot
    /// be read, invalidates `data`.
    fn find(&mut self, key: &[u8], data: &mut BlockCursor) -> Result<()> {
        let (whole, order) = (self.table.tail.index.is_whole(), &self.table.order);
        if !self.index.as_ref().is_some_and(|index| whole || index.covers(order, key)) {
            let index = self.table.index_for(key).inspect_err(|_| {
                self.loaded = None;
                data.set_block(None);
            })?;
            self.index = Some(index);
        }
        self.at = self.index.as_ref().map_or(0, |index| index.seek(&self.table.order, key));
        Ok(())
    }

    /// Returns the part of the index with the entry of the loaded block.
    fn index(&self) -> Option<&Partition> {
        self.index.as_deref().filter(|_| self.loaded.is_some())
    }

    /// Returns whether `first` may be the first key of the loaded block.
    fn may_begin(&self, first: &[u8]) -> bool {
        self.index().is_none_or(|index| self.table.may_begin(index, self.at, first))
    }

    /// Returns whether `key`, the last key of the loaded block, is at most the block's upper bound.
    fn check_last(&self, key: Option<&[u8]>) -> bool {
        key.zip(self.bound()).is_none_or(|(key, bound)| self.table.order.internal(key, bound).is_le())
    }

    /// Returns the error for a key of the loaded block that is out of order, and unloads the block.
    fn out_of_order(&mut self, data: &mut BlockCursor, detail: &str) -> Error {
        data.set_block(None);
        let offset = self.loaded.take().map_or(0, |(_, handle)| handle.offset);
        self.table.corrupt_at(offset)(Corrupt::new("block", 0, detail))
    }

    /// Loads the block with the number `self.at` and moves `data` to its first entry. In the
    /// last block of the table, first checks that the last key is at most the table's largest key,
    /// because a lookup would not find a larger key.
    fn load_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        if self.at + 1 == self.table.tail.index.len() {
            self.load_last(data)?;
        }
        self.load(data, BlockCursor::seek_first)
    }

    /// Loads the block with the number `self.at` and moves `data` to its last entry.
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
        self.index().is_some_and(|index| order.internal(index.key(self.at), key).is_ge())
            && data.first_in_block().is_some_and(|first| order.internal(first, key).is_le())
    }

    /// Loads following blocks until `data` is at an entry or the table ends.
    fn skip_forward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.loaded.is_some() {
            if !self.check_last(data.passed()) {
                return Err(self.out_of_order(data, PAST_BLOCK_END));
            }
            self.at += 1;
            self.load_first(data)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self, data: &mut BlockCursor) -> Result<()> {
        while !data.valid() && self.loaded.is_some() {
            self.at = self.at.wrapping_sub(1);
            self.load_last(data)?;
        }
        Ok(())
    }
}

impl Blocks for TableBlocks {
    fn seek(&mut self, key: &[u8], data: &mut BlockCursor) -> Result<()> {
        let order = self.table.order.clone();
        if !self.covers(key, data) {
            self.find(key, data)?;
        }
        if self.copy_entry(key, data) {
            return Ok(());
        }
        self.load(data, |data| data.seek_internal(key, &order))?;
        self.skip_forward(data)
    }

    fn seek_first(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.at = 0;
        self.load_first(data)?;
        self.skip_forward(data)
    }

    fn seek_last(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.at = self.table.tail.index.len().wrapping_sub(1);
        self.load_last(data)?;
        self.skip_backward(data)
    }

    fn next(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.attach(data)?;
        self.step(data, BlockCursor::next)?;
        self.skip_forward(data)
    }

    fn prev(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.attach(data)?;
        self.step(data, BlockCursor::prev)?;
        self.skip_backward(data)
    }

    fn skip_block(&mut self, data: &mut BlockCursor) -> Result<()> {
        self.at += 1;
        self.load_first(data)?;
        self.skip_forward(data)
    }

    fn bound(&self) -> Option<&[u8]> {
        self.index().map(|index| self.table.upper(index, self.at))
    }

    fn stored(&self, data: &mut BlockCursor) -> Result<Option<Bytes>> {
        let sealed = self.spans.sealed().filter(|_| !self.is_copied);
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
