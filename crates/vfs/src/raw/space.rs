//! Allocates slots, and tracks freed slots until they can be reused.
//!
//! ```text
//! in use ── last name and handle dropped ─▶ freed ── flush ─▶ free, stale ── discard ─▶ free
//! ```
//! A freed slot is reused only after the journal entry that freed it is durable. After a power cut
//! the slot's old file may exist again and must have its bytes.
//!
//! Files of one lifetime class share units. The drive erases a unit as a whole. If all files in a
//! unit are of one class, they become obsolete at about the same time, so the drive has little
//! data to move before the erase.
//!
//! A few slots are not discarded and stay stale on purpose. Discarding a slot that is written
//! again soon has no benefit, and it blocks other users of the block device node for that time.
use super::table::Run;

/// Number of lifetime classes.
pub const STREAMS: usize = 5;

/// The slots of a device.
pub struct Space {
    unit_slots: u32,
    free: Vec<bool>,
    /// For each slot, whether it is stale (free, although the drive still considers it in use), and
    /// the number of stale slots.
    stale: (Vec<bool>, usize),
    /// Number of free slots of the whole device. The next field has the numbers by unit.
    free_now: u64,
    free_in_unit: Vec<u32>,
    /// Number of slots that become free when a running flush or discard ends.
    in_transit: u64,
    /// For each stream (lifetime class of files), the unit from which slots are taken.
    open: [Option<usize>; STREAMS],
    freed: Vec<Run>,
}

impl Space {
    /// Makes the state of a device. All slots without an owner in `owners` are free.
    pub fn new(unit_slots: u32, owners: &[u64]) -> Space {
        let free: Vec<bool> = owners.iter().map(|owner| *owner == 0).collect();
        let count = |slots: &[bool]| slots.iter().filter(|free| **free).count();
        let free_in_unit = free.chunks(unit_slots as usize).map(|unit| count(unit) as u32);
        Space {
            unit_slots,
            free_now: count(&free) as u64,
            free_in_unit: free_in_unit.collect(),
            in_transit: 0,
            stale: (vec![false; free.len()], 0),
            free,
            open: [None; STREAMS],
            freed: Vec::new(),
        }
    }

    /// Returns the number of slots (allocation units of the device) that are free, or will be free
    /// after a flush or a discard.
    pub fn free_slots(&self) -> u64 {
        self.free_now + self.in_transit + slots_in(&self.freed)
    }

    /// Returns the number of slots that are free now.
    pub fn free_now(&self) -> u64 {
        self.free_now
    }

    /// Takes one free slot. Of the following slots it takes the first that exists:
    ///
    /// - the slot after `after`, if its unit then still has slots of only one class;
    /// - a slot of the stream's current unit;
    /// - the first slot of a free unit;
    /// - a slot of the unit with the most free slots.
    pub fn take(&mut self, stream: u8, after: Option<u32>) -> Option<u32> {
        let stream = usize::from(stream) % STREAMS;
        let next = after.and_then(|after| after.checked_add(1)).filter(|next| self.is_next(*next));
        let slot = next.or_else(|| self.of_unit(self.open[stream]?)).or_else(|| {
            let unit = self.best_unit()?;
            self.of_unit(unit)
        })?;
        self.open[stream] = Some(self.unit(slot));
        self.take_out(slot);
        Some(slot)
    }

    fn take_out(&mut self, slot: u32) {
        let (unit, (stale, count)) = (self.unit(slot), &mut self.stale);
        self.free[slot as usize] = false;
        self.free_in_unit[unit] -= 1;
        self.free_now -= 1;
        *count -= usize::from(std::mem::take(&mut stale[slot as usize]));
    }

    /// Frees slots. The journal entry that frees them was written, but it may not be durable yet.
    pub fn release(&mut self, runs: impl IntoIterator<Item = Run>) {
        self.freed.extend(runs);
    }

    /// Returns the freed slots that become reusable if a flush begins now and succeeds. The caller
    /// passes them to [`reuse`](Space::reuse) after the flush.
    pub fn flushing(&mut self) -> Vec<Run> {
        self.in_transit += slots_in(&self.freed);
        std::mem::take(&mut self.freed)
    }

    /// Returns whether a flush would make slots reusable.
    pub fn wants_flush(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Makes slots reusable after a flush. The slots are then free but stale, because the device
    /// has not discarded them yet.
    pub fn reuse(&mut self, runs: &[Run]) {
        self.free(runs);
        self.in_transit -= slots_in(runs);
        let (stale, count) = &mut self.stale;
        for slot in runs.iter().flat_map(|run| run.slots()) {
            stale[slot as usize] = true;
            *count += 1;
        }
    }

    /// Makes slots reusable that the caller has [taken](Space::take_stale) and discarded.
    pub fn discarded(&mut self, runs: &[Run]) {
        self.free(runs);
        self.in_transit -= slots_in(runs);
    }

    /// Makes slots reusable: they are free from now on.
    pub fn free(&mut self, runs: &[Run]) {
        for slot in runs.iter().flat_map(|run| run.slots()) {
            assert!(!self.free[slot as usize], "slot {slot} is freed twice");
            self.free[slot as usize] = true;
            let unit = self.unit(slot);
            self.free_in_unit[unit] += 1;
            self.free_now += 1;
        }
    }

    /// Takes stale slots (free slots that the drive still considers in use) for a discard. The
    /// caller discards them and then calls [`discarded`](Space::discarded). If at most `kept` slots
    /// are stale, the function takes none. Otherwise it takes so many that `kept / 2` stale slots
    /// are left. It takes the highest slot numbers first, because these slots are allocated last.
    pub fn take_stale(&mut self, kept: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let target = if self.stale.1 > kept { kept / 2 } else { self.stale.1 };
        for slot in (0..self.free.len() as u32).rev() {
            if self.stale.1 <= target {
                break;
            }
            if self.stale.0[slot as usize] {
                self.take_out(slot);
                match runs.last_mut() {
                    Some(run) if run.first == slot + 1 => *run = Run { first: slot, count: run.count + 1 },
                    _ => runs.push(Run { first: slot, count: 1 }),
                }
            }
        }
        self.in_transit += slots_in(&runs);
        runs
    }

    /// Checks that each slot has exactly one of four states: it has an owner, it is `held` by an
    /// open file that was removed, it is free, or it is becoming free. Returns the violations.
    pub fn problems(&self, owners: &[u64], held: &[Run]) -> Vec<String> {
        let mut uses: Vec<u32> =
            owners.iter().zip(&self.free).map(|(owner, free)| u32::from(*owner != 0) + u32::from(*free)).collect();
        for slot in self.freed.iter().chain(held).flat_map(|run| run.slots()) {
            uses[slot as usize] += 1;
        }
        let wrong = uses.iter().enumerate().filter(|(_, uses)| **uses != 1);
        wrong.map(|(slot, uses)| format!("slot {slot} is {}", if *uses == 0 { "lost" } else { "used twice" })).collect()
    }

    fn unit(&self, slot: u32) -> usize {
        (slot / self.unit_slots) as usize
    }

    /// Returns whether a file may continue in slot `next`, which must be free. The file may
    /// continue within its unit. It may continue in the next unit only if that unit is entirely
    /// free.
    fn is_next(&self, next: u32) -> bool {
        let free = self.free.get(next as usize).is_some_and(|free| *free);
        free && (!next.is_multiple_of(self.unit_slots) || self.is_whole(self.unit(next)))
    }

    fn is_whole(&self, unit: usize) -> bool {
        let begin = unit * self.unit_slots as usize;
        self.free_in_unit[unit] as usize == (self.unit_slots as usize).min(self.free.len() - begin)
    }

    fn of_unit(&self, unit: usize) -> Option<u32> {
        let begin = unit * self.unit_slots as usize;
        let slots = self.free[begin..].iter().take(self.unit_slots as usize);
        let at = slots.enumerate().find_map(|(at, free)| free.then_some(begin + at))?;
        Some(at as u32)
    }

    /// Returns the unit from which the next slots are taken: the first free unit, or, if no unit is
    /// free, the unit with the most free slots. Because always the first free unit is taken, the
    /// space after the used units stays untouched.
    fn best_unit(&self) -> Option<usize> {
        let units = 0..self.free_in_unit.len();
        units.clone().find(|unit| self.is_whole(*unit)).or_else(|| {
            let most = units.rev().max_by_key(|unit| self.free_in_unit[*unit])?;
            (self.free_in_unit[most] > 0).then_some(most)
        })
    }
}

fn slots_in(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_classes_have_separate_units_while_units_are_free() {
        let mut space = Space::new(4, &[0; 14]);
        let slots = [(1, None), (2, None), (1, Some(0)), (1, None), (1, None), (1, Some(3)), (2, Some(4))];
        let taken: Vec<_> = slots.map(|(stream, after)| space.take(stream, after).unwrap()).into();
        assert_eq!(taken, [0, 4, 1, 2, 3, 8, 5]);
        // In this test, stream 3 (a lifetime class of files) first takes the last unit, which has
        // only two slots. After that no unit is free, so stream 3 shares the units of the other
        // streams.
        let rest: Vec<_> = std::iter::from_fn(|| space.take(3, None)).collect();
        assert_eq!(rest, [12, 13, 9, 10, 11, 6, 7]);
        assert_eq!(space.free_slots(), 0);
    }

    #[test]
    fn freed_slots_are_reused_only_after_a_flush() {
        let mut space = Space::new(4, &[1; 8]);
        space.release([Run { first: 2, count: 2 }]);
        assert!(space.wants_flush() && space.take(0, None).is_none());
        let flushing = space.flushing();
        // Slot 5 is freed while the flush is running, so this flush does not make it reusable.
        space.release([Run { first: 5, count: 1 }]);
        assert_eq!((space.free_now(), space.free_slots()), (0, 3));
        space.reuse(&flushing);
        assert_eq!(space.free_slots(), 3);
        assert_eq!((space.take(0, None), space.take(0, Some(2)), space.take(0, None)), (Some(2), Some(3), None));
        assert!(space.wants_flush());
    }

    #[test]
    fn stale_slots_are_discarded_unless_reused() {
        let mut space = Space::new(4, &[1; 16]);
        space.release([Run { first: 1, count: 3 }, Run { first: 8, count: 4 }]);
        let flushed = space.flushing();
        space.reuse(&flushed);
        assert!(space.take_stale(7).is_empty());
        assert_eq!([space.take(0, None), space.take(0, Some(8))], [Some(8), Some(9)]);
        let taken = space.take_stale(4);
        assert_eq!(taken, [Run { first: 10, count: 2 }, Run { first: 3, count: 1 }]);
        assert_eq!((space.free_now(), space.free_slots()), (2, 5), "slots being discarded count as free slots");
        space.discarded(&taken);
        assert_eq!((space.free_slots(), space.take_stale(2)), (5, vec![]));
        assert_eq!(space.take_stale(0), [Run { first: 1, count: 2 }]);
    }

    #[test]
    fn every_slot_has_exactly_one_state() {
        let mut space = Space::new(4, &[1, 1, 0, 0]);
        assert_eq!(space.take(0, None), Some(2));
        let reading = [Run { first: 1, count: 1 }];
        assert_eq!(space.problems(&[1, 1, 2, 0], &[]), Vec::<String>::new());
        assert_eq!(space.problems(&[1, 1, 0, 0], &[]), ["slot 2 is lost"]);
        assert_eq!(space.problems(&[1, 1, 2, 2], &reading), ["slot 1 is used twice", "slot 3 is used twice"]);
        space.release(reading);
        assert_eq!(space.problems(&[1, 0, 2, 0], &[]), Vec::<String>::new());
        assert_eq!(space.problems(&[1, 1, 2, 0], &[]), ["slot 1 is used twice"]);
    }
}
