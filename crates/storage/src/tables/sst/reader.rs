//! Reads one SSTable. Point lookups are in this file, cursors are in `cursor.rs`, and the
//! verification of a whole table is in `verify.rs`.
use super::{
    ByteSource,
    block_states::BlockStates,
    filter::Filter,
    identity,
    index::Partition,
    stored_block::{is_stored_raw, open_sealed, sealed_range},
    tail::Tail,
};
use crate::{
    Budget, Error, Held, Holder, Result, StorageConfig,
    tables::{Found, TableMeta, TableProperties, TableReadOptions},
};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder, Kind, RangeTombstones, SeqNo, TableId,
    block::{Block, Bytes},
    filter::FilterPolicy,
    footer::Handle,
    key,
    pair::PairProperties,
};

/// An open SSTable.
pub(crate) struct Reader {
    pub(super) id: TableId,
    pub(super) source: Box<dyn ByteSource>,
    pub(super) order: KeyOrder,
    pub(super) policy: Option<Arc<dyn FilterPolicy>>,
    pub(super) tail: Tail,
    can_shrink: bool,
    /// The bytes of the index and the filter that are not in memory.
    freed_bytes: u64,
    pub(super) budget: Arc<Budget>,
    /// Smallest and largest internal key according to the manifest; empty if unknown.
    bounds: [Vec<u8>; 2],
    /// The data blocks that lookups may read through the mapping of the table.
    pub(super) mapped: BlockStates,
    uid: u64,
    _tail_held: Held,
}

impl Reader {
    /// Reads and verifies the footer, index, filter and properties of the table in `source`.
    /// Returns an error if it is not the table that `meta` describes. The reader trusts no byte of
    /// the file.
    pub fn open(
        meta: &TableMeta,
        uid: u64,
        source: Box<dyn ByteSource>,
        setup: &StorageConfig,
        budget: Arc<Budget>,
    ) -> Result<Reader> {
        let (mut tail, index_block) = Tail::load(&*source, &setup.order, setup.filter.as_ref())?;
        identity::check(&*source, &tail, &setup.order, meta)?;
        let (id, bounds) = (meta.id, [meta.smallest.clone(), meta.largest.clone()]);
        let (order, policy) = (setup.order.clone(), setup.filter.clone());
        // A search in another order needs blocks in memory of their own.
        let is_searched = source.mapping().is_some() && order.is_bytewise();
        let mapped = BlockStates::new(if is_searched { tail.index.len() } else { 0 });
        let whole_bytes = (tail.byte_len() + mapped.byte_len()) as u64;
        let fits = budget.fits_tails(whole_bytes);
        let can_shrink = fits && index_block.is_some() && tail.index.is_large();
        if let Some(index_block) = index_block.filter(|_| !fits) {
            tail.shrink(&*source, &order, &index_block);
        }
        let bytes = (tail.byte_len() + mapped.byte_len()) as u64;
        let freed_bytes = whole_bytes - bytes;
        let mut tail_held = budget.hold(Holder::Tails);
        tail_held.set(bytes);
        Ok(Reader {
            id,
            source,
            order,
            policy,
            tail,
            can_shrink,
            freed_bytes,
            budget,
            bounds,
            mapped,
            uid,
            _tail_held: tail_held,
        })
    }

    /// Returns whether the table would take less memory if it were opened again without room in the
    /// memory budget.
    pub fn can_shrink(&self) -> bool {
        self.can_shrink
    }

    /// Returns whether the whole index and filter are in memory.
    pub fn is_whole(&self) -> bool {
        self.freed_bytes == 0
    }

    /// Returns whether the table should be opened again, because the memory budget now has room for
    /// its whole index and filter.
    pub fn is_to_reopen(&self) -> bool {
        !self.is_whole() && self.budget.has_ample_room_for_tails(self.freed_bytes)
    }

    /// Returns the newest entry that a reader sees for a user key. `lookup` contains the user key
    /// and the reader's sequence number.
    pub fn get(&self, lookup: &[u8], how: TableReadOptions) -> Result<Option<Found>> {
        let Some((at, handle)) = self.block_for(lookup)? else { return Ok(None) };
        let mapping = self.mapping_for(at, handle, how);
        let found = match mapping.and_then(|mapping| self.find_mapped(mapping, handle, lookup)) {
            Some(found) => found,
            None => {
                let block = match self.cached(handle, how) {
                    Some(block) => block,
                    None => self.owned_block(mapping, at, handle, how)?,
                };
                block.find(&self.order, lookup).and_then(|found| to_found(found, block))
            }
        };
        found.map_err(self.corrupt_at(handle.offset))
    }

    /// See [`Table::may_have`](crate::placement::Table::may_have).
    pub fn may_have(&self, lookup: &[u8]) -> Result<bool> {
        match self.tail.filter {
            Filter::Blocks(_) => Ok(self.block_for(lookup)?.is_some()),
            _ => Ok(self.table_may_match(key::user_key(lookup))),
        }
    }

    /// Returns whether [`Reader::get`] would read a block. If so, starts to load that block from
    /// the device, or from memory into the processor's caches.
    pub fn expect(&self, lookup: &[u8], how: TableReadOptions) -> Result<bool> {
        let Some((at, handle)) = self.block_for(lookup)? else { return Ok(false) };
        let sealed = self.sealed(handle)?;
        if let Some(mapping) = self.mapping_for(at, handle, how) {
            mapping.prefetch(sealed);
        } else if self.cached(handle, how).is_none() {
            self.source.expect(sealed);
        }
        Ok(true)
    }

    /// Returns the only block that may contain `lookup`, with its position in the index; `None` if
    /// a filter excludes the key. Only one block can contain the key, because the index key of this
    /// block is less than every key of the next block.
    #[inline(always)]
    fn block_for(&self, lookup: &[u8]) -> Result<Option<(usize, Handle)>> {
        let user = key::user_key(lookup);
        if !self.table_may_match(user) {
            return Ok(None);
        }
        let found = self.tail.index.find(&*self.source, &self.order, lookup)?;
        Ok(found.filter(|(_, handle)| self.tail.filter.block_may_match(handle.offset, user)))
    }

    #[inline(always)]
    fn table_may_match(&self, user_key: &[u8]) -> bool {
        self.tail.filter.table_may_match(&*self.source, &self.budget.filter_residency, user_key)
    }

    /// Returns approximately how many bytes of the table precede `key`.
    pub fn offset_of(&self, key: &[u8]) -> Result<u64> {
        let found = self.tail.index.find(&*self.source, &self.order, key)?;
        // A key after the last data block gets the offset of the metaindex block, because this
        // block follows all data blocks.
        Ok(found.map_or(self.tail.footer.metaindex, |(_, handle)| handle).offset)
    }

    /// See [`Table::anchors`](crate::placement::Table::anchors).
    pub fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let least = self.tail.footer.metaindex.offset.div_ceil(count.max(1) as u64);
        let (mut anchors, mut begun, mut at) = (Vec::new(), 0, 0);
        while at < self.tail.index.len() {
            let partition = self.index_at(at)?;
            while let Some(handle) = partition.handle(at) {
                let end = handle.offset.saturating_add(handle.bytes);
                if end >= least.saturating_add(begun) || at + 1 == self.tail.index.len() {
                    anchors.push((key::user_key(partition.key(at)).to_vec(), end.saturating_sub(begun)));
                    begun = end;
                }
                at += 1;
            }
        }
        Ok(anchors)
    }

    /// Returns the partition of the index with the entry of block `at`, or the last partition if
    /// there is no such block.
    pub(super) fn index_at(&self, at: usize) -> Result<Arc<Partition>> {
        self.tail.index.partition_at(&*self.source, &self.order, at)
    }

    /// Returns the partition of the index with the entry of the only block that may contain `key`,
    /// or the last partition if `key` is after all blocks.
    pub(super) fn index_for(&self, key: &[u8]) -> Result<Arc<Partition>> {
        self.tail.index.partition_for(&*self.source, &self.order, key)
    }

    /// Returns approximately the number of bytes of the table's data blocks.
    pub fn data_bytes(&self) -> u64 {
        self.tail.footer.metaindex.offset
    }

    /// Returns the properties of a directory table: number and sizes of its value files.
    pub fn pair_properties(&self) -> Option<PairProperties> {
        self.tail.pairs
    }

    /// Returns the table's range tombstones.
    pub fn range_tombstones(&self) -> Option<Arc<RangeTombstones>> {
        self.tail.range_tombstones.clone()
    }

    /// Returns the contents of the table's properties block.
    pub fn properties(&self) -> Option<TableProperties> {
        self.tail.properties.clone()
    }

    /// Reads the data block at position `at` of the index by a system call. Caches it, unless later
    /// lookups will use the mapping of the table.
    pub(super) fn read_block(&self, at: usize, handle: Handle, how: TableReadOptions) -> Result<Arc<Block>> {
        let sealed = self.source.read(self.sealed(handle)?)?;
        if how.fill_cache {
            self.budget.blocks.count_storage_read();
        }
        let is_raw = is_stored_raw(&sealed);
        let block = Arc::new(self.open_data(handle, sealed, how)?);
        if how.fill_cache && !self.admit_mapped(at, handle, is_raw, how.verify) {
            self.cache(handle, block.clone(), how.verify);
        }
        Ok(block)
    }

    /// Inserts the block at `handle` into the block cache. `is_verified` is whether its checksum
    /// was verified.
    pub(super) fn cache(&self, handle: Handle, block: Arc<Block>, is_verified: bool) {
        self.budget.blocks.insert((self.uid, handle.offset), block, is_verified);
    }

    /// Returns the block at `handle` if it is cached. If reads verify, only a block whose checksum
    /// was verified is returned. Background readers of a mapped table get no cached blocks, because
    /// the checksum of such a block was verified earlier than the bytes were copied.
    pub(super) fn cached(&self, handle: Handle, how: TableReadOptions) -> Option<Arc<Block>> {
        if !how.fill_cache && self.source.mapping().is_some() {
            return None;
        }
        self.budget.blocks.get((self.uid, handle.offset), how.verify)
    }

    /// Returns an upper bound of the keys in block `at`, whose entry is in `index`: its index key,
    /// or the table's largest key if that is smaller.
    pub(super) fn upper<'a>(&'a self, index: &'a Partition, at: usize) -> &'a [u8] {
        let (listed, [_, largest]) = (index.key(at), &self.bounds);
        let is_tighter =
            at + 1 == self.tail.index.len() && !largest.is_empty() && self.order.internal(largest, listed).is_lt();
        if is_tighter { largest } else { listed }
    }

    /// Returns whether `key` may be the first key of block `at`, whose entry is in `index`. It must
    /// be greater than the index key of the previous block. In the first block it must not be less
    /// than the table's smallest key.
    pub(super) fn may_begin(&self, index: &Partition, at: usize, key: &[u8]) -> bool {
        match index.key_before(at) {
            Some(before) => self.order.internal(before, key).is_lt(),
            None => self.bounds[0].is_empty() || self.order.internal(&self.bounds[0], key).is_le(),
        }
    }

    /// Returns the range of the block at `handle`, including its trailer.
    pub(super) fn sealed(&self, handle: Handle) -> Result<Range<u64>> {
        sealed_range(&*self.source, handle)
    }

    /// Decodes the block in `sealed`, which was read from `handle`.
    pub(super) fn open_data(&self, handle: Handle, sealed: Bytes, how: TableReadOptions) -> Result<Block> {
        let contents = open_sealed(&*self.source, handle, sealed, how.verify)?;
        self.decode(handle, contents)
    }

    /// Decodes the contents of the block at `handle`.
    pub(super) fn decode(&self, handle: Handle, contents: Bytes) -> Result<Block> {
        Block::of_sorted_keys(contents, &self.order).map_err(self.corrupt_at(handle.offset))
    }

    /// Returns a function that makes the error for corruption in the block at `offset`.
    pub(super) fn corrupt_at(&self, offset: u64) -> impl Fn(Corrupt) -> Error {
        let name = self.source.name();
        move |found| Error::corrupt(name, offset, found)
    }
}

/// Converts the result of a lookup in `block`. The result states the position of the value in the
/// block; [`Found`] has the bytes of the value.
fn to_found(
    found: Option<(SeqNo, Kind, Range<usize>)>,
    block: Arc<Block>,
) -> std::result::Result<Option<Found>, Corrupt> {
    let Some((seq, kind, at)) = found else { return Ok(None) };
    let value = Bytes::in_block(block, at)
        .ok_or_else(|| Corrupt::new("block", 0, "a value extends past the end of the block"))?;
    Ok(Some(Found { seq, kind, value }))
}
