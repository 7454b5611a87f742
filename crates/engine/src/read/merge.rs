//! The merging iterator: many sorted sources as one, in internal-key order, forward and backward.
//! A source is a memtable or a sorted run.
//!
//! ```text
//! source 0 (memtable)   ─▶ ┐   queue, sorted by each source's current entry
//! source 1 (run, L0)    ─▶ ├─▶ [1, 0, 3]      the head is the current source
//! source 3 (run, L2)    ─▶ ┘
//! source 2 (run, L1)        deferred or exhausted: not in the queue
//! ```
//! A move to the next entry advances the source at the head of the queue. Usually the next entry
//! of this source still precedes the current entry of the second source in the queue, and one
//! comparison shows this. Often the head has further decoded entries in memory that are known to
//! precede the second source's entry. A move over these entries needs no comparison. If two
//! sources have the same internal key, both entries are the same write, and the source with the
//! lower number comes first in the queue.
//!
//! Each source moves strictly in the direction of iteration, so every iteration ends. Memtables
//! guarantee the order of their entries by construction. Cursors over SSTables report corruption
//! if a key does not follow the previous key. After a skip within a source, the merging iterator
//! itself compares the new key with the old one.
//!
//! A lookup of one key often needs only one source. [`Merge::find`] therefore checks the Bloom
//! filters of the sources first. It defers the sources that the lookup does not need: it does not
//! position them until the iteration continues. A seek to an existing key then costs little more
//! than a point lookup.
use super::source::{Direction, Source, Sources};
use crate::Result;
use std::cmp::Ordering;
use terrace_format::{
    KeyOrder,
    key::{self, Parsed},
};
use terrace_storage::placement::{EntryRef, Origin, WholeBlock};

/// Iterates over several sorted sources as one. After an error the iterator is at no entry until
/// the next seek.
pub struct Merge {
    order: KeyOrder,
    sources: Sources,
    /// The numbers of the sources that are at an entry, in the order of their current entries in
    /// the direction of iteration. The first number is that of the current source.
    queue: Vec<usize>,
    direction: Direction,
    /// Whether a move over the decoded entries of the current source needs no comparison, because
    /// all of them (in the direction of iteration) precede the entry of the second source in the
    /// queue.
    run_free: bool,
    /// The deferred sources, one bit for each: sources that [`find`](Merge::find) has not
    /// positioned. The current entry is correct without them, because a deferred source cannot have
    /// an earlier visible entry: each of its entries at or after the key that `find` looked up
    /// either follows the current entry, or is too new for the reader. No source is deferred in a
    /// backward iteration.
    deferred: u64,
}

impl Merge {
    /// Makes an iterator that is at no entry yet.
    #[inline]
    pub fn new(order: KeyOrder, sources: Sources) -> Merge {
        let queue = Vec::with_capacity(sources.len());
        Merge { order, sources, queue, direction: Direction::Forward, run_free: false, deferred: 0 }
    }

    /// Returns whether the iterator is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Moves the iterator to the first entry at or after `target`, if there is one.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.position_all(Direction::Forward, |_, source| source.seek(target))
    }

    /// Moves the iterator to the first entry at or after `target`, which is an internal key with
    /// the sequence number of a reader. The sources must be ordered from the newest to the oldest.
    /// As soon as one source has the user key, the method returns. It leaves the sources that it
    /// has not searched deferred: they are not positioned until the iteration continues.
    pub fn find(&mut self, target: &[u8]) -> Result<()> {
        // Deferral uses the Bloom filters of the sources, which hash the bytes of a key. In a
        // custom order, two keys with different bytes may be equal, so a filter could miss a key.
        if self.sources.len() > u64::BITS as usize || !self.order.is_bytewise() {
            return self.seek(target);
        }
        self.queue.clear();
        self.direction = Direction::Forward;
        self.deferred = u64::MAX.checked_shl(self.sources.len() as u32).map_or(u64::MAX, |none| !none);
        if !self.probe_sources(target)? {
            self.seek_deferred(target)?;
        }
        self.rebuild_queue();
        Ok(())
    }

    /// Returns whether every source is positioned, that is, none is deferred.
    pub fn is_whole(&self) -> bool {
        self.deferred == 0
    }

    /// Moves the iterator to the first entry of all sources, if any source has an entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.position_all(Direction::Forward, |_, source| source.seek_first())
    }

    /// Moves the iterator to the last entry of all sources, if any source has an entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.position_all(Direction::Backward, |_, source| source.seek_last())
    }

    /// Moves the iterator, which must be at an entry, to the next entry. If there is no next entry,
    /// the iterator is at no entry afterwards.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            return self.turn_forward();
        }
        if self.deferred > 0 {
            self.position_deferred()?;
        }
        let at = self.at();
        if self.sources[at].step_forward() {
            if !self.run_free {
                self.requeue(at);
            }
            return Ok(());
        }
        let moved = self.sources[at].next();
        self.enqueue(at, moved)
    }

    /// Moves the iterator, which must be at an entry, to the previous entry. If there is no
    /// previous entry, the iterator is at no entry afterwards.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            return self.turn_backward();
        }
        let at = self.at();
        if self.sources[at].step_back() {
            if !self.run_free {
                self.requeue(at);
            }
            return Ok(());
        }
        let moved = self.sources[at].prev();
        self.enqueue(at, moved)
    }

    /// Returns the number of the current source. The iterator must be at an entry.
    #[inline]
    pub fn source(&self) -> usize {
        self.at()
    }

    /// Moves the current source forward to its first entry at or after `target`, and does not move
    /// the other sources. The iteration must be forward, and `target` must follow the current
    /// entry. Afterwards the iterator is at the smallest of the current entries of all sources.
    pub fn skip_to(&mut self, target: &[u8]) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Forward);
        if self.deferred > 0 {
            self.position_deferred()?;
        }
        let at = self.at();
        let source = &mut self.sources[at];
        let order = &self.order;
        let is_before = |source: &Source| source.valid() && order.internal(source.key(), target).is_lt();
        let moved =
            source.seek(target).and_then(|()| if is_before(source) { Err(source.out_of_order()) } else { Ok(()) });
        self.run_free = false;
        self.enqueue(at, moved)
    }

    /// Moves the current source backward to its last entry before `target`, and does not move the
    /// other sources. The iteration must be backward, and `target` must precede the current entry.
    /// Afterwards the iterator is at the largest of the current entries of all sources.
    pub fn skip_before(&mut self, target: &[u8]) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Backward);
        let at = self.at();
        let source = &mut self.sources[at];
        let order = &self.order;
        let is_after = |source: &Source| source.valid() && order.internal(source.key(), target).is_ge();
        let moved = source
            .seek(target)
            .and_then(|()| if source.valid() { source.prev() } else { source.seek_last() })
            .and_then(|()| if is_after(source) { Err(source.out_of_order()) } else { Ok(()) });
        self.run_free = false;
        self.enqueue(at, moved)
    }

    /// Returns the internal key of the current entry. The iterator must be at an entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.sources[self.at()].key()
    }

    /// Returns the parsed internal key of the current entry. The iterator must be at an entry.
    #[inline]
    pub fn parsed(&self) -> Parsed<'_> {
        key::apart(self.key())
    }

    /// Returns the value of the current entry. The iterator must be at an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.sources[self.at()].value()
    }

    /// Returns the internal key and the value of the current entry. The iterator must be at an
    /// entry.
    #[inline]
    pub fn pair(&self) -> (&[u8], &[u8]) {
        match &self.sources[self.at()] {
            Source::Mem(c) => (c.key(), c.value()),
            Source::Run(c) => (c.entries().key(), c.entries().value()),
        }
    }

    /// Returns the internal key, and the size in bytes of the key and the value. For a separated
    /// value (a value in the value log) this is the size of its value pointer. The iterator must be
    /// at an entry.
    #[inline]
    pub fn sized_key(&self) -> (&[u8], usize) {
        match &self.sources[self.at()] {
            Source::Mem(c) => (c.key(), c.key().len() + c.value().len()),
            Source::Run(c) => (c.entries().key(), c.entries().entry_bytes()),
        }
    }

    /// Reads the value of the current entry if the value is in a separate file, as in directory
    /// tables. The iterator must be at an entry.
    pub fn fetch(&mut self) -> Result<()> {
        let at = self.at();
        match &mut self.sources[at] {
            Source::Mem(_) => Ok(()),
            Source::Run(c) => Ok(c.entries_mut().fetch()?),
        }
    }

    /// Returns the current entry in the form that `TableSink::keep` takes. The iterator must be at
    /// an entry.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        match &self.sources[self.at()] {
            Source::Mem(c) => EntryRef { key: c.key(), stored: c.value(), origin: Origin::Memory },
            Source::Run(c) => c.entries().entry(),
        }
    }

    /// Returns whether a forward iteration is at the first entry of an SSTable block, and no other
    /// source has an entry within the range of the block. A compaction may copy such a block whole.
    #[inline]
    pub fn comes_to_block(&self) -> bool {
        debug_assert!(self.direction == Direction::Forward && self.is_whole());
        let first = self.at();
        let Source::Run(c) = &self.sources[first] else { return false };
        c.entries().comes_to_block().is_some_and(|bound| self.is_alone_up_to(bound))
    }

    #[inline(never)]
    fn is_alone_up_to(&self, bound: &[u8]) -> bool {
        self.queue.get(1).is_none_or(|&second| self.precedes(bound, self.at(), second))
    }

    /// Returns the SSTable block that begins at the current entry, if a compaction can copy it
    /// unchanged.
    pub fn whole_block(&mut self) -> Result<Option<WholeBlock<'_>>> {
        let at = self.at();
        let Source::Run(c) = &mut self.sources[at] else { return Ok(None) };
        match c.entries_mut().stored_block() {
            Ok(Some(sealed)) => Ok(Some(c.entries().whole_block(sealed))),
            Ok(None) => Ok(None),
            Err(error) => {
                self.queue.clear();
                Err(error.into())
            }
        }
    }

    /// Moves the current source to its first entry after the current block. Afterwards the iterator
    /// is at the smallest of the current entries of all sources.
    pub fn skip_block(&mut self) -> Result<()> {
        let at = self.at();
        let Source::Run(c) = &mut self.sources[at] else { unreachable!("memtables have no blocks") };
        let moved = c.skip_block();
        self.enqueue(at, moved)
    }

    /// Moves the iterator to the next entry if three conditions are true: the next entry is already
    /// decoded, it certainly has another user key than the current one, and `wanted` returns true
    /// for its internal key. Otherwise the iterator does not move, and the method returns false.
    #[inline]
    pub fn next_distinct_user_key(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let at = self.at();
        match &mut self.sources[at] {
            Source::Run(c) if self.run_free && self.direction == Direction::Forward && self.order.is_bytewise() => {
                c.entries_mut().next_distinct_user_key(wanted)
            }
            _ => false,
        }
    }

    /// Returns whether the previous entry is decoded and certainly has another user key than the
    /// current entry. In a forward iteration the result is always false.
    #[inline]
    pub fn differs_from_prev(&self) -> bool {
        match &self.sources[self.at()] {
            Source::Run(c) if self.run_free && self.direction == Direction::Backward && self.order.is_bytewise() => {
                c.entries().decoded().differs_from_prev()
            }
            _ => false,
        }
    }

    /// Returns whether the iteration is backward, because the last move was backward or a seek to
    /// the last entry.
    #[inline]
    pub fn is_backward(&self) -> bool {
        self.direction == Direction::Backward
    }

    #[inline]
    fn at(&self) -> usize {
        *self.queue.first().expect("the iterator is at an entry")
    }

    /// Changes the direction from backward to forward, and moves the iterator to the next entry.
    fn turn_forward(&mut self) -> Result<()> {
        let (at, key, order) = (self.at(), self.key().to_vec(), self.order.clone());
        self.position_all(Direction::Forward, |number, source| {
            if number == at {
                return source.next();
            }
            source.seek(&key)?;
            if source.valid() && order.internal(source.key(), &key).is_eq() { source.next() } else { Ok(()) }
        })
    }

    /// Changes the direction from forward to backward, and moves the iterator to the previous
    /// entry.
    fn turn_backward(&mut self) -> Result<()> {
        let (at, key) = (self.at(), self.key().to_vec());
        self.position_all(Direction::Backward, |number, source| {
            if number == at {
                return source.prev();
            }
            source.seek(&key)?;
            if source.valid() { source.prev() } else { source.seek_last() }
        })
    }

    /// Calls `step` for every source, to position the source. Then builds the queue of the sources
    /// that are at an entry.
    fn position_all(
        &mut self,
        direction: Direction,
        mut step: impl FnMut(usize, &mut Source) -> Result<()>,
    ) -> Result<()> {
        self.queue.clear();
        self.direction = direction;
        self.deferred = 0;
        for (number, source) in self.sources.iter_mut().enumerate() {
            step(number, source)?;
        }
        self.rebuild_queue();
        Ok(())
    }

    /// Seeks the sources whose filters admit the user key of `target`, newest first, until a source
    /// has this key. Returns whether a source has it. If no source has the key, the oldest source
    /// has been positioned too, whatever its filter returned.
    fn probe_sources(&mut self, target: &[u8]) -> Result<bool> {
        let last = self.sources.len().wrapping_sub(1);
        for (number, source) in self.sources.iter_mut().enumerate() {
            if number != last && !source.may_have(target)? {
                continue;
            }
            source.seek(target)?;
            self.deferred &= !(1 << number);
            if source.valid() && key::user_key(source.key()) == key::user_key(target) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Seeks all deferred sources (sources that are not positioned yet) to `target`.
    fn seek_deferred(&mut self, target: &[u8]) -> Result<()> {
        while self.deferred > 0 {
            let number = self.deferred.trailing_zeros() as usize;
            self.sources[number].seek(target)?;
            self.deferred &= self.deferred - 1;
        }
        Ok(())
    }

    /// Seeks each deferred source (each source that is not positioned yet) to its first entry at or
    /// after the current entry.
    #[inline(never)]
    fn position_deferred(&mut self) -> Result<()> {
        let key = self.key().to_vec();
        self.queue.clear(); // after an error the iterator must not be positioned
        self.seek_deferred(&key)?;
        self.rebuild_queue();
        Ok(())
    }

    /// Fills the queue with the sources that are positioned and at an entry, in the order of their
    /// current entries.
    fn rebuild_queue(&mut self) {
        self.queue.clear();
        self.run_free = false;
        for (number, source) in self.sources.iter().enumerate() {
            // A merge of more than 64 sources never defers a source, because the field `deferred`
            // has 64 bits.
            let is_deferred = self.deferred.checked_shr(number as u32).is_some_and(|bits| bits & 1 == 1);
            if !is_deferred && source.valid() {
                let place = self.queue.partition_point(|&other| !self.precedes(source.key(), number, other));
                self.queue.insert(place, number);
            }
        }
        self.update_run_free();
    }

    /// Restores the order of the queue after source `at`, the head of the queue, has moved beyond
    /// its decoded entries. `moved` is the result of this move. Removes the source from the queue
    /// if it has no further entry. If `moved` is an error, empties the queue. Returns `moved`.
    fn enqueue(&mut self, at: usize, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.queue.clear();
        } else if self.sources[at].valid() {
            self.requeue(at);
            self.update_run_free();
        } else {
            self.queue.remove(0);
            self.run_free = false;
        }
        moved
    }

    /// Restores the order of the queue after source `first`, the head of the queue, has moved.
    #[inline]
    fn requeue(&mut self, first: usize) {
        if let Some(&second) = self.queue.get(1)
            && !self.precedes(self.sources[first].key(), first, second)
        {
            let rest = &self.queue[2..];
            match rest.partition_point(|&other| !self.precedes(self.sources[first].key(), first, other)) {
                0 => self.queue.swap(0, 1),
                skipped => self.queue[..2 + skipped].rotate_left(1),
            }
            self.run_free = false;
        }
    }

    /// Sets `run_free` to whether all further decoded entries of the current source precede the
    /// entry of the second source.
    fn update_run_free(&mut self) {
        let Some(&first) = self.queue.first().filter(|_| self.deferred == 0) else { return };
        let second = self.queue.get(1).copied();
        let precedes = |key| second.is_none_or(|second| self.precedes(key, first, second));
        self.run_free = self.sources[first].farthest(self.direction).is_some_and(precedes);
    }

    /// Returns whether `key`, a key of source `a`, precedes the current entry of source `b` in the
    /// direction of iteration.
    #[inline(always)] // part of every move
    fn precedes(&self, key: &[u8], a: usize, b: usize) -> bool {
        let order = self.order.internal(key, self.sources[b].key()).then(a.cmp(&b));
        order == if self.direction == Direction::Forward { Ordering::Less } else { Ordering::Greater }
    }
}
