//! The parts of an SSTable that are read when it is opened: footer, index, metaindex, filter,
//! properties, range tombstones. All of them are verified.
use super::{
    ByteSource,
    filter::Filter,
    index::{Index, Partition},
    stored_block::{is_stored_raw, open_sealed, read_contents, sealed_range},
};
use crate::{Error, Result};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder, RangeTombstones, TableProperties,
    block::{Block, BlockCursor, Bytes},
    filter::{FilterBlock, FilterPolicy, block_meta_name, table_meta_name},
    footer::{FOOTER_BYTES, Footer, Handle},
    pair::{self, PairProperties},
    properties,
    range_tombstones::META_NAME,
};

/// The decoded parts at the end of a table. They are in memory while the table is open, except for
/// what [`Tail::shrink`] has left to the file.
pub(super) struct Tail {
    pub footer: Footer,
    pub index: Index,
    pub filter: Filter,
    /// The handle of the filter of the whole table, if its block is not compressed.
    filter_at: Option<Handle>,
    pub properties: Option<TableProperties>,
    pub range_tombstones: Option<Arc<RangeTombstones>>,
    pub pairs: Option<PairProperties>,
}

impl Tail {
    /// Reads and verifies all parts. Also returns the contents of the index block, for
    /// [`Tail::shrink`]; `None` if the block is compressed.
    pub fn load(
        source: &dyn ByteSource,
        order: &KeyOrder,
        policy: Option<&Arc<dyn FilterPolicy>>,
    ) -> Result<(Tail, Option<Bytes>)> {
        let footer = read_footer(source)?;
        let sealed = source.read(sealed_range(source, footer.index)?)?;
        let is_raw = is_stored_raw(&sealed);
        let contents = open_sealed(source, footer.index, sealed, true)?.into_shared();
        let index_block = is_raw.then(|| contents.clone());
        let index = Block::of_internal_keys(contents)
            .and_then(|block| Partition::whole(order, block))
            .and_then(|all| all.check_order(order).map(|()| Index::Whole(Arc::new(all))))
            .map_err(|found| Error::corrupt(source.name(), footer.index.offset, found))?;
        let metas = read_metaindex(source, footer.metaindex)?;
        let properties = match metas.get(properties::META_NAME.as_bytes()) {
            None => None,
            Some(&handle) => {
                let contents = read_contents(source, handle, true)?;
                Some(
                    TableProperties::decode(&contents)
                        .map_err(|found| Error::corrupt(source.name(), handle.offset, found))?,
                )
            }
        };
        let range_tombstones = range_tombstones(source, order, &metas)?;
        let pairs = pair_properties(source, &metas)?;
        let (filter, filter_at) = match policy {
            None => (Filter::None, None),
            Some(policy) => read_filter(source, &metas, policy)?,
        };
        Ok((Tail { footer, index, filter, filter_at, properties, range_tombstones, pairs }, index_block))
    }

    /// Frees the memory of those parts that lookups can read from the file instead: the filter, if
    /// the table is mapped, and most of the index. `index_block` has the contents of the index
    /// block.
    pub fn shrink(&mut self, source: &dyn ByteSource, order: &KeyOrder, index_block: &[u8]) {
        if !self.index.is_large() {
            return;
        }
        if let Some(sparse) = self.index.to_sparse(order, self.footer.index, index_block) {
            self.index = sparse;
        }
        if let Some(handle) = self.filter_at {
            self.filter = std::mem::replace(&mut self.filter, Filter::None).into_mapped(source, handle);
        }
    }

    /// Returns the size in memory of the decoded parts, in bytes.
    pub fn byte_len(&self) -> usize {
        let ranges = self.range_tombstones.as_ref().map_or(0, |ranges| ranges.byte_len());
        self.index.byte_len() + self.filter.byte_len() + ranges
    }
}

fn range_tombstones(source: &dyn ByteSource, order: &KeyOrder, metas: &Metas) -> Result<Option<Arc<RangeTombstones>>> {
    let Some(&handle) = metas.get(META_NAME.as_bytes()) else { return Ok(None) };
    let found = RangeTombstones::decode(order, read_contents(source, handle, true)?);
    found.map(|found| Some(Arc::new(found))).map_err(|found| Error::corrupt(source.name(), handle.offset, found))
}

/// Reads the range tombstones of a table. Other parts of the table may be corrupt.
pub(super) fn read_range_deletes(source: &dyn ByteSource, order: &KeyOrder) -> Result<Option<Arc<RangeTombstones>>> {
    let footer = read_footer(source)?;
    range_tombstones(source, order, &read_metaindex(source, footer.metaindex)?)
}

/// Reads only the pair properties of a directory table: number and sizes of its value files.
pub(crate) fn read_pair_properties(source: &dyn ByteSource) -> Result<PairProperties> {
    let footer = read_footer(source)?;
    let missing = || {
        Error::corrupt(source.name(), 0, Corrupt::new("META file", 0, "the properties of its pair files are missing"))
    };
    pair_properties(source, &read_metaindex(source, footer.metaindex)?)?.ok_or_else(missing)
}

fn pair_properties(source: &dyn ByteSource, metas: &Metas) -> Result<Option<PairProperties>> {
    let Some(&handle) = metas.get(pair::META_NAME.as_bytes()) else { return Ok(None) };
    let decoded = PairProperties::decode(&read_contents(source, handle, true)?);
    decoded.map(Some).map_err(|found| Error::corrupt(source.name(), handle.offset, found))
}

pub(super) fn read_footer(source: &dyn ByteSource) -> Result<Footer> {
    let Some(offset) = source.bytes().checked_sub(FOOTER_BYTES as u64) else {
        let found = Corrupt::new("footer", 0, format!("{} bytes are too few for a table", source.bytes()));
        return Err(Error::corrupt(source.name(), 0, found));
    };
    let bytes = source.read(offset..source.bytes())?;
    Footer::decode(&bytes).map_err(|found| Error::corrupt(source.name(), offset, found))
}

type Metas = BTreeMap<Vec<u8>, Handle>;

fn read_metaindex(source: &dyn ByteSource, at: Handle) -> Result<Metas> {
    let contents = read_contents(source, at, true)?;
    let collect = || {
        let mut cursor = BlockCursor::new(Arc::new(Block::new(contents)?));
        let mut metas = Metas::new();
        cursor.seek_first()?;
        while cursor.valid() {
            metas.insert(cursor.key().to_vec(), Handle::decode(cursor.value())?);
            cursor.next()?;
        }
        Ok(metas)
    };
    collect().map_err(|found| Error::corrupt(source.name(), at.offset, found))
}

/// Reads the filter that `policy` made, in either of the two forms. Also returns the handle of a
/// filter of the whole table whose block is not compressed.
fn read_filter(
    source: &dyn ByteSource,
    metas: &Metas,
    policy: &Arc<dyn FilterPolicy>,
) -> Result<(Filter, Option<Handle>)> {
    if let Some(&handle) = metas.get(table_meta_name(&**policy).as_bytes()) {
        let sealed = source.read(sealed_range(source, handle)?)?;
        let raw_at = is_stored_raw(&sealed).then_some(handle);
        return Ok((Filter::Whole(policy.clone(), open_sealed(source, handle, sealed, true)?), raw_at));
    }
    let Some(&handle) = metas.get(block_meta_name(&**policy).as_bytes()) else { return Ok((Filter::None, None)) };
    Ok((Filter::Blocks(FilterBlock::new(policy.clone(), read_contents(source, handle, true)?)), None))
}
