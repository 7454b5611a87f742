//! Reads what can be read of a table that may be damaged anywhere: block by block, each verified down to its last entry, what
//! is bad told and passed over.
//!
//! Where the footer and the index are whole, they say where the blocks are, and between which keys a bad one lies. Otherwise
//! blocks are found by their checksums ([`search`]); filters and facts of the table are among them, which do not decode as
//! entries, and the index itself may be, which does, and is known by what it points to.
use super::{
    ByteSource,
    index::Index,
    tail::{read_contents, read_footer, sealed_range},
};
use crate::{
    Error, Result, Setup,
    placement::{Loss, Piece, Salvage},
};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder,
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
}

enum Step {
    /// A block, and the key under which the index lists it; empty without an index.
    Block(Handle, Vec<u8>),
    /// Bytes in which no block is.
    Gap(Loss),
}

impl Salvager {
    /// Finds the blocks of the table in `source`. Whatever it is like, that succeeds.
    pub fn new(source: Box<dyn ByteSource>, setup: &Setup) -> Salvager {
        let order = setup.order.clone();
        let (steps, indexed) = match by_index(&*source, &order) {
            Ok(steps) => (steps, true),
            Err(error) => (by_checksums(&*source, &error), false),
        };
        Salvager { source, order, steps, indexed, last: Vec::new() }
    }

    /// The entries of the block at `handle`: a cursor that stands on the first one, and the last key. `None` if it holds no
    /// entries.
    fn open(&self, handle: Handle, listed: &[u8]) -> Result<Option<(BlockCursor, Vec<u8>)>> {
        let corrupt = |found| Error::corrupt(self.source.name(), handle.offset, found);
        let contents = read_contents(&*self.source, handle, true)?;
        let block = Block::of_internal_keys(contents).map(Arc::new);
        let last = match block.clone().and_then(|block| self.last_key(block, listed)) {
            Err(_) if !self.indexed => return Ok(None), // whole, so it is something else than entries
            last => last.map_err(corrupt)?,
        };
        let Some(last) = last else { return Ok(None) };
        let mut cursor = BlockCursor::new(block.map_err(corrupt)?);
        cursor.seek_first().map_err(corrupt)?;
        Ok(Some((cursor, last)))
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
}

impl Salvage for Salvager {
    fn next(&mut self) -> Piece {
        loop {
            let (handle, listed) = match self.steps.pop_front() {
                None => return Piece::End,
                Some(Step::Gap(loss)) => return Piece::Lost(loss),
                Some(Step::Block(handle, listed)) => (handle, listed),
            };
            match self.open(handle, &listed) {
                Ok(Some((cursor, last))) => {
                    self.last = last;
                    return Piece::Block(cursor);
                }
                Ok(None) => {}
                Err(error) => {
                    let user = |key: &[u8]| key::parse(key).ok().map(|parsed| parsed.user.to_vec());
                    let (from, to) = (user(&self.last), user(&listed));
                    if self.indexed {
                        self.last = listed;
                    }
                    return Piece::Lost(Loss {
                        offset: handle.offset,
                        bytes: handle.bytes,
                        reason: reason(&error),
                        from,
                        to,
                    });
                }
            }
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

/// Blocks by their checksums, and the gaps between them. `unindexed` says why.
fn by_checksums(source: &dyn ByteSource, unindexed: &Error) -> VecDeque<Step> {
    let gap = |offset, bytes, reason| Step::Gap(Loss { offset, bytes, reason, from: None, to: None });
    let (mut steps, mut end) = (VecDeque::new(), 0);
    let why = format!("no sound block lies here, and without an index nothing tells what did ({})", reason(unindexed));
    let mut search = Search::default();
    loop {
        let piece = search.wants()..source.bytes().min(search.wants() + search::PIECE_BYTES as u64);
        let last = piece.end == source.bytes();
        let bytes = match source.read(piece.clone()) {
            Ok(bytes) => bytes,
            Err(error) => {
                steps.push_back(gap(end, source.bytes() - end, reason(&error)));
                return steps;
            }
        };
        for handle in search.blocks(&bytes, last) {
            if handle.offset > end {
                steps.push_back(gap(end, handle.offset - end, why.clone()));
            }
            end = handle.end().unwrap_or(handle.offset);
            if !is_index(source, handle) {
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
    steps
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
