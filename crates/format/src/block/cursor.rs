//! Iterates over a block with a sliding window of decoded entries.
//!
//! Keys are prefix-compressed, so an entry can be decoded only after its predecessor. A cursor
//! therefore decodes several entries together and keeps them in memory: the window. A step to
//! another entry of the window, in either direction, only changes an index and cannot fail.
use super::{
    Block,
    bytes::Contents,
    entry::{BEYOND, Entries, UNORDERED, corrupt},
    find::{Hit, Search},
    keys::Keys,
};
use crate::{Corrupt, KeyOrder, Kind, key::TRAILER_BYTES};
use std::{cmp::Ordering, ops::Range, sync::Arc};

/// Number of entries that a forward step decodes at once.
const ENTRIES_AHEAD: usize = 16;
/// Limit of the window (the decoded entries) as a number of entries; a second limit is in bytes of
/// keys. The limits bound the memory of the window even if a corrupt block states huge sizes.
const ENTRIES_MAX: usize = 1024;
const KEY_BYTES_MAX: usize = 64 << 10;

/// A cursor over the entries of a block. The cursor keeps the block in memory, except after
/// [`BlockCursor::copy_entry`]. A new cursor has no position. It also has no position after a move
/// past either end of the block, and after an error.
#[derive(Debug, Default)]
pub struct BlockCursor {
    block: Option<Arc<Block>>,
    keys: Keys,
    current: Option<Entry>,
    at: usize,          // index of the current entry in the window
    window: Vec<Entry>, // consecutive entries; empty if only the current entry is decoded
    begin: usize,       // offset of the window's first entry
    end: usize,         // offset of the entry after the window
    base: Range<usize>, // key of the entry before `end`; empty if unknown
    base_value: usize,  // offset of that entry's value
    behind: Vec<u8>,    // first key of the window that a backward step has moved out of
}

/// A decoded entry.
#[derive(Clone, Debug)]
struct Entry {
    key: Range<usize>,   // in the key buffer
    value: Range<usize>, // in the block
    parts: bool,         // whether its user key is known to differ bytewise from the previous entry's
}

impl BlockCursor {
    /// Returns a cursor without a position.
    pub fn new(block: Arc<Block>) -> BlockCursor {
        BlockCursor { block: Some(block), ..BlockCursor::default() }
    }

    /// Switches to another block, or to none. The cursor then has no position. Keeps its allocated
    /// memory.
    pub fn set_block(&mut self, block: Option<Arc<Block>>) {
        self.block = block;
        self.leave();
    }

    /// Returns whether the cursor has a position.
    #[inline]
    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the size of the current block in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.byte_len())
    }

    /// Returns whether the cursor is at the first entry of the block.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.begin == 0 && self.at == 0 && self.valid()
    }

    /// Decodes the whole block into the window. The cursor must be at the first entry and stays
    /// there. Returns false if the block exceeds the limits of the window.
    pub fn decode_all(&mut self) -> Result<bool, Corrupt> {
        debug_assert!(self.is_first());
        let mut fits = true;
        self.decode(|window, block| {
            if window.window.is_empty() {
                // After a point search, the window (the decoded entries) contains only the entry
                // that was found, so the whole block must be decoded from its start.
                window.begin_at_restart(block, 0)?;
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

    /// Iterates over the keys and values of the window.
    pub fn window_entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = self.block.as_ref().map_or(&[][..], |block| block.bytes.flat());
        self.window.iter().map(move |entry| (self.keys.get(entry.key.clone()), &bytes[entry.value.clone()]))
    }

    /// Returns the last key of the block if a forward step has just moved past it.
    pub fn passed(&self) -> Option<&[u8]> {
        let left = self.current.is_none() && !self.base.is_empty();
        left.then(|| self.keys.get(self.base.clone()))
    }

    /// Returns the first key of the block, or `None` if the block is empty or the key is invalid.
    pub fn first_in_block(&self) -> Option<&[u8]> {
        self.block.as_ref()?.first_key()
    }

    /// Returns the current key. The cursor must have a position.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.keys.get(self.stands().key.clone())
    }

    /// Returns the current value. The cursor must have a position.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let value = self.stands().value.clone();
        self.block.as_ref().map_or_else(|| self.copied_value(), |block| &block.bytes.flat()[value])
    }

    /// Returns the value of the current entry after [`BlockCursor::copy_entry`].
    fn copied_value(&self) -> &[u8] {
        let Entry { key, value, .. } = self.stands();
        self.keys.get(key.end..key.end + value.len())
    }

    /// Returns the size of the current key and value in bytes. The cursor must have a position.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        let Entry { key, value, .. } = self.stands();
        key.len() + value.len()
    }

    /// Returns the range of the current value within the block. The cursor must have a position.
    pub(super) fn value_in_block(&self) -> Range<usize> {
        self.stands().value.clone()
    }

    /// Returns the first and the last key of the window (the decoded entries). A move within the
    /// window reaches only keys between these two. The cursor must have a position.
    pub fn bounds(&self) -> [&[u8]; 2] {
        let ends = [self.window.first(), self.window.last()];
        ends.map(|end| self.keys.get(end.unwrap_or(self.stands()).key.clone()))
    }

    /// Moves the cursor to the next entry if three conditions are true: that entry is already
    /// decoded, its user key is known to differ bytewise from the current one, and `wanted` returns
    /// true for its key. Otherwise the cursor does not move, and the method returns false.
    #[inline]
    pub fn next_distinct_user_key(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let next = self.window.get(self.at + 1).filter(|next| next.parts && wanted(self.keys.get(next.key.clone())));
        self.current = next.or(self.current.as_ref()).cloned();
        let moves = next.is_some();
        self.at += usize::from(moves);
        moves
    }

    /// Returns whether the previous entry is decoded and its user key is known to differ bytewise
    /// from the current one.
    #[inline]
    pub fn differs_from_prev(&self) -> bool {
        self.at > 0 && self.stands().parts
    }

    /// Moves the cursor to the next entry if that entry is already decoded. Otherwise the cursor
    /// does not move, and the method returns false.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        let decoded = self.at + 1 < self.window.len();
        if decoded {
            self.stand(self.at + 1);
        }
        decoded
    }

    /// Moves the cursor to the previous entry if that entry is already decoded. Otherwise the
    /// cursor does not move, and the method returns false.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        let decoded = self.at > 0;
        if decoded {
            self.stand(self.at - 1);
        }
        decoded
    }

    /// Moves the cursor to entry `at` of the window (the decoded entries). If there is no such
    /// entry, the cursor has no position afterwards.
    #[inline]
    fn stand(&mut self, at: usize) {
        self.at = at;
        self.current = self.window.get(at).cloned();
    }

    #[inline]
    fn stands(&self) -> &Entry {
        self.current.as_ref().expect("the cursor stands on an entry")
    }

    /// Moves the cursor to the first entry of the block at or after `target`. If there is no such
    /// entry, the cursor has no position afterwards. `cmp` must be the order by which the block is
    /// sorted.
    pub fn seek(&mut self, target: &[u8], cmp: impl Fn(&[u8], &[u8]) -> Ordering) -> Result<(), Corrupt> {
        self.decode(|window, block| window.compare_each(block, target, cmp))
    }

    /// Moves the cursor as [`BlockCursor::seek`] does, in a block of internal keys sorted by
    /// `order`.
    pub fn seek_internal(&mut self, target: &[u8], order: &KeyOrder) -> Result<(), Corrupt> {
        self.decode(|window, block| match block.search(order, target)? {
            Search::At(hit) => window.stand_on(block.entries(), target, hit, &[]),
            Search::End => {
                window.leave();
                Ok(())
            }
            Search::Scattered => window.compare_each(block, target, |a, b| order.internal(a, b)),
        })
    }

    /// Moves the cursor to the first entry at or after `target` in `block`, whose memory the cursor
    /// cannot keep. Copies the entry, so the cursor needs no block until it moves to another entry:
    /// then the block must be [attached](BlockCursor::attach) first. Returns false, and the cursor
    /// has no position afterwards, in three cases: there is no such entry, its value is longer than
    /// `value_bytes_max`, or the search would have to reassemble keys.
    pub fn copy_entry(
        &mut self,
        block: &Block<&[u8]>,
        target: &[u8],
        order: &KeyOrder,
        value_bytes_max: usize,
    ) -> Result<bool, Corrupt> {
        self.set_block(None);
        let Search::At(hit) = block.search(order, target)? else { return Ok(false) };
        let value = block.bytes.get(hit.value.clone()).unwrap_or_default();
        if value.len() > value_bytes_max {
            return Ok(false);
        }
        self.stand_on(block.entries(), target, hit, value).inspect_err(|_| self.leave())?;
        Ok(true)
    }

    /// Gives the cursor, which [has copied](BlockCursor::copy_entry) an entry of `block`, this
    /// block in memory that it can keep. The cursor stays at its entry. If the block does not
    /// have the entry any more, the cursor loses its position.
    pub fn attach(&mut self, block: Arc<Block>) -> Result<(), Corrupt> {
        debug_assert!(self.block.is_none() && self.window.is_empty());
        let is_same = self.is_copy_of_entry_in(&block);
        self.block = Some(block);
        if is_same {
            return Ok(());
        }
        let begin = self.begin;
        self.leave();
        Err(corrupt(begin, "the block has changed"))
    }

    /// Returns whether `block` has the copied entry at the same offsets.
    fn is_copy_of_entry_in(&self, block: &Block) -> bool {
        let (entries, key) = (block.entries(), self.key());
        let entry = if self.begin < entries.end() { entries.at(self.begin).ok() } else { None };
        entry.is_some_and(|entry| {
            entry.key_bytes() == key.len()
                && key.ends_with(entry.own)
                && entries.begin(entry.behind) == self.end
                && entry.value == self.copied_value()
        })
    }

    /// Moves the cursor to the first entry of the block, if there is one.
    pub fn seek_first(&mut self) -> Result<(), Corrupt> {
        self.decode(|window, block| {
            window.begin_at_restart(block, 0)?;
            window.read_ahead(block.entries())
        })
    }

    /// Moves the cursor to the last entry of the block, if there is one.
    pub fn seek_last(&mut self) -> Result<(), Corrupt> {
        self.decode(|window, block| window.read_back(block, block.entries_end))
    }

    /// Moves the cursor, which must have a position, to the next entry of the block. If there is no
    /// next entry, the cursor has no position afterwards.
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

    /// Moves the cursor, which must have a position, to the previous entry of the block. If there
    /// is no previous entry, the cursor has no position afterwards.
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

    /// Runs `work` on the current block. If `work` returns an error, the cursor loses its position.
    fn decode(&mut self, work: impl FnOnce(&mut Self, &Block) -> Result<(), Corrupt>) -> Result<(), Corrupt> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let done = work(self, &block);
        if done.is_err() {
            self.leave();
        }
        self.block = Some(block);
        done
    }

    /// Moves the cursor to the first entry at or after `target`. This slow search reassembles each
    /// key of the block and compares it with `target`.
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

    /// Decodes the next key into the memory of the previous one, for a seek that needs only the
    /// last key. Returns false at the end of the entries.
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

    /// Returns the number of bytes of memory that the window uses or has reserved.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.window.capacity() * size_of::<Entry>()
    }

    fn leave(&mut self) {
        self.empty_at(0);
    }

    /// Empties the window (the decoded entries). Decoding continues at `offset`. The entry there
    /// can be decoded only if it is a restart point, because the cursor then knows no earlier key.
    fn empty_at(&mut self, offset: usize) {
        self.keys.clear();
        self.window.clear();
        (self.current, self.at, self.begin, self.end, self.base) = (None, 0, offset, offset, 0..0);
    }

    /// Empties the window (the decoded entries). Decoding continues at restart point `index`.
    fn begin_at_restart(&mut self, block: &Block, index: usize) -> Result<(), Corrupt> {
        self.empty_at(if block.entries_end == 0 { 0 } else { block.restart_entry(index)? });
        Ok(())
    }

    /// Empties the window (the decoded entries), but keeps the key with which the next entry shares
    /// its prefix.
    fn slide(&mut self) {
        self.window.clear();
        self.base = self.keys.keep(self.base.clone());
        (self.at, self.begin) = (0, self.end);
    }

    /// Decodes some entries into the empty window and moves the cursor to the first of them. If no
    /// entry is left in the block, the cursor has no position afterwards.
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

    /// Decodes the entries from the given restart point up to the offset `end`, and moves the
    /// cursor to the last of them. If `end` is the start of the block, there is no such entry, and
    /// the cursor becomes invalid.
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
        if self.end == end { Ok(()) } else { Err(corrupt(end, "restart points and entries disagree")) }
    }

    /// Decodes the entry that follows the window (the decoded entries) and adds it to the window.
    /// If the window is full, empties it first.
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

    /// Moves the cursor to `hit`, the entry that a search for `target` found. The window then
    /// contains only that entry. Copies `value` behind its key.
    fn stand_on(&mut self, entries: Entries<'_>, target: &[u8], hit: Hit<'_>, value: &[u8]) -> Result<(), Corrupt> {
        self.empty_at(hit.begin);
        self.base = self.keys.replace(&target[..hit.shared], hit.own, value);
        (self.base_value, self.end) = (hit.value.start, hit.value.end);
        self.check_kind(entries, hit.begin)?;
        self.stand_on_base();
        Ok(())
    }

    /// Moves the cursor to the base entry (the entry that was decoded last). The window then
    /// contains only that entry.
    fn stand_on_base(&mut self) {
        self.current = Some(self.base_entry());
    }

    #[inline]
    fn base_entry(&self) -> Entry {
        Entry { key: self.base.clone(), value: self.base_value..self.end, parts: false }
    }

    /// Decodes the key of the entry that follows the window. This key becomes the base: the key
    /// with which the next entry shares its prefix. Returns the length of the prefix that the
    /// decoded key shares with its predecessor.
    #[inline(always)]
    fn read_key(&mut self, entries: Entries<'_>) -> Result<usize, Corrupt> {
        let at = self.end;
        let entry = entries.at(at)?;
        if entry.shared > self.base.len() || entry.key_bytes() < entries.key_bytes_min {
            return Err(corrupt(at, "an invalid key"));
        }
        self.base = self.keys.add(self.base.start, entry.shared, entry.own, entry.from_own);
        self.end = entries.begin(entry.behind);
        self.base_value = self.end - entry.value.len();
        self.check_kind(entries, at)?;
        Ok(entry.shared)
    }

    /// Verifies that the base (the last decoded key), which is the key of the entry at `at`, has a
    /// known kind.
    #[inline(always)]
    fn check_kind(&self, entries: Entries<'_>, at: usize) -> Result<(), Corrupt> {
        let unknown = entries.key_bytes_min == TRAILER_BYTES && self.keys.kind_byte(&self.base) > Kind::Put as u8;
        if unknown { Err(corrupt(at, "a key of unknown kind")) } else { Ok(()) }
    }
}
