//! Reading blocks: a window of decoded entries that slides over a block.
//!
//! Keys are stored as differences, so an entry can be read only after the one before it. A cursor therefore decodes several
//! at a time and keeps them: within its window a step either way is an index, and cannot fail.
use super::{
    Block,
    entry::{BEYOND, Entries, UNORDERED, corrupt},
    find::{Hit, Search},
    keys::Keys,
};
use crate::{Corrupt, KeyOrder, Kind, key::TRAILER_BYTES};
use std::{cmp::Ordering, ops::Range, sync::Arc};

/// Entries that a window decodes ahead of a forward step.
const ENTRIES_AHEAD: usize = 16;
/// Entries, and bytes of keys, at which a window forgets what it has decoded: whatever a block claims, memory is bounded.
const ENTRIES_MAX: usize = 1024;
const KEY_BYTES_MAX: usize = 64 << 10;

/// Walks a block's entries in order and keeps the block alive. Stands nowhere at first, behind the ends, and after an
/// error.
#[derive(Debug, Default)]
pub struct BlockCursor {
    block: Option<Arc<Block>>,
    keys: Keys,
    current: Option<Entry>,
    at: usize,          // the current one in the window
    window: Vec<Entry>, // entries that follow each other in the block; empty where only the current one is decoded
    begin: usize,       // where the first of them begins
    end: usize,         // where the entry after the last of them begins
    base: Range<usize>, // the key before that entry, among the keys; empty if it is not known
    base_value: usize,  // where its value begins
    behind: Vec<u8>,    // the first key of the window that a step back has left
}

/// One decoded entry.
#[derive(Clone, Debug)]
struct Entry {
    key: Range<usize>,   // among the keys
    value: Range<usize>, // in the block
    parts: bool,         // see `parts`
}

impl BlockCursor {
    /// Stands nowhere yet.
    pub fn new(block: Arc<Block>) -> BlockCursor {
        BlockCursor { block: Some(block), ..BlockCursor::default() }
    }

    /// Turns to another block, or to none, and stands nowhere. Keeps the memory.
    pub fn turn_to(&mut self, block: Option<Arc<Block>>) {
        self.block = block;
        self.leave();
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    /// Bytes of the block that it is in.
    pub fn block_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.byte_len())
    }

    /// Whether it stands on the block's first entry.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.begin == 0 && self.at == 0 && self.valid()
    }

    /// Has all of the block decoded and at hand, standing on its first entry; false if that is too much.
    pub fn decode_all(&mut self) -> Result<bool, Corrupt> {
        debug_assert!(self.is_first());
        let mut fits = true;
        self.decode(|window, block| {
            if window.window.is_empty() {
                window.begin_at_restart(block, 0)?; // a search keeps what it found, and nothing beside it
                window.read_ahead(block.entries())?;
            }
            while window.end < block.entries_end && fits {
                fits = window.window.len() < ENTRIES_MAX && window.keys.len() < KEY_BYTES_MAX;
                if fits {
                    window.read_entry(block.entries())?;
                }
            }
            Ok(())
        })?;
        Ok(fits)
    }

    /// The entries at hand, in their order: keys and values.
    pub fn at_hand(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = self.block.as_ref().map_or(&[][..], |block| block.bytes.flat());
        self.window.iter().map(move |entry| (self.keys.get(entry.key.clone()), &bytes[entry.value.clone()]))
    }

    /// The last key of the block, if a step forward has just left it.
    pub fn passed(&self) -> Option<&[u8]> {
        let left = self.current.is_none() && !self.base.is_empty();
        left.then(|| self.keys.get(self.base.clone()))
    }

    /// The first key of the block, if there is one and it makes sense.
    pub fn first_in_block(&self) -> Option<&[u8]> {
        let block = self.block.as_ref().filter(|block| block.entries_end > 0)?;
        block.restart_key(0).ok()
    }

    /// The current key. Must stand on an entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.keys.get(self.stands().key.clone())
    }

    /// The current value. Must stand on an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let value = self.stands().value.clone();
        self.block.as_ref().map_or(&[], |block| &block.bytes.flat()[value])
    }

    /// Bytes of the current key and value. Must stand on an entry.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        let Entry { key, value, .. } = self.stands();
        key.len() + value.len()
    }

    /// Where in the block the current value is. Must stand on an entry.
    pub(super) fn value_in_block(&self) -> Range<usize> {
        self.stands().value.clone()
    }

    /// The first and the last key of the window, which bound every key that a step without an error may reach. Must stand
    /// on an entry.
    pub fn bounds(&self) -> [&[u8]; 2] {
        let ends = [self.window.first(), self.window.last()];
        ends.map(|end| self.keys.get(end.unwrap_or(self.stands()).key.clone()))
    }

    /// One forward if that entry is decoded already, its user key, as bytes, surely is another than the current one's, and
    /// its key is `wanted`; else stays and returns false.
    #[inline]
    pub fn next_apart(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let next = self.window.get(self.at + 1).filter(|next| next.parts && wanted(self.keys.get(next.key.clone())));
        self.current = next.or(self.current.as_ref()).cloned();
        let moves = next.is_some();
        self.at += usize::from(moves);
        moves
    }

    /// Whether the entry before is decoded already and its user key, as bytes, surely is another than the current one's.
    #[inline]
    pub fn apart_from_prev(&self) -> bool {
        self.at > 0 && self.stands().parts
    }

    /// One forward if that entry is decoded already; else stays and returns false.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        let decoded = self.at + 1 < self.window.len();
        if decoded {
            self.stand(self.at + 1);
        }
        decoded
    }

    /// One back if that entry is decoded already; else stays and returns false.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        let decoded = self.at > 0;
        if decoded {
            self.stand(self.at - 1);
        }
        decoded
    }

    /// Stands on entry `at` of the window, or nowhere if there is none.
    #[inline]
    fn stand(&mut self, at: usize) {
        self.at = at;
        self.current = self.window.get(at).cloned();
    }

    #[inline]
    fn stands(&self) -> &Entry {
        self.current.as_ref().expect("the cursor stands on an entry")
    }

    /// To the first entry at or after `target` in the order `cmp`, which sorts the block.
    pub fn seek(&mut self, target: &[u8], cmp: impl Fn(&[u8], &[u8]) -> Ordering) -> Result<(), Corrupt> {
        self.decode(|window, block| window.compare_each(block, target, cmp))
    }

    /// As [`BlockCursor::seek`], in a block of internal keys that `order` sorts.
    pub fn seek_internal(&mut self, target: &[u8], order: &KeyOrder) -> Result<(), Corrupt> {
        self.decode(|window, block| match block.search(order, target)? {
            Search::At(hit) => window.stand_on(block.entries(), target, hit),
            Search::End => {
                window.leave();
                Ok(())
            }
            Search::Scattered => window.compare_each(block, target, |a, b| order.internal(a, b)),
        })
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<(), Corrupt> {
        self.decode(|window, block| {
            window.begin_at_restart(block, 0)?;
            window.read_ahead(block.entries())
        })
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<(), Corrupt> {
        self.decode(|window, block| window.read_back(block, block.entries_end))
    }

    /// One forward. Must stand on an entry.
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways and can fail")]
    pub fn next(&mut self) -> Result<(), Corrupt> {
        debug_assert!(self.valid());
        if self.step_forward() {
            return Ok(());
        }
        self.decode(|window, block| {
            window.slide();
            window.read_ahead(block.entries())
        })
    }

    /// One back. Must stand on an entry.
    pub fn prev(&mut self) -> Result<(), Corrupt> {
        debug_assert!(self.valid());
        if self.step_back() {
            return Ok(());
        }
        self.decode(|window, block| {
            let Some(order) = &block.order else { return window.read_back(block, window.begin) };
            window.behind.clear();
            let first = window.window.first().unwrap_or(window.stands()).key.clone();
            window.behind.extend_from_slice(window.keys.get(first));
            window.read_back(block, window.begin)?;
            let follows = |entry: &Entry| order.internal(window.keys.get(entry.key.clone()), &window.behind).is_lt();
            if window.current.as_ref().is_none_or(follows) { Ok(()) } else { Err(corrupt(window.end, UNORDERED)) }
        })
    }

    /// Stands nowhere after an error, and in no block.
    fn decode(&mut self, work: impl FnOnce(&mut Self, &Block) -> Result<(), Corrupt>) -> Result<(), Corrupt> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let done = work(self, &block);
        if done.is_err() {
            self.leave();
        }
        self.block = Some(block);
        done
    }

    /// To the first entry at or after `target`, by putting the keys before it together.
    fn compare_each(
        &mut self,
        block: &Block,
        target: &[u8],
        cmp: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> Result<(), Corrupt> {
        self.empty_at(block.restart_before(|key| cmp(key, target).is_lt())?);
        while self.read_over(block.entries())? {
            if cmp(self.keys.get(self.base.clone()), target).is_ge() {
                self.stand_on_base();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Decodes the next key into the place of the one before, for a seek that keeps none but the last; false if the
    /// entries end.
    #[inline]
    fn read_over(&mut self, entries: Entries<'_>) -> Result<bool, Corrupt> {
        if self.end == entries.end() {
            self.leave();
            return Ok(false);
        }
        self.begin = self.end;
        self.keys.cut(self.base.start);
        self.read_key(entries)?;
        Ok(true)
    }

    /// Bytes that the window takes, whether in use or kept for what comes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.window.capacity() * size_of::<Entry>()
    }

    fn leave(&mut self) {
        self.empty_at(0);
    }

    /// An empty window before the entry at `offset`, which must be at a restart, or before none.
    fn empty_at(&mut self, offset: usize) {
        self.keys.clear();
        self.window.clear();
        (self.current, self.at, self.begin, self.end, self.base) = (None, 0, offset, offset, 0..0);
    }

    /// An empty window at restart `index`; nowhere if the block has no entries.
    fn begin_at_restart(&mut self, block: &Block, index: usize) -> Result<(), Corrupt> {
        self.empty_at(if block.entries_end == 0 { 0 } else { block.restart_entry(index)? });
        Ok(())
    }

    /// Forgets all but the key on which the entry after the window is based.
    fn slide(&mut self) {
        self.window.clear();
        self.base = self.keys.keep(self.base.clone());
        (self.at, self.begin) = (0, self.end);
    }

    /// Stands on the entry after the empty window, with some decoded behind it; nowhere if there is none.
    fn read_ahead(&mut self, entries: Entries<'_>) -> Result<(), Corrupt> {
        while self.end < entries.end() {
            self.read_entry(entries)?;
            if self.window.len() >= ENTRIES_AHEAD || self.keys.len() >= KEY_BYTES_MAX {
                break;
            }
        }
        self.stand(0);
        Ok(())
    }

    /// Stands on the last entry before `end`, with those before it decoded back to a restart; nowhere if there is none.
    fn read_back(&mut self, block: &Block, end: usize) -> Result<(), Corrupt> {
        let restarts = block.restarts_before(end);
        if restarts == 0 {
            self.leave();
            let at_front = block.entries_end == 0 || block.restart(0) == end;
            return if at_front { Ok(()) } else { Err(corrupt(end, BEYOND)) };
        }
        self.begin_at_restart(block, restarts - 1)?;
        let entries = block.entries();
        while self.end < end {
            self.read_entry(entries)?;
        }
        self.stand(self.window.len().saturating_sub(1));
        if self.end == end { Ok(()) } else { Err(corrupt(end, "restarts and entries do not meet")) }
    }

    /// Decodes the entry after the window. Forgets the window before it grows too large.
    #[inline]
    fn read_entry(&mut self, entries: Entries<'_>) -> Result<(), Corrupt> {
        if self.window.len() >= ENTRIES_MAX || self.keys.len() >= KEY_BYTES_MAX {
            self.slide();
        }
        let (base, at) = (self.base.clone(), self.end);
        let shared = self.read_key(entries)?;
        if self.window.capacity() == 0 {
            self.window.reserve_exact(ENTRIES_AHEAD);
        }
        if let Some(order) = entries.order.filter(|_| !base.is_empty())
            && !self.keys.follows(order, base.clone(), self.base.clone(), shared)
        {
            return Err(corrupt(at, UNORDERED));
        }
        let parts = !base.is_empty() && self.keys.users_differ(base, self.base.clone(), shared);
        self.window.push(Entry { parts, ..self.base_entry() });
        Ok(())
    }

    /// Stands on what a search for `target` has found, and keeps no other entry.
    fn stand_on(&mut self, entries: Entries<'_>, target: &[u8], hit: Hit<'_>) -> Result<(), Corrupt> {
        self.empty_at(hit.begin);
        self.base = self.keys.replace(&target[..hit.shared], hit.own);
        (self.base_value, self.end) = (hit.value.start, hit.value.end);
        self.check_kind(entries, hit.begin)?;
        self.stand_on_base();
        Ok(())
    }

    /// Stands on the entry of the base, and keeps no other.
    fn stand_on_base(&mut self) {
        self.current = Some(self.base_entry());
    }

    #[inline]
    fn base_entry(&self) -> Entry {
        Entry { key: self.base.clone(), value: self.base_value..self.end, parts: false }
    }

    /// Decodes the key after the window, which becomes the base. Returns how many bytes it takes over from the one before.
    #[inline(always)]
    fn read_key(&mut self, entries: Entries<'_>) -> Result<usize, Corrupt> {
        let at = self.end;
        let entry = entries.at(at)?;
        if entry.shared > self.base.len() || entry.key_bytes() < entries.key_bytes_min {
            return Err(corrupt(at, "a key that cannot be"));
        }
        self.base = self.keys.add(self.base.start, entry.shared, entry.own, entry.from_own);
        self.end = entries.begin(entry.behind);
        self.base_value = self.end - entry.value.len();
        self.check_kind(entries, at)?;
        Ok(entry.shared)
    }

    /// Whether the base, the key of the entry at `at`, is of a known kind.
    #[inline(always)]
    fn check_kind(&self, entries: Entries<'_>, at: usize) -> Result<(), Corrupt> {
        let unknown = entries.key_bytes_min == TRAILER_BYTES && self.keys.kind_byte(&self.base) > Kind::Put as u8;
        if unknown { Err(corrupt(at, "a key of an unknown kind")) } else { Ok(()) }
    }
}
