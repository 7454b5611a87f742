//! Many sorted sources walked as one, in internal-key order, forward and backward.
//!
//! The sources that stand on an entry queue up in the order of their entries. A step moves the first one; where it still
//! comes before the second, as it mostly does, that one comparison is all, and there is none for entries that lie decoded
//! before the second source's. Where two sources hold the same internal key the
//! earlier source comes first; both entries are then the same write.
//!
//! Each source moves strictly in the direction of the walk, so that every walk ends: memtables by themselves, tables because their
//! cursors report a key that does not follow the one before it, and where a source jumps, what it jumped to is compared here.
//!
//! Who looks for a key and finds it needs no other source until the walk goes on: [`Merge::find`] asks filters first, and leaves the
//! sources that it can do without where they are. A seek to a key that is there then costs little more than a point read.
use super::source::{Direction, Source, Sources};
use crate::Result;
use std::cmp::Ordering;
use terrace_format::{
    KeyOrder,
    key::{self, Parsed},
};
use terrace_storage::placement::{EntryRef, Origin, WholeBlock};

/// All sources as one. After an error it stands nowhere until the next seek.
pub struct Merge {
    order: KeyOrder,
    sources: Sources,
    /// Numbers of the sources that stand on an entry, the current one first, then as they come in `direction`.
    queue: Vec<usize>,
    direction: Direction,
    /// All that the current source has decoded, in `direction`, comes before the second source's entry.
    clear: bool,
    /// Sources, by bits, that are not placed yet: what they have at or after the current key comes after the current entry, or is newer
    /// than what was looked for. Only walking forward.
    deferred: u64,
}

impl Merge {
    /// Stands nowhere yet.
    #[inline]
    pub fn new(order: KeyOrder, sources: Sources) -> Merge {
        let queue = Vec::with_capacity(sources.len());
        Merge { order, sources, queue, direction: Direction::Forward, clear: false, deferred: 0 }
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.queue.is_empty()
    }

    /// To the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.place(Direction::Forward, |_, source| source.seek(target))
    }

    /// To the first entry at or after `target`, which is what a reader looks for: its user key at its sequence. Earlier sources must have what
    /// is newer. If one has the key, others are not placed until the walk goes on.
    pub fn find(&mut self, target: &[u8]) -> Result<()> {
        // What an order takes for the same key, a filter may not.
        if self.sources.len() > u64::BITS as usize || !self.order.is_bytewise() {
            return self.seek(target);
        }
        self.queue.clear();
        self.direction = Direction::Forward;
        self.deferred = u64::MAX.checked_shl(self.sources.len() as u32).map_or(u64::MAX, |none| !none);
        if !self.ask_each(target)? {
            self.catch_up(target)?;
        }
        self.line_up();
        Ok(())
    }

    /// Whether every source is placed.
    pub fn is_whole(&self) -> bool {
        self.deferred == 0
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.place(Direction::Forward, |_, source| source.seek_first())
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.place(Direction::Backward, |_, source| source.seek_last())
    }

    /// One forward. Must stand on an entry.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            return self.turn_forward();
        }
        if self.deferred > 0 {
            self.place_deferred()?;
        }
        let at = self.at();
        if self.sources[at].step_forward() {
            if !self.clear {
                self.requeue(at);
            }
            return Ok(());
        }
        let moved = self.sources[at].next();
        self.enqueue(at, moved)
    }

    /// One back. Must stand on an entry.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            return self.turn_backward();
        }
        let at = self.at();
        if self.sources[at].step_back() {
            if !self.clear {
                self.requeue(at);
            }
            return Ok(());
        }
        let moved = self.sources[at].prev();
        self.enqueue(at, moved)
    }

    /// The number of the source whose entry it stands on. Must stand on an entry.
    #[inline]
    pub fn source(&self) -> usize {
        self.at()
    }

    /// Moves the source whose entry it stands on to its first entry at or after `target`, which lies ahead of a forward walk;
    /// then stands on the first entry of all sources.
    pub fn skip_to(&mut self, target: &[u8]) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Forward);
        if self.deferred > 0 {
            self.place_deferred()?;
        }
        let at = self.at();
        let source = &mut self.sources[at];
        let order = &self.order;
        let behind = |source: &Source| source.valid() && order.internal(source.key(), target).is_lt();
        let moved = source.seek(target).and_then(|()| if behind(source) { Err(source.out_of_order()) } else { Ok(()) });
        self.clear = false;
        self.enqueue(at, moved)
    }

    /// Moves the source whose entry it stands on to its last entry before `target`, which lies ahead of a backward walk;
    /// then stands on the last entry of all sources.
    pub fn skip_before(&mut self, target: &[u8]) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Backward);
        let at = self.at();
        let source = &mut self.sources[at];
        let order = &self.order;
        let ahead = |source: &Source| source.valid() && order.internal(source.key(), target).is_ge();
        let moved = source
            .seek(target)
            .and_then(|()| if source.valid() { source.prev() } else { source.seek_last() })
            .and_then(|()| if ahead(source) { Err(source.out_of_order()) } else { Ok(()) });
        self.clear = false;
        self.enqueue(at, moved)
    }

    /// The internal key. Must stand on an entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.sources[self.at()].key()
    }

    /// The internal key taken apart. Must stand on an entry.
    #[inline]
    pub fn parsed(&self) -> Parsed<'_> {
        key::apart(self.key())
    }

    /// The value. Must stand on an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.sources[self.at()].value()
    }

    /// The internal key and the value. Must stand on an entry.
    #[inline]
    pub fn pair(&self) -> (&[u8], &[u8]) {
        match &self.sources[self.at()] {
            Source::Mem(c) => (c.key(), c.value()),
            Source::Run(c) => (c.entries().key(), c.entries().value()),
        }
    }

    /// The internal key; and its bytes and those of the value, or of what stands in its place. Must stand on an entry.
    #[inline]
    pub fn sized_key(&self) -> (&[u8], usize) {
        match &self.sources[self.at()] {
            Source::Mem(c) => (c.key(), c.key().len() + c.value().len()),
            Source::Run(c) => (c.entries().key(), c.entries().entry_bytes()),
        }
    }

    /// Has the value at hand, wherever it lies. Must stand on an entry.
    pub fn fetch(&mut self) -> Result<()> {
        let at = self.at();
        match &mut self.sources[at] {
            Source::Mem(_) => Ok(()),
            Source::Run(c) => Ok(c.entries_mut().fetch()?),
        }
    }

    /// The entry, for `TableSink::keep`. Must stand on an entry.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        match &self.sources[self.at()] {
            Source::Mem(c) => EntryRef { key: c.key(), stored: c.value(), origin: Origin::Memory },
            Source::Run(c) => c.entries().entry(),
        }
    }

    /// Whether it has just come to a block, walking forward, among whose entries no other source has anything.
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

    /// That block, if it can be had as it is.
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

    /// To the first entry behind that block.
    pub fn skip_block(&mut self) -> Result<()> {
        let at = self.at();
        let Source::Run(c) = &mut self.sources[at] else { unreachable!("memtables have no blocks") };
        let moved = c.skip_block();
        self.enqueue(at, moved)
    }

    /// One forward if the next entry is at hand, surely of another user key, and `wanted`; else it stays and the answer is
    /// false.
    #[inline]
    pub fn next_apart(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let at = self.at();
        match &mut self.sources[at] {
            Source::Run(c) if self.clear && self.direction == Direction::Forward && self.order.is_bytewise() => {
                c.entries_mut().next_apart(wanted)
            }
            _ => false,
        }
    }

    /// Whether the entry before is at hand and surely of another user key.
    #[inline]
    pub fn apart_from_prev(&self) -> bool {
        match &self.sources[self.at()] {
            Source::Run(c) if self.clear && self.direction == Direction::Backward && self.order.is_bytewise() => {
                c.entries().decoded().apart_from_prev()
            }
            _ => false,
        }
    }

    /// Whether it was walked backward last.
    #[inline]
    pub fn is_backward(&self) -> bool {
        self.direction == Direction::Backward
    }

    #[inline]
    fn at(&self) -> usize {
        *self.queue.first().expect("the merge stands on an entry")
    }

    /// From an entry of a backward walk to the one after it.
    fn turn_forward(&mut self) -> Result<()> {
        let (at, key, order) = (self.at(), self.key().to_vec(), self.order.clone());
        self.place(Direction::Forward, |number, source| {
            if number == at {
                return source.next();
            }
            source.seek(&key)?;
            if source.valid() && order.internal(source.key(), &key).is_eq() { source.next() } else { Ok(()) }
        })
    }

    /// From an entry of a forward walk to the one before it.
    fn turn_backward(&mut self) -> Result<()> {
        let (at, key) = (self.at(), self.key().to_vec());
        self.place(Direction::Backward, |number, source| {
            if number == at {
                return source.prev();
            }
            source.seek(&key)?;
            if source.valid() { source.prev() } else { source.seek_last() }
        })
    }

    /// Moves every source by `step`, and queues those that then stand on an entry.
    fn place(&mut self, direction: Direction, mut step: impl FnMut(usize, &mut Source) -> Result<()>) -> Result<()> {
        self.queue.clear();
        self.direction = direction;
        self.deferred = 0;
        for (number, source) in self.sources.iter_mut().enumerate() {
            step(number, source)?;
        }
        self.line_up();
        Ok(())
    }

    /// Places one source after the other that may have `target`'s user key, until one has; tells whether one has. The last is
    /// placed in any case, as all are if it does not have the key.
    fn ask_each(&mut self, target: &[u8]) -> Result<bool> {
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

    /// Places the deferred sources.
    fn catch_up(&mut self, target: &[u8]) -> Result<()> {
        while self.deferred > 0 {
            let number = self.deferred.trailing_zeros() as usize;
            self.sources[number].seek(target)?;
            self.deferred &= self.deferred - 1;
        }
        Ok(())
    }

    /// Places the deferred sources behind the current entry.
    #[inline(never)]
    fn place_deferred(&mut self) -> Result<()> {
        let key = self.key().to_vec();
        self.queue.clear(); // an error must leave it nowhere
        self.catch_up(&key)?;
        self.line_up();
        Ok(())
    }

    /// Queues the placed sources that stand on an entry.
    fn line_up(&mut self) {
        self.queue.clear();
        self.clear = false;
        for (number, source) in self.sources.iter().enumerate() {
            // No bit is set where there are more sources than bits.
            let is_deferred = self.deferred.checked_shr(number as u32).is_some_and(|bits| bits & 1 == 1);
            if !is_deferred && source.valid() {
                let place = self.queue.partition_point(|&other| !self.precedes(source.key(), number, other));
                self.queue.insert(place, number);
            }
        }
        self.look_ahead();
    }

    /// Source `at`, which heads the queue, has moved to what it had not decoded.
    fn enqueue(&mut self, at: usize, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.queue.clear();
        } else if self.sources[at].valid() {
            self.requeue(at);
            self.look_ahead();
        } else {
            self.queue.remove(0);
            self.clear = false;
        }
        moved
    }

    /// Source `first`, which heads the queue, has moved to another entry.
    #[inline]
    fn requeue(&mut self, first: usize) {
        if let Some(&second) = self.queue.get(1)
            && !self.precedes(self.sources[first].key(), first, second)
        {
            let rest = &self.queue[2..];
            match rest.partition_point(|&other| !self.precedes(self.sources[first].key(), first, other)) {
                0 => self.queue.swap(0, 1),
                passed => self.queue[..2 + passed].rotate_left(1),
            }
            self.clear = false;
        }
    }

    /// Finds out whether the current source may walk through all that it has decoded.
    fn look_ahead(&mut self) {
        let Some(&first) = self.queue.first().filter(|_| self.deferred == 0) else { return };
        let second = self.queue.get(1).copied();
        let precedes = |key| second.is_none_or(|second| self.precedes(key, first, second));
        self.clear = self.sources[first].farthest(self.direction).is_some_and(precedes);
    }

    /// Whether `key`, of source `a`, comes before the entry of source `b`, in the direction of the walk.
    #[inline(always)] // into what is done for each entry
    fn precedes(&self, key: &[u8], a: usize, b: usize) -> bool {
        let order = self.order.internal(key, self.sources[b].key()).then(a.cmp(&b));
        order == if self.direction == Direction::Forward { Ordering::Less } else { Ordering::Greater }
    }
}
