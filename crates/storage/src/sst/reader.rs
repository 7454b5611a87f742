//! Reads one table: point lookups here, walks in `cursor`, checks in `verify`.
use super::{
    BlockCache, ByteSource,
    cursor::TableCursor,
    tail::{Tail, read_contents},
    verify,
};
use crate::{
    Error, Result, Setup,
    placement::{Cursor, Found, ReadHow, Table},
};
use std::sync::Arc;
use terrace_format::{
    Corrupt, KeyOrder, TableFacts, TableId,
    block::{Block, BlockCursor},
    filter::FilterPolicy,
    footer::Handle,
    key,
};

/// An open table.
pub(crate) struct Reader {
    pub(super) id: TableId,
    pub(super) source: Box<dyn ByteSource>,
    pub(super) order: KeyOrder,
    pub(super) policy: Option<Arc<dyn FilterPolicy>>,
    pub(super) tail: Tail,
    cache: Arc<BlockCache>,
    uid: u64,
}

impl Reader {
    /// Reads the tail of the table in `source`; nothing of it is trusted.
    pub fn open(id: TableId, source: Box<dyn ByteSource>, setup: &Setup, cache: Arc<BlockCache>) -> Result<Reader> {
        let tail = Tail::load(&*source, setup.filter.as_ref())?;
        let (order, policy, uid) = (setup.order.clone(), setup.filter.clone(), cache.new_uid());
        Ok(Reader { id, source, order, policy, tail, cache, uid })
    }

    /// The data block at `handle`, from the cache if it is there. A cached block is not verified again.
    pub(super) fn block(&self, handle: Handle, how: ReadHow) -> Result<Arc<Block>> {
        let cached = (self.uid, handle.offset);
        if let Some(block) = self.cache.get(cached) {
            return Ok(block);
        }
        let contents = read_contents(&*self.source, handle, how.verify)?;
        let block = Arc::new(Block::of_internal_keys(contents).map_err(self.corrupt_at(handle.offset))?);
        if how.fill_cache {
            self.cache.insert(cached, block.clone());
        }
        Ok(block)
    }

    /// What is wrong with the block at `offset`.
    pub(super) fn corrupt_at(&self, offset: u64) -> impl Fn(Corrupt) -> Error {
        let name = self.source.name();
        move |found| Error::corrupt(name, offset, found)
    }

    pub(super) fn corrupt_index(&self) -> impl Fn(Corrupt) -> Error {
        self.corrupt_at(self.tail.footer.index.offset)
    }

    /// An index cursor at the block that `internal_key` is in if it is anywhere.
    fn seek_index(&self, internal_key: &[u8]) -> Result<BlockCursor> {
        let mut index = BlockCursor::new(self.tail.index.clone());
        index.seek(internal_key, |a, b| self.order.internal(a, b)).map_err(self.corrupt_index())?;
        Ok(index)
    }
}

impl Table for Reader {
    fn get(&self, lookup: &[u8], how: ReadHow) -> Result<Option<Found>> {
        let user = key::user_key(lookup);
        if !self.tail.filter.table_may_match(user) {
            return Ok(None);
        }
        let index = self.seek_index(lookup)?;
        if !index.valid() {
            return Ok(None);
        }
        let handle = Handle::decode(index.value()).map_err(self.corrupt_index())?;
        if !self.tail.filter.block_may_match(handle.offset, user) {
            return Ok(None);
        }
        // One block is enough: the key it is listed under lies before every key of the next one.
        let mut data = BlockCursor::new(self.block(handle, how)?);
        data.seek(lookup, |a, b| self.order.internal(a, b)).map_err(self.corrupt_at(handle.offset))?;
        if !data.valid() {
            return Ok(None);
        }
        let found = key::parse(data.key()).map_err(self.corrupt_at(handle.offset))?;
        if self.order.user(found.user, user).is_ne() {
            return Ok(None);
        }
        Ok(Some(Found { seq: found.seq, kind: found.kind, value: data.value().to_vec() }))
    }

    fn cursor(self: Arc<Self>, how: ReadHow) -> Box<dyn Cursor> {
        Box::new(TableCursor::new(self, how))
    }

    fn offset_of(&self, key: &[u8]) -> Result<u64> {
        let index = self.seek_index(key)?;
        if !index.valid() {
            return Ok(self.tail.footer.metaindex.offset); // behind the last block
        }
        Ok(Handle::decode(index.value()).map_err(self.corrupt_index())?.offset)
    }

    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let least = self.tail.footer.metaindex.offset.div_ceil(count.max(1) as u64);
        let (mut anchors, mut begun) = (Vec::new(), 0);
        let mut index = BlockCursor::new(self.tail.index.clone());
        index.seek_first().map_err(self.corrupt_index())?;
        while index.valid() {
            let handle = Handle::decode(index.value()).map_err(self.corrupt_index())?;
            let (end, user) = (handle.offset.saturating_add(handle.bytes), key::user_key(index.key()).to_vec());
            index.next().map_err(self.corrupt_index())?;
            if end >= least.saturating_add(begun) || !index.valid() {
                anchors.push((user, end.saturating_sub(begun)));
                begun = end;
            }
        }
        Ok(anchors)
    }

    fn facts(&self) -> Option<TableFacts> {
        self.tail.facts.clone()
    }

    fn verify(&self) -> Result<TableFacts> {
        verify::verify(self)
    }
}
