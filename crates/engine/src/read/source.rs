//! What a walk merges: memtables and runs, each sorted.
use super::run::RunCursor;
use crate::{Error, Result, mem::MemCursor};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};
use terrace_format::key;

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// One sorted source.
#[expect(clippy::large_enum_variant, reason = "boxed, every key would be one step further away")]
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
    #[inline]
    pub fn valid(&self) -> bool {
        each!(self, c => c.valid(), c.valid())
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        each!(self, c => c.key(), c.entries().key())
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        each!(self, c => c.value(), c.entries().value())
    }

    /// Whether it may have entries of `target`'s user key, as far as that can be told without reading blocks.
    pub fn may_have(&self, target: &[u8]) -> Result<bool> {
        each!(self, c => Ok(c.may_have(key::user_key(target))), c.may_have(target))
    }

    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        each!(self, c => { c.seek(target); Ok(()) }, c.seek(target))
    }

    pub fn seek_first(&mut self) -> Result<()> {
        each!(self, c => { c.seek_first(); Ok(()) }, c.seek_first())
    }

    pub fn seek_last(&mut self) -> Result<()> {
        each!(self, c => { c.seek_last(); Ok(()) }, c.seek_last())
    }

    /// What is wrong where it stands: not where a jump had to lead.
    #[cold]
    pub fn out_of_order(&self) -> Error {
        match self {
            Source::Mem(_) => Error::Bug("a memtable is out of order".into()),
            Source::Run(c) => c.out_of_order(),
        }
    }

    pub fn next(&mut self) -> Result<()> {
        each!(self, c => { c.next(); Ok(()) }, c.next())
    }

    pub fn prev(&mut self) -> Result<()> {
        each!(self, c => { c.prev(); Ok(()) }, c.prev())
    }

    /// One forward among what is decoded.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        match self {
            Source::Mem(_) => false,
            Source::Run(c) => c.entries_mut().step_forward(),
        }
    }

    /// One back among what is decoded.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        match self {
            Source::Mem(_) => false,
            Source::Run(c) => c.entries_mut().step_back(),
        }
    }

    /// The last key that steps among what is decoded may reach.
    pub fn farthest(&self, direction: Direction) -> Option<&[u8]> {
        let Source::Run(c) = self else { return None };
        let [first, last] = c.entries().decoded().bounds();
        Some(if direction == Direction::Forward { last } else { first })
    }
}

/// The sources of a walk. The next walk of the same thread uses their memory again: cursors often seek once, and two kilobytes
/// are more than allocators have at hand without a search.
pub struct Sources(Vec<Source>);

/// Sources whose memory is kept, 18 KiB.
const KEPT_MAX: usize = 64;

thread_local! {
    /// Empty; memory for the next walk.
    static SPARE: Cell<Vec<Source>> = const { Cell::new(Vec::new()) };
}

impl Sources {
    /// None yet, in the memory that the last walk has left.
    #[inline]
    pub fn new() -> Sources {
        Sources(SPARE.try_with(Cell::take).unwrap_or_default()) // none where the thread ends
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.0.clear();
        if self.0.capacity() <= KEPT_MAX {
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0))); // the other, if walks overlap, goes
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
