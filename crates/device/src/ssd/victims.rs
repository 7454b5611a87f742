//! Victim selection for the garbage collection of a virtual SSD: chooses the superblock whose
//! valid pages are relocated before it is erased.

use super::chance::Chance;
use super::pool::{Pool, State, Superblock};
use super::profile::{Collection, Geometry};

const NONE: u32 = u32::MAX;

/// The closed superblocks of a drive, from which garbage collection selects its victims. With the
/// policies greedy and FIFO, they are in queues, and a victim is selected in constant time. The
/// other policies examine superblocks for each selection.
#[derive(Clone)]
pub(super) struct Victims {
    collection: Collection,
    slots: u32,
    queues: Queues,
    /// Index of the first queue that may contain a superblock; all earlier queues are empty. With
    /// the policy greedy, a queue's index is the count of valid slots that its superblocks have.
    first: usize,
    chance: Chance,
}

impl Victims {
    /// Returns an empty set, without closed superblocks.
    pub fn new(collection: Collection, geometry: &Geometry, chance: Chance) -> Victims {
        let queues = match collection {
            Collection::Greedy => geometry.slots_per_superblock + 1,
            Collection::Fifo => 1,
            Collection::CostBenefit | Collection::Choices(_) => 0,
        };
        Victims {
            collection,
            slots: geometry.slots_per_superblock,
            queues: Queues::new(queues, geometry.superblocks),
            first: 0,
            chance,
        }
    }

    fn queue(&self, valid: u32) -> Option<usize> {
        match self.collection {
            Collection::Greedy => Some(valid as usize),
            Collection::Fifo => Some(0),
            Collection::CostBenefit | Collection::Choices(_) => None,
        }
    }

    /// Adds a closed superblock.
    pub fn insert(&mut self, number: u32, valid: u32) {
        if let Some(queue) = self.queue(valid) {
            self.queues.push(queue, number);
            self.first = self.first.min(queue);
        }
    }

    /// Removes a closed superblock.
    pub fn remove(&mut self, number: u32, valid: u32) {
        if let Some(queue) = self.queue(valid) {
            self.queues.remove(queue, number);
        }
    }

    /// Records that a closed superblock lost valid pages.
    #[inline]
    pub fn lost(&mut self, number: u32, before: u32, after: u32) {
        if self.collection == Collection::Greedy {
            self.remove(number, before);
            self.insert(number, after);
        }
    }

    /// Selects the next victim, or returns `None` if no superblock is closed. `now` is the time in
    /// host writes.
    pub fn choose(&mut self, pool: &Pool, now: u64) -> Option<u32> {
        match self.collection {
            Collection::Greedy | Collection::Fifo => {
                self.first += self.queues.heads.get(self.first..)?.iter().position(|head| *head != NONE)?;
                Some(self.queues.heads[self.first])
            }
            Collection::CostBenefit => self.oldest_garbage(pool, now),
            Collection::Choices(count) => self.best_of(count, pool),
        }
    }

    fn oldest_garbage(&self, pool: &Pool, now: u64) -> Option<u32> {
        let score = |block: &Superblock| {
            let valid = f64::from(block.valid) / f64::from(self.slots);
            (1.0 - valid) / (2.0 * valid) * (now - block.changed_at + 1) as f64
        };
        let scored = closed(pool).map(|(number, block)| (number, score(block)));
        let best = scored.reduce(|best, other| if other.1 > best.1 { other } else { best });
        best.map(|(number, _)| number)
    }

    /// Draws random superblocks until `count` of the drawn ones are closed, and returns the one of
    /// these with the fewest valid slots. Gives up after many draws if few superblocks are closed.
    /// If the drawn superblocks have only valid pages, collecting one would gain no space; then all
    /// closed superblocks are examined.
    fn best_of(&mut self, count: u8, pool: &Pool) -> Option<u32> {
        let blocks = pool.all().len() as u32;
        let (mut best, mut drawn, mut tries) = (None, 0, 0);
        while drawn < count && tries < 16 * u32::from(count) {
            tries += 1;
            let number = self.chance.below(blocks);
            let block = pool.get(number);
            if block.state == State::Closed {
                drawn += 1;
                best = best.into_iter().chain([(block.valid, number)]).min();
            }
        }
        let best = best.filter(|(valid, _)| *valid < self.slots);
        best.or_else(|| closed(pool).map(|(number, block)| (block.valid, number)).min()).map(|(_, number)| number)
    }

    /// Returns the queued superblocks in queue order, each with its queue.
    pub fn queued(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (0..self.queues.heads.len()).flat_map(|queue| self.queues.members(queue).map(move |member| (queue, member)))
    }

    /// Verifies that the queues contain exactly the closed superblocks.
    pub fn check(&self, pool: &Pool) -> Result<(), String> {
        let mut queue_of = vec![None; pool.all().len()];
        for (queue, number) in self.queued() {
            if queue < self.first || queue_of[number as usize].replace(queue).is_some() {
                return Err(format!("superblock {number} is queued twice or out of reach"));
            }
        }
        for (number, block) in (0..).zip(pool.all()) {
            let queue = self.queue(block.valid).filter(|_| block.state == State::Closed);
            if queue != queue_of[number as usize] {
                return Err(format!(
                    "superblock {number} is in queue {:?} instead of {queue:?}",
                    queue_of[number as usize]
                ));
            }
        }
        Ok(())
    }

    /// Returns the generator that makes the future random choices.
    pub fn chance(&self) -> &Chance {
        &self.chance
    }
}

fn closed(pool: &Pool) -> impl Iterator<Item = (u32, &Superblock)> {
    (0..).zip(pool.all()).filter(|(_, block)| block.state == State::Closed)
}

/// Doubly linked queues of superblocks, with one table for the links of all queues. Insertion and
/// removal take constant time and allocate nothing.
#[derive(Clone)]
struct Queues {
    heads: Vec<u32>,
    tails: Vec<u32>,
    /// Predecessor and successor of each superblock in its queue.
    links: Vec<(u32, u32)>,
}

impl Queues {
    fn new(queues: u32, members: u32) -> Queues {
        let (queues, members) = (queues as usize, members as usize);
        Queues { heads: vec![NONE; queues], tails: vec![NONE; queues], links: vec![(NONE, NONE); members] }
    }

    fn push(&mut self, queue: usize, member: u32) {
        let last = std::mem::replace(&mut self.tails[queue], member);
        self.links[member as usize] = (last, NONE);
        match self.links.get_mut(last as usize) {
            Some(last) => last.1 = member,
            None => self.heads[queue] = member,
        }
    }

    fn remove(&mut self, queue: usize, member: u32) {
        let (before, after) = self.links[member as usize];
        match self.links.get_mut(before as usize) {
            Some(before) => before.1 = after,
            None => self.heads[queue] = after,
        }
        match self.links.get_mut(after as usize) {
            Some(after) => after.0 = before,
            None => self.tails[queue] = before,
        }
    }

    fn members(&self, queue: usize) -> impl Iterator<Item = u32> + '_ {
        let link = |member: u32| self.links.get(member as usize).map(|_| member);
        std::iter::successors(link(self.heads[queue]), move |member| link(self.links[*member as usize].1))
    }
}
