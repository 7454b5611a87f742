//! The superblocks of a drive: how full each one is, its valid slots, its wear, and the list of
//! free superblocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::profile::Geometry;

/// State of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Erased and unused.
    Free,
    /// Being written by a frontier.
    Open,
    /// Full, or padded until full.
    Closed,
}

/// A superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub state: State,
    /// Stream of the frontier (write position) that opened the superblock.
    pub stream: u8,
    /// Number of slots programmed since the superblock was erased.
    pub written: u32,
    /// Slots with valid pages.
    pub valid: u32,
    /// Erase count.
    pub erases: u32,
    /// The number of host writes that the drive had received when the superblock's valid pages last
    /// changed.
    pub changed_at: u64,
}

/// All superblocks. The free ones are also in a queue, ordered by erase count and then by number.
#[derive(Clone)]
pub(super) struct Pool {
    all: Vec<Superblock>,
    free: BinaryHeap<Reverse<(u32, u32)>>,
    most_erases: u32,
}

impl Pool {
    /// Returns a pool of unused, erased superblocks.
    pub fn new(geometry: &Geometry) -> Pool {
        let fresh = Superblock { state: State::Free, stream: 0, written: 0, valid: 0, erases: 0, changed_at: 0 };
        Pool::of(vec![fresh; geometry.superblocks as usize])
    }

    /// Returns a pool with the given superblocks.
    pub fn of(all: Vec<Superblock>) -> Pool {
        let mut free = BinaryHeap::with_capacity(all.len());
        let numbered = (0..).zip(&all).filter(|(_, block)| block.state == State::Free);
        free.extend(numbered.map(|(number, block)| Reverse((block.erases, number))));
        let most_erases = all.iter().map(|block| block.erases).max().unwrap_or(0);
        Pool { all, free, most_erases }
    }

    pub fn get(&self, number: u32) -> &Superblock {
        &self.all[number as usize]
    }

    pub fn get_mut(&mut self, number: u32) -> &mut Superblock {
        &mut self.all[number as usize]
    }

    /// Returns all superblocks by number.
    pub fn all(&self) -> &[Superblock] {
        &self.all
    }

    /// Returns the number of free superblocks.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the free superblocks.
    pub fn free_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.free.iter().map(|Reverse((_, number))| *number)
    }

    /// Opens the least worn free superblock for a stream.
    pub fn open(&mut self, stream: u8) -> Option<u32> {
        let Reverse((_, number)) = self.free.pop()?;
        Some(self.opened(number, stream))
    }

    /// Opens the most worn free superblock, for cold data.
    pub fn open_worn(&mut self) -> Option<u32> {
        let Reverse(most) = *self.free.iter().min()?;
        self.free.retain(|Reverse(free)| *free != most);
        Some(self.opened(most.1, 0))
    }

    fn opened(&mut self, number: u32, stream: u8) -> u32 {
        let block = self.get_mut(number);
        (block.state, block.stream) = (State::Open, stream);
        number
    }

    /// Erases a superblock without valid pages.
    pub fn erase(&mut self, number: u32) {
        let block = self.get_mut(number);
        debug_assert_eq!((block.state, block.valid), (State::Closed, 0));
        (block.state, block.written) = (State::Free, 0);
        block.erases += 1;
        let erases = block.erases;
        self.most_erases = self.most_erases.max(erases);
        self.free.push(Reverse((erases, number)));
    }

    /// Returns the least worn closed superblock if its erase count is more than `spread_max` below
    /// that of the most worn superblock.
    pub fn too_little_worn(&self, spread_max: u32) -> Option<u32> {
        let closed = (0..).zip(&self.all).filter(|(_, block)| block.state == State::Closed);
        let (number, least) = closed.min_by_key(|(number, block)| (block.erases, *number))?;
        (self.most_erases - least.erases > spread_max).then_some(number)
    }
}
