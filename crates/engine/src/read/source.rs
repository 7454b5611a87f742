//! The sorted sources of a merging iterator: memtables and runs.
use super::run::RunCursor;
use crate::{Error, Result, mem::MemCursor};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};
use terrace_format::key;

/// A direction of iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// A sorted source of a merging iterator.
#[expect(clippy::large_enum_variant, reason = "boxing would add an indirection per key")]
pub enum Source {
    /// A memtable.
    Mem(MemCursor),
    /// A run of SSTables.
    Run(RunCursor),
}

/// Calls the method of the same name on the cursor of a source. Methods of memtable cursors cannot
/// fail.
macro_rules! dispatch {
    ($source:expr, $cursor:ident => $mem:expr, $run:expr) => {
        match $source {
            Source::Mem($cursor) => $mem,
            Source::Run($cursor) => $run,
        }
    };
}

impl Source {
    #[inline]
    pub fn valid(&self) -> bool {
        dispatch!(self, c => c.valid(), c.valid())
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        dispatch!(self, c => c.key(), c.entries().key())
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        dispatch!(self, c => c.value(), c.entries().value())
    }

    /// Returns whether the source may have an entry of the user key of `target`, according to
    /// filters and key ranges.
    pub fn may_have(&self, target: &[u8]) -> Result<bool> {
        dispatch!(self, c => Ok(c.may_have(key::user_key(target))), c.may_have(target))
    }

    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        dispatch!(self, c => { c.seek(target); Ok(()) }, c.seek(target))
    }

    pub fn seek_first(&mut self) -> Result<()> {
        dispatch!(self, c => { c.seek_first(); Ok(()) }, c.seek_first())
    }

    pub fn seek_last(&mut self) -> Result<()> {
        dispatch!(self, c => { c.seek_last(); Ok(()) }, c.seek_last())
    }

    /// Returns the corruption error for a seek after which the source is at an entry outside of the
    /// range that it should have reached.
    #[cold]
    pub fn out_of_order(&self) -> Error {
        match self {
            Source::Mem(_) => Error::Bug("a memtable is out of order".into()),
            Source::Run(c) => c.out_of_order(),
        }
    }

    pub fn next(&mut self) -> Result<()> {
        dispatch!(self, c => { c.next(); Ok(()) }, c.next())
    }

    pub fn prev(&mut self) -> Result<()> {
        dispatch!(self, c => { c.prev(); Ok(()) }, c.prev())
    }

    /// Moves the source to its next entry if that entry is already decoded. Otherwise the source
    /// does not move, and the method returns false.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        match self {
            Source::Mem(_) => false,
            Source::Run(c) => c.entries_mut().step_forward(),
        }
    }

    /// Moves the source to its previous entry if that entry is already decoded. Otherwise the
    /// source does not move, and the method returns false.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        match self {
            Source::Mem(_) => false,
            Source::Run(c) => c.entries_mut().step_back(),
        }
    }

    /// Returns the last key, in `direction`, among the entries of the source that are already
    /// decoded; `None` for a memtable.
    pub fn farthest(&self, direction: Direction) -> Option<&[u8]> {
        let Source::Run(c) = self else { return None };
        let [first, last] = c.entries().decoded().bounds();
        Some(if direction == Direction::Forward { last } else { first })
    }
}

/// The list of sources of a merging iterator. When the list is dropped, the thread keeps its
/// memory for its next list. The reason: a cursor often seeks only once, and an allocation of two
/// kilobytes is a notable part of the cost of one seek.
pub struct Sources(Vec<Source>);

/// A thread keeps the memory of a list with at most this many sources (18 KiB).
const SCRATCH_MAX: usize = 64;

thread_local! {
    /// The memory that this thread keeps for its next list of sources.
    static SCRATCH: Cell<Vec<Source>> = const { Cell::new(Vec::new()) };
}

impl Sources {
    /// Makes an empty list. Reuses the memory of the thread's previous list.
    #[inline]
    pub fn new() -> Sources {
        Sources(SCRATCH.try_with(Cell::take).unwrap_or_default()) // unset while the thread exits
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.0.clear();
        if self.0.capacity() <= SCRATCH_MAX {
            // If a thread has two lists of sources at the same time, it keeps only the memory of
            // the list that is dropped last.
            let _ = SCRATCH.try_with(|scratch| scratch.set(std::mem::take(&mut self.0)));
        }
    }
}

impl Deref for Sources {
    type Target = Vec<Source>;

    #[inline]
    fn deref(&self) -> &Vec<Source> {
        &self.0
    }
}

impl DerefMut for Sources {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<Source> {
        &mut self.0
    }
}
