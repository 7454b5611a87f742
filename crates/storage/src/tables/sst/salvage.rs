//! Reads what can be read of a table that may be damaged anywhere: block by block, each verified down to its last entry, what
//! is bad told and passed over. Of a block whose checksum is right only the entries are lost whose keys cannot be ([`sift`](super::sift)).
//!
//! Where the footer and the index are whole, they say where the blocks are, and between which keys a bad one lies. Otherwise
//! blocks are found by their checksums ([`search`]); filters and facts of the table are among them, which do not decode as
//! entries, and the index itself may be, which does, and is known by what it points to.
use super::{
    ByteSource,
    index::Index,
    sift::{Between, ascending, sift},
    tail::{read_contents, read_footer, read_range_deletes, sealed_range},
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
pub(crate) struct Salvager {
    source: Box<dyn ByteSource>,
    order: KeyOrder,
    steps: VecDeque<Step>,
    /// By the index; then every block is one of entries, and says that its keys are not behind the one it is listed under.
    indexed: bool,
    /// The last key told, or passed over.
    last: Vec<u8>,
    /// To be told before the next step.
    lost: VecDeque<Loss>,
    /// Deletes of ranges, if they were found without an index.
    ranges: Option<Arc<RangeTombstones>>,
    /// First and last internal key as the manifest has them, or empty. They choose among keys that are out of order; a table that is in order
    /// and lies elsewhere is read as it is.
    bounds: [Vec<u8>; 2],
}

enum Step {
    /// A block, and a key that none of its entries lies behind; empty if none is known.
    Block(Handle, Vec<u8>),
    /// Bytes in which no block is.
    Gap(Loss),
}

/// Entries of a block: a cursor that stands on the first one, and the last key.
type Entries = (BlockCursor, Vec<u8>);

impl Salvager {
    /// Finds the blocks of the table in `source`, of which `meta` tells the bounds if they are known. Whatever it is like, that succeeds.
    pub fn new(source: Box<dyn ByteSource>, setup: &StorageConfig, meta: &TableMeta) -> Salvager {
        let order = setup.order.clone();
        let by_index = by_index(&*source, &order);
        let mut found = Salvager {
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
            Err(error) => found.by_checksums(&error),
        }
        if !found.indexed {
            found.list_by_last_keys();
        }
        found.trust_in_order();
        found
    }

    /// Finds blocks by their checksums, and the gaps between them. `unindexed` says why.
    fn by_checksums(&mut self, unindexed: &Error) {
        let source = &*self.source;
        let gap = |offset, bytes, reason| Step::Gap(Loss { offset, bytes, reason, from: None, to: None });
        let (mut steps, mut end) = (VecDeque::new(), 0);
        let mut ranges = None;
        let why =
            format!("no sound block lies here, and without an index nothing tells what did ({})", reason(unindexed));
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

    /// Deletes of ranges, if the block at `handle` holds nothing else: entries that are deletes and have values are none.
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

    /// Lists blocks under their last keys, for want of an index.
    fn list_by_last_keys(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in &mut steps {
            let Step::Block(handle, listed) = step else { continue };
            if let Ok((Some((_, last)), _)) = self.open(*handle, &[]) {
                *listed = last;
            }
        }
        self.steps = steps;
    }

    /// A key under which a block is listed out of order says nothing: the block ends where the next one that is in order does.
    fn trust_in_order(&mut self) {
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

    /// The entries of the block at `handle`, none of which lies behind `listed`, and what had to be left out. No entries if it holds
    /// none.
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
                    // Without an index, what is whole and has few keys that can be is something else than entries.
                    Ok(sifted) if self.indexed || sifted.kept > sifted.left_out || !listed.is_empty() => {
                        Ok((sifted.block.map(|block| (block, sifted.last)), sifted.lost))
                    }
                    Err(found) if self.indexed => Err(corrupt(found)),
                    _ => Ok((None, Vec::new())),
                }
            }
        }
    }

    /// Walks a block; its last key, if all its entries are sound and come behind what was told before. `None` if it is empty.
    fn last_key(&self, block: Arc<Block>, listed: &[u8]) -> std::result::Result<Option<Vec<u8>>, Corrupt> {
        let (mut cursor, mut last) = (BlockCursor::new(block), self.last.clone());
        cursor.seek_first()?;
        let any = cursor.valid();
        while cursor.valid() {
            key::parse(cursor.key())?;
            if !last.is_empty() && self.order.internal(&last, cursor.key()).is_ge() {
                return Err(Corrupt::new("block", 0, "an entry does not follow the one before it"));
            }
            last.clear();
            last.extend_from_slice(cursor.key());
            cursor.next()?;
        }
        if !listed.is_empty() && self.order.internal(&last, listed).is_gt() {
            return Err(Corrupt::new("block", 0, "its last key comes behind the one that the index lists it under"));
        }
        Ok(any.then_some(last))
    }

    /// Passes over a block that cannot be read.
    fn lose(&mut self, handle: Handle, listed: Vec<u8>, error: &Error) -> Loss {
        let user = |key: &[u8]| key::parse(key).ok().map(|parsed| parsed.user.to_vec());
        let (from, to) = (user(&self.last), user(&listed));
        let goes_on = self.last.is_empty() || !listed.is_empty() && self.order.internal(&self.last, &listed).is_lt();
        if self.indexed && goes_on {
            self.last = listed;
        }
        Loss { offset: handle.offset, bytes: handle.bytes, reason: reason(error), from, to }
    }
}

impl Salvage for Salvager {
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
    let index = Index::new(order, block).map_err(corrupt)?;
    let mut steps = VecDeque::with_capacity(index.len());
    for at in 0..index.len() {
        let Some(handle) = index.handle(at) else { break };
        sealed_range(source, handle)?; // an index that points elsewhere is not this table's
        steps.push_back(Step::Block(handle, index.key(at).to_vec()));
    }
    Ok(steps)
}

/// Whether the block at `handle` lists blocks that lie before it, one behind the other from the table's start on. Entries of a
/// user would have to be made for it.
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

/// What went wrong, without the name of the file, which whoever reads it knows.
fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { what, detail, .. } => format!("corrupt {what}: {detail}"),
        Error::Io { op, source, .. } | Error::NoSpace { op, source, .. } => format!("{op}: {source}"),
        other => other.to_string(),
    }
}
