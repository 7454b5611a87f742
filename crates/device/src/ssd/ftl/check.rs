//! Checks the consistency of the tables and counters of a virtual SSD. A check is possible between
//! any two commands.
use super::super::counts::{Cause, Counts};
use super::super::pool::State;
use super::Ftl;

impl Ftl {
    /// Verifies that all tables agree. Also verifies that the number of bytes programmed equals the
    /// bytes that are in superblocks now plus the bytes of all superblocks that were erased before.
    ///
    /// # Errors
    /// Describes the inconsistency.
    pub fn check(&self) -> std::result::Result<(), String> {
        let slots = self.geometry.slots_per_superblock;
        let mut is_free = vec![false; self.pool.all().len()];
        self.pool.free_numbers().for_each(|number| is_free[number as usize] = true);
        for (number, block) in (0..).zip(self.pool.all()) {
            let is_free = is_free[number as usize];
            let mut valid = 0;
            for slot in number * slots..(number + 1) * slots {
                let Some(page) = self.map.page_at(slot) else { continue };
                if self.map.slot_of(page) != Some(slot) {
                    return Err(format!("slot {slot} holds page {page}, which is at {:?}", self.map.slot_of(page)));
                }
                valid += self.map.slots_at(slot);
            }
            let is_known = block.stream < self.profile.streams && block.changed_at <= self.now;
            if valid != block.valid || valid > block.written || block.written > slots || !is_known {
                return Err(format!("superblock {number} holds {valid} valid slots and is {block:?}"));
            }
            let is_open = self.open.contains(&Some(number));
            let is_state = match block.state {
                State::Free => is_free && !is_open && block.written == 0,
                State::Open => !is_free && is_open && block.written < slots,
                State::Closed => !is_free && !is_open && block.written == slots,
            };
            if !is_state {
                return Err(format!("superblock {number} is {block:?}, open: {is_open}"));
            }
        }
        let opened = self.pool.all().iter().filter(|block| block.state == State::Open).count();
        if opened != self.open.iter().flatten().count() || self.pool.free() < self.profile.reserved_superblocks {
            return Err(format!("{opened} superblocks are open for {:?}, {} are free", self.open, self.pool.free()));
        }
        self.victims.check(&self.pool)?;
        self.check_counts()
    }

    /// Verifies that no counter is so large that it may soon overflow.
    pub(super) fn check_room_to_grow(&self) -> std::result::Result<(), String> {
        let Counts { host_bytes, read_bytes, trimmed_bytes, flushes, erases, .. } = self.counts;
        let time = self.simulated_time().map_or(0, |time| time.as_nanos() as u64);
        let counts = [host_bytes, read_bytes, trimmed_bytes, flushes, erases, self.now, time];
        let nand = Cause::ALL.map(|cause| self.counts.nand(cause));
        let wears_out = self.erases().any(|erases| erases > u32::MAX / 2);
        match counts.iter().chain(&nand).find(|count| **count > u64::MAX / 16) {
            Some(count) => Err(format!("it counts {count}, which no drive reaches")),
            None if wears_out => Err("a superblock has an impossible erase count".into()),
            None => Ok(()),
        }
    }

    /// Verifies the counters. Every superblock was programmed completely before it was erased. The
    /// erase counts and the present fill therefore determine the total of programmed bytes.
    fn check_counts(&self) -> std::result::Result<(), String> {
        let slots = u64::from(self.geometry.slots_per_superblock);
        let programmed: u64 =
            self.pool.all().iter().map(|block| u64::from(block.erases) * slots + u64::from(block.written)).sum();
        let total = programmed * u64::from(self.geometry.slot_bytes);
        if total != self.counts.nand_bytes() {
            return Err(format!("{total} bytes were programmed, {} are counted", self.counts.nand_bytes()));
        }
        let mapped = (0..self.map.pages()).filter(|page| self.map.slot_of(*page).is_some()).count();
        let begun = (0..self.pool.all().len() as u32 * self.geometry.slots_per_superblock)
            .filter(|slot| self.map.page_at(*slot).is_some())
            .count();
        if mapped != begun {
            return Err(format!("{mapped} pages are mapped, {begun} lie in flash"));
        }
        let erases: u64 = self.erases().map(u64::from).sum();
        if erases != self.counts.erases {
            return Err(format!("superblocks were erased {erases} times, {} are counted", self.counts.erases));
        }
        Ok(())
    }
}
