//! Salvages an SSTable that may be corrupt anywhere, block by block.
//!
//! Every block is verified to its last entry. A corrupt block is reported and skipped. If a block
//! has a valid checksum but keys out of order, only its impossible entries are dropped
//! ([`sift`](super::sift)).
//!
//! If the footer and the index are intact, they give the offsets of the blocks and the key range
//! of a corrupt block. Otherwise blocks are found by their checksums ([`search`]). This search
//! also finds blocks that are not data blocks. Filter and properties blocks do not decode as
//! entries. The index block does decode as entries; it is recognized because its values are block
//! handles.
use super::{
    ByteSource,
    index::Partition,
    sift::{Between, ascending, sift},
    stored_block::{read_contents, sealed_range},
    tail::{read_footer, read_range_deletes},
};
use crate::{
    Error, Result, StorageConfig,
    tables::{Loss, Piece, Salvage, TableMeta},
};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder, Kind, RangeTombstones,
    block::{Block, BlockCursor},
    footer::Handle,
    key,
    search::{self, Search},
};

/// A table being salvaged.
pub(crate) struct SstSalvager {
    source: Box<dyn ByteSource>,
    order: KeyOrder,
    steps: VecDeque<Step>,
    /// Whether the blocks were found by the index. Each block is then a data block, and the index
    /// key of a block is an upper bound of its keys.
    indexed: bool,
    /// The last key that was returned or skipped. The keys of all later blocks must be greater.
    last: Vec<u8>,
    /// Losses that are already known. The next calls return them before they read further blocks.
    lost: VecDeque<Loss>,
    /// The range tombstones of the table, if they were found without an index.
    ranges: Option<Arc<RangeTombstones>>,
    /// Smallest and largest internal key according to the manifest; empty if unknown. If keys are
    /// out of order, these bounds decide which keys are impossible. If keys are in order, the table
    /// is read even if they exceed the bounds.
    bounds: [Vec<u8>; 2],
}

enum Step {
    /// A block at this handle, and an upper bound of its keys. The bound is empty if it is unknown.
    Block(Handle, Vec<u8>),
    /// A range of bytes without a valid block.
    Gap(Loss),
}

/// The entries of a block: a cursor at the first entry, together with the key of the last entry.
type Entries = (BlockCursor, Vec<u8>);

impl SstSalvager {
    /// Finds the blocks of the table in `source`. `meta` has the table's bounds, if they are known.
    /// Always succeeds.
    pub fn new(source: Box<dyn ByteSource>, setup: &StorageConfig, meta: &TableMeta) -> SstSalvager {
        let order = setup.order.clone();
        let by_index = by_index(&*source, &order);
        let mut found = SstSalvager {
            source,
            order,
            indexed: by_index.is_ok(),
            steps: VecDeque::new(),
            last: Vec::new(),
            lost: VecDeque::new(),
            ranges: None,
            bounds: [meta.smallest.clone(), meta.largest.clone()],
        };
        match by_index {
            Ok(steps) => found.steps = steps,
            Err(error) => found.find_by_checksums(&error),
        }
        if !found.indexed {
            found.derive_upper_bounds();
        }
        found.fix_upper_bounds();
        found
    }

    /// Finds blocks by their checksums, and the gaps between blocks. `unindexed` is the reason why
    /// the index is not used.
    fn find_by_checksums(&mut self, unindexed: &Error) {
        let source = &*self.source;
        let gap = |offset, bytes, reason| Step::Gap(Loss { offset, bytes, reason, from: None, to: None });
        let (mut steps, mut end) = (VecDeque::new(), 0);
        let mut ranges = None;
        let why =
            format!("no valid block at this offset; without an index its keys are unknown ({})", reason(unindexed));
        let mut search = Search::default();
        loop {
            let piece = search.wants()..source.bytes().min(search.wants() + search::PIECE_BYTES as u64);
            let last = piece.end == source.bytes();
            let bytes = match source.read(piece.clone()) {
                Ok(bytes) => bytes,
                Err(error) => {
                    steps.push_back(gap(end, source.bytes() - end, reason(&error)));
                    end = source.bytes();
                    break;
                }
            };
            for handle in search.blocks(&bytes, last) {
                if handle.offset > end {
                    steps.push_back(gap(end, handle.offset - end, why.clone()));
                }
                end = handle.end().unwrap_or(handle.offset);
                if let Some(found) = self.ranges_in(handle) {
                    ranges = Some(found);
                } else if !is_index(source, handle) {
                    steps.push_back(Step::Block(handle, Vec::new()));
                }
            }
            if last {
                break;
            }
        }
        if end < source.bytes() || steps.is_empty() {
            steps.push_back(gap(end, source.bytes() - end, why));
        }
        (self.steps, self.ranges) = (steps, ranges);
    }

    /// Returns the range tombstones in the block at `handle`, if it contains nothing else. A data
    /// block never decodes as range tombstones, because point tombstones have no value.
    fn ranges_in(&self, handle: Handle) -> Option<Arc<RangeTombstones>> {
        let contents = read_contents(&*self.source, handle, true).ok()?;
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(contents.clone()).ok()?));
        cursor.seek_first().ok()?;
        while cursor.valid() {
            if key::parse(cursor.key()).ok()?.kind != Kind::Delete {
                return None;
            }
            cursor.next().ok()?;
        }
        RangeTombstones::decode(&self.order, contents).ok().filter(|found| !found.is_empty()).map(Arc::new)
    }

    /// Sets the upper bound of each block to the block's last key. Used if the table has no intact
    /// index.
    fn derive_upper_bounds(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in &mut steps {
            let Step::Block(handle, listed) = step else { continue };
            if let Ok((Some((_, last)), _)) = self.open(*handle, &[]) {
                *listed = last;
            }
        }
        self.steps = steps;
    }

    /// Replaces upper bounds that are out of order. A block with such a bound gets the bound of the
    /// next block whose bound is in order.
    fn fix_upper_bounds(&mut self) {
        let is_listed = |step: &&mut Step| matches!(step, Step::Block(_, listed) if !listed.is_empty());
        let mut listed: Vec<&mut Vec<u8>> = (self.steps.iter_mut().filter(is_listed))
            .filter_map(|step| if let Step::Block(_, listed) = step { Some(listed) } else { None })
            .collect();
        let kept = ascending(&listed, |a, b| self.order.internal(a, b).is_lt());
        let mut next = Vec::new();
        for (listed, kept) in listed.iter_mut().zip(kept).rev() {
            if kept {
                next.clone_from(listed);
            } else {
                listed.clone_from(&next);
            }
        }
    }

    /// Opens the block at `handle`, for a repair. According to the index, no key of the block is
    /// above `listed`. Returns the entries that can be used, or `None` if there are none, and the
    /// losses: the entries that were dropped because they are impossible or out of order.
    fn open(&self, handle: Handle, listed: &[u8]) -> Result<(Option<Entries>, Vec<Loss>)> {
        let corrupt = |found| Error::corrupt(self.source.name(), handle.offset, found);
        let contents = read_contents(&*self.source, handle, true)?;
        let block = Block::of_internal_keys(contents.clone()).map(Arc::new);
        match block.clone().and_then(|block| self.last_key(block, listed)) {
            Ok(None) => Ok((None, Vec::new())),
            Ok(Some(last)) => {
                let mut cursor = BlockCursor::new(block.map_err(corrupt)?);
                cursor.seek_first().map_err(corrupt)?;
                Ok((Some((cursor, last)), Vec::new()))
            }
            Err(_) => {
                let between = Between { order: &self.order, last: &self.last, listed, bounds: &self.bounds };
                match sift(&between, handle, contents) {
                    // Without an index, every block with a valid checksum is taken for a data
                    // block. If most keys of such a block are impossible, it is not a data block.
                    Ok(sifted) if self.indexed || sifted.kept > sifted.left_out || !listed.is_empty() => {
                        Ok((sifted.block.map(|block| (block, sifted.last)), sifted.lost))
                    }
                    Err(found) if self.indexed => Err(corrupt(found)),
                    _ => Ok((None, Vec::new())),
                }
            }
        }
    }

    /// Iterates over a block. If all its entries are valid and follow the keys that were returned
    /// before, returns the block's last key; `None` if the block is empty.
    fn last_key(&self, block: Arc<Block>, listed: &[u8]) -> std::result::Result<Option<Vec<u8>>, Corrupt> {
        let (mut cursor, mut last) = (BlockCursor::new(block), self.last.clone());
        cursor.seek_first()?;
        let any = cursor.valid();
        while cursor.valid() {
            key::parse(cursor.key())?;
            if !last.is_empty() && self.order.internal(&last, cursor.key()).is_ge() {
                return Err(Corrupt::new("block", 0, "a key is not greater than the previous key"));
            }
            last.clear();
            last.extend_from_slice(cursor.key());
            cursor.next()?;
        }
        if !listed.is_empty() && self.order.internal(&last, listed).is_gt() {
            return Err(Corrupt::new("block", 0, "its last key is greater than its index key"));
        }
        Ok(any.then_some(last))
    }

    /// Skips the block at `handle`, which cannot be read. Returns the loss.
    fn lose(&mut self, handle: Handle, listed: Vec<u8>, error: &Error) -> Loss {
        let user = |key: &[u8]| key::parse(key).ok().map(|parsed| parsed.user.to_vec());
        let (from, to) = (user(&self.last), user(&listed));
        let advances = self.last.is_empty() || !listed.is_empty() && self.order.internal(&self.last, &listed).is_lt();
        if self.indexed && advances {
            self.last = listed;
        }
        Loss { offset: handle.offset, bytes: handle.bytes, reason: reason(error), from, to }
    }
}

impl Salvage for SstSalvager {
    fn next(&mut self) -> Piece {
        loop {
            if let Some(loss) = self.lost.pop_front() {
                return Piece::Lost(loss);
            }
            let (handle, listed) = match self.steps.pop_front() {
                None => return Piece::End,
                Some(Step::Gap(loss)) => return Piece::Lost(loss),
                Some(Step::Block(handle, listed)) => (handle, listed),
            };
            match self.open(handle, &listed) {
                Ok((entries, lost)) => {
                    self.lost.extend(lost);
                    if let Some((cursor, last)) = entries {
                        self.last = last;
                        return Piece::Block(cursor);
                    }
                }
                Err(error) => return Piece::Lost(self.lose(handle, listed, &error)),
            }
        }
    }

    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>> {
        match read_range_deletes(&*self.source, &self.order) {
            Err(_) if self.ranges.is_some() => Ok(self.ranges.clone()),
            read => read,
        }
    }
}

fn by_index(source: &dyn ByteSource, order: &KeyOrder) -> Result<VecDeque<Step>> {
    let footer = read_footer(source)?;
    let corrupt = |found| Error::corrupt(source.name(), footer.index.offset, found);
    let block = Block::of_internal_keys(read_contents(source, footer.index, true)?).map_err(corrupt)?;
    let index = Partition::whole(order, block).map_err(corrupt)?;
    let mut steps = VecDeque::with_capacity(index.end());
    for at in 0..index.end() {
        let Some(handle) = index.handle(at) else { break };
        // If a handle in the index is outside of the file, the index belongs to another table.
        sealed_range(source, handle)?;
        steps.push_back(Step::Block(handle, index.key(at).to_vec()));
    }
    Ok(steps)
}

/// Returns whether the block at `handle` is an index block: its values are handles of adjacent
/// blocks, which begin at offset 0 and end before this block. A data block can have such values
/// only if its writer chose them on purpose.
fn is_index(source: &dyn ByteSource, handle: Handle) -> bool {
    let lists = || {
        let contents = read_contents(source, handle, true).ok()?;
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(contents).ok()?));
        cursor.seek_first().ok()?;
        let mut end = 0;
        while cursor.valid() {
            let listed = Handle::decode(cursor.value()).ok().filter(|listed| listed.offset == end)?;
            end = listed.end()?;
            cursor.next().ok()?;
        }
        Some(end > 0 && end <= handle.offset)
    };
    lists().unwrap_or(false)
}

/// Returns the error text without the file name, which the caller knows.
fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { what, detail, .. } => format!("corrupt {what}: {detail}"),
        Error::Io { op, source, .. } | Error::NoSpace { op, source, .. } => format!("{op}: {source}"),
        other => other.to_string(),
    }
}
