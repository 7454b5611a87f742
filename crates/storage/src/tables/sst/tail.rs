//! The parts of an SSTable that are read when it is opened: footer, index, metaindex, filter,
//! properties, range tombstones. All of them are verified.
use super::{ByteSource, filter::Filter, index::Index};
use crate::{Error, Result};
use std::{collections::BTreeMap, ops::Range, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder, RangeTombstones, TableProperties,
    block::{Block, BlockCursor, Bytes},
    compress::decompress,
    filter::{FilterBlock, FilterPolicy, block_meta_name, table_meta_name},
    footer::{FOOTER_BYTES, Footer, Handle, open_block},
    pair::{self, PairProperties},
    properties,
    range_tombstones::META_NAME,
};

/// The decoded parts at the end of a table. They are in memory while the table is open.
pub(super) struct Tail {
    pub footer: Footer,
    pub index: Index,
    pub filter: Filter,
    pub properties: Option<TableProperties>,
    pub range_tombstones: Option<Arc<RangeTombstones>>,
    pub pairs: Option<PairProperties>,
}

impl Tail {
    pub fn load(source: &dyn ByteSource, order: &KeyOrder, policy: Option<&Arc<dyn FilterPolicy>>) -> Result<Tail> {
        let footer = read_footer(source)?;
        let index = Block::of_internal_keys(read_contents(source, footer.index, true)?)
            .and_then(|block| Index::new(order, block))
            .and_then(|index| index.check_order(order).map(|()| index))
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
        let filter = policy.map_or(Ok(Filter::None), |policy| read_filter(source, &metas, policy))?;
        Ok(Tail { footer, index, filter, properties, range_tombstones, pairs })
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

/// Reads the filter that `policy` made, in either of the two forms.
fn read_filter(source: &dyn ByteSource, metas: &Metas, policy: &Arc<dyn FilterPolicy>) -> Result<Filter> {
    if let Some(&handle) = metas.get(table_meta_name(&**policy).as_bytes()) {
        return Ok(Filter::Whole(policy.clone(), read_contents(source, handle, true)?));
    }
    match metas.get(block_meta_name(&**policy).as_bytes()) {
        Some(&handle) => Ok(Filter::Blocks(FilterBlock::new(policy.clone(), read_contents(source, handle, true)?))),
        None => Ok(Filter::None),
    }
}

/// Reads and decompresses the block at `handle`.
pub(super) fn read_contents(source: &dyn ByteSource, handle: Handle, verify: bool) -> Result<Bytes> {
    let sealed = source.read(sealed_range(source, handle)?)?;
    open_sealed(source, handle, sealed, verify)
}

/// Returns the range of the block at `handle` with its trailer. Returns an error if the range
/// extends beyond the end of the file, which may have been truncated.
pub(super) fn sealed_range(source: &dyn ByteSource, handle: Handle) -> Result<Range<u64>> {
    match handle.end().filter(|end| *end <= source.bytes()) {
        Some(end) => Ok(handle.offset..end),
        None => {
            let detail = format!("{} bytes extend past the end of the table ({} bytes)", handle.bytes, source.bytes());
            Err(Error::corrupt(source.name(), handle.offset, Corrupt::new("block handle", 0, detail)))
        }
    }
}

/// Decodes `sealed`, the block at `handle` with its trailer. An uncompressed block is not copied.
pub(super) fn open_sealed(source: &dyn ByteSource, handle: Handle, sealed: Bytes, verify: bool) -> Result<Bytes> {
    let corrupt = |found| Error::corrupt(source.name(), handle.offset, found);
    let (codec, stored) = open_block(&sealed, verify).map_err(corrupt)?;
    if codec != 0 {
        return decompress(codec, stored).map(Bytes::from).map_err(corrupt);
    }
    let bytes = stored.len();
    Ok(sealed.cut(bytes))
}
