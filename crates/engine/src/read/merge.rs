//! Many sorted sources walked as one, in internal-key order, forward and backward.
//!
//! Linear choice of the next source: there are few (memtables, level-0 runs, one run per deeper level). Where two
//! sources hold the same internal key the earlier one wins; both entries are then the same write.
use super::run::RunCursor;
use crate::{Result, mem::MemCursor};
use terrace_format::{
    KeyOrder,
    key::{self, Parsed},
};
use terrace_storage::{
    Error as StorageError,
    placement::{EntryRef, Origin},
};

/// One sorted source.
pub enum Source {
    /// A memtable.
    Mem(MemCursor),
    /// A run of tables.
    Run(RunCursor),
}

/// Calls the same method on whichever cursor a source has; memtables cannot fail.
macro_rules! each {
    ($source:expr, $cursor:ident => $mem:expr, $run:expr) => {
        match $source {
            Source::Mem($cursor) => $mem,
            Source::Run($cursor) => $run,
        }
    };
}

impl Source {
    fn valid(&self) -> bool {
        each!(self, c => c.valid(), c.valid())
    }

    fn key(&self) -> &[u8] {
        each!(self, c => c.key(), c.key())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        each!(self, c => { c.seek(target); Ok(()) }, c.seek(target))
    }

    fn seek_first(&mut self) -> Result<()> {
        each!(self, c => { c.seek_first(); Ok(()) }, c.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        each!(self, c => { c.seek_last(); Ok(()) }, c.seek_last())
    }

    fn next(&mut self) -> Result<()> {
        each!(self, c => { c.next(); Ok(()) }, c.next())
    }

    fn prev(&mut self) -> Result<()> {
        each!(self, c => { c.prev(); Ok(()) }, c.prev())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// All sources as one. After an error it stands nowhere until the next seek.
pub struct Merge {
    order: KeyOrder,
    sources: Vec<Source>,
    current: Option<usize>,
    direction: Direction,
}

impl Merge {
    /// Stands nowhere yet.
    pub fn new(order: KeyOrder, sources: Vec<Source>) -> Merge {
        Merge { order, sources, current: None, direction: Direction::Forward }
    }

    /// Whether it stands on an entry.
    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    /// To the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.all(Direction::Forward, |source| source.seek(target))
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.all(Direction::Forward, Source::seek_first)
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.all(Direction::Backward, Source::seek_last)
    }

    /// One forward.
    pub fn next(&mut self) -> Result<()> {
        let at = self.current.take().expect("the merge stands on an entry");
        if self.direction == Direction::Backward {
            self.turn(at, |source, key, order| {
                source.seek(key)?;
                if source.valid() && order.internal(source.key(), key).is_eq() {
                    source.next()?;
                }
                Ok(())
            })?;
            self.direction = Direction::Forward;
        }
        self.sources[at].next()?;
        self.choose();
        Ok(())
    }

    /// One back.
    pub fn prev(&mut self) -> Result<()> {
        let at = self.current.take().expect("the merge stands on an entry");
        if self.direction == Direction::Forward {
            self.turn(at, |source, key, _| {
                source.seek(key)?;
                if source.valid() { source.prev() } else { source.seek_last() }
            })?;
            self.direction = Direction::Backward;
        }
        self.sources[at].prev()?;
        self.choose();
        Ok(())
    }

    /// The internal key.
    pub fn key(&self) -> &[u8] {
        self.sources[self.at()].key()
    }

    /// The internal key taken apart; the error names the table that holds it.
    pub fn parsed(&self) -> Result<Parsed<'_>> {
        let entry = self.entry();
        key::parse(entry.key).map_err(|found| {
            let object = match entry.origin {
                Origin::Memory => "a memtable".to_string(),
                Origin::Table(id) => format!("table {id}"),
            };
            StorageError::corrupt(object, 0, found).into()
        })
    }

    /// The value.
    pub fn value(&mut self) -> Result<&[u8]> {
        let at = self.at();
        each!(&mut self.sources[at], c => Ok(c.value()), c.value())
    }

    /// The entry, for `Build::keep`.
    pub fn entry(&self) -> EntryRef<'_> {
        match &self.sources[self.at()] {
            Source::Mem(c) => EntryRef { key: c.key(), stored: c.value(), origin: Origin::Memory },
            Source::Run(c) => c.entry(),
        }
    }

    fn at(&self) -> usize {
        self.current.expect("the merge stands on an entry")
    }

    fn all(&mut self, direction: Direction, mut place: impl FnMut(&mut Source) -> Result<()>) -> Result<()> {
        self.current = None;
        self.direction = direction;
        self.sources.iter_mut().try_for_each(&mut place)?;
        self.choose();
        Ok(())
    }

    /// Puts every other source on the far side of source `at`'s key.
    fn turn(&mut self, at: usize, place: impl Fn(&mut Source, &[u8], &KeyOrder) -> Result<()>) -> Result<()> {
        let key = self.sources[at].key().to_vec();
        for (_, source) in self.sources.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            place(source, &key, &self.order)?;
        }
        Ok(())
    }

    fn choose(&mut self) {
        let mut best: Option<usize> = None;
        for (at, source) in self.sources.iter().enumerate().filter(|(_, source)| source.valid()) {
            let better = best.is_none_or(|b| {
                let order = self.order.internal(source.key(), self.sources[b].key());
                if self.direction == Direction::Forward { order.is_lt() } else { order.is_ge() }
            });
            if better {
                best = Some(at);
            }
        }
        self.current = best;
    }
}
