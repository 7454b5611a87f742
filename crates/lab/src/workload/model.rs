//! What each key must hold, right also while several threads write the same key.
//!
//! Each change of a key gets the next *generation*: odd ones are puts, even ones deletes, 0 is a key never written. What
//! the store must answer for a key is one of the generations `floor ..= newest`. With one writer both are the same.
//! Of concurrent changes of one key nobody knows which the store took last, so the range spans them until a change that
//! began alone is acknowledged: it came after all of them.
//!
//! Random keys miss all caches here as they do in the store, and it is the store that is to be measured. So while one thread
//! works, a key takes one byte, its generation modulo 256: eight bytes a key cost 0.3 µs for each operation on a million.
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The generations of every key.
#[derive(Debug)]
pub struct Model {
    slots: Slots,
    /// Generations must not be taken modulo anything.
    exact: bool,
}

#[derive(Debug)]
enum Slots {
    /// One thread at a time: `newest` modulo 256, which `floor` is too.
    Lone(Vec<AtomicU8>),
    /// `newest` in bits 32..64, `newest - floor` in 16..32 (all ones: at least that), changes under way in 0..16.
    Shared(Vec<AtomicU64>),
}

/// A change that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The key's number.
    pub number: u64,
    /// What the key will hold.
    pub generation: u32,
    /// No other change of the key was under way.
    alone: bool,
}

const LAG_MAX: u32 = 0xffff;

/// Changes of one key that may be under way at once.
pub const PENDING_MAX: usize = 0xffff;

#[derive(Clone, Copy)]
struct Slot {
    newest: u32,
    lag: u32,
    pending: u32,
}

impl Slot {
    fn of(bits: u64) -> Slot {
        Slot { newest: (bits >> 32) as u32, lag: (bits >> 16) as u32 & 0xffff, pending: bits as u32 & 0xffff }
    }

    fn bits(self) -> u64 {
        u64::from(self.newest) << 32 | u64::from(self.lag) << 16 | u64::from(self.pending)
    }

    fn floor(self) -> u32 {
        if self.lag == LAG_MAX { 0 } else { self.newest - self.lag }
    }
}

/// The generation after `newest` for a put, or a delete.
fn next(newest: u32, put: bool) -> u32 {
    newest + if (newest % 2 == 1) == put { 2 } else { 1 }
}

impl Model {
    /// `len` keys that were never written. Generations that are told are `exact`, or equal modulo 256.
    pub fn new(len: u64, exact: bool) -> Model {
        // zeroed memory as the allocator gives it: untouched pages cost nothing
        let slots = vec![0u64; len as usize].into_iter().map(AtomicU64::new).collect();
        Model { slots: Slots::Shared(slots), exact }
    }

    /// Says whether from now on a single thread reads and writes.
    pub fn set_solo(&mut self, solo: bool) {
        match &self.slots {
            Slots::Lone(slots) if !solo => {
                let slot = |newest: &AtomicU8| Slot { newest: newest.load(Relaxed).into(), lag: 0, pending: 0 }.bits();
                self.slots = Slots::Shared(slots.iter().map(|newest| slot(newest).into()).collect());
            }
            Slots::Shared(slots) if solo && !self.exact => {
                let slots = || slots.iter().map(|slot| Slot::of(slot.load(Relaxed)));
                if slots().all(|slot| slot.lag == 0) {
                    self.slots = Slots::Lone(slots().map(|slot| (slot.newest as u8).into()).collect());
                }
            }
            _ => {}
        }
    }

    /// Keys.
    pub fn len(&self) -> u64 {
        match &self.slots {
            Slots::Lone(slots) => slots.len() as u64,
            Slots::Shared(slots) => slots.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        match &self.slots {
            Slots::Lone(slots) => size_of_val(slots.as_slice()) as u64,
            Slots::Shared(slots) => size_of_val(slots.as_slice()) as u64,
        }
    }

    /// A put, or a delete, of a key is about to be handed to the store.
    #[inline]
    pub fn begin(&self, number: u64, put: bool) -> Pending {
        let slots = match &self.slots {
            Slots::Shared(slots) => slots,
            Slots::Lone(slots) => {
                let cell = &slots[number as usize];
                let generation = next(cell.load(Relaxed).into(), put) as u8;
                cell.store(generation, Relaxed);
                return Pending { number, generation: generation.into(), alone: true };
            }
        };
        let step = |bits| {
            let old = Slot::of(bits);
            let newest = next(old.newest, put);
            let lag = (old.lag + (newest - old.newest)).min(LAG_MAX);
            Slot { newest, lag, pending: old.pending + 1 }.bits()
        };
        let cell = &slots[number as usize];
        let old = Slot::of(cell.fetch_update(AcqRel, Acquire, |bits| Some(step(bits))).unwrap_or_else(|bits| bits));
        Pending { number, generation: next(old.newest, put), alone: old.pending == 0 }
    }

    /// The store has acknowledged it.
    #[inline]
    pub fn end(&self, change: Pending) {
        let Slots::Shared(slots) = &self.slots else { return };
        let step = |bits| {
            let old = Slot::of(bits);
            let lag = if change.alone { old.lag.min(old.newest - change.generation) } else { old.lag };
            Slot { lag, pending: old.pending - 1, ..old }.bits()
        };
        let _ = slots[change.number as usize].fetch_update(Release, Relaxed, |bits| Some(step(bits)));
    }

    #[inline]
    fn slot(&self, number: u64) -> Slot {
        match &self.slots {
            Slots::Lone(slots) => Slot { newest: slots[number as usize].load(Relaxed).into(), lag: 0, pending: 0 },
            Slots::Shared(slots) => Slot::of(slots[number as usize].load(Acquire)),
        }
    }

    /// The oldest generation that a read may answer if it begins now.
    #[inline]
    pub fn floor(&self, number: u64) -> u32 {
        self.slot(number).floor()
    }

    /// The newest generation that a read may have answered if it ends now.
    #[inline]
    pub fn newest(&self, number: u64) -> u32 {
        self.slot(number).newest
    }

    /// The generation of a put that began now.
    #[inline]
    pub fn coming(&self, number: u64) -> u32 {
        next(self.newest(number), true)
    }

    /// Whether the key is there for certain, or not; `None` while that is open.
    #[inline]
    pub fn present(&self, number: u64) -> Option<bool> {
        let slot = self.slot(number);
        (slot.lag == 0).then_some(slot.newest % 2 == 1)
    }

    /// Numbers of the keys that are there, as far as the newest generations tell.
    pub fn live(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).filter(|&number| self.newest(number) % 2 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(model: &Model) -> (u32, u32) {
        (model.floor(0), model.newest(0))
    }

    #[test]
    fn one_writer_knows_exactly() {
        for (solo, exact) in [(false, true), (true, true), (true, false)] {
            let mut model = Model::new(1, exact);
            model.set_solo(solo);
            for (put, generation) in [(false, 2), (true, 3), (true, 5), (false, 6), (false, 8), (true, 9)] {
                let change = model.begin(0, put);
                model.end(change);
                assert_eq!((change.generation, range(&model)), (generation, (generation, generation)));
                assert_eq!(model.present(0), Some(put));
            }
            assert_eq!(model.live().collect::<Vec<_>>(), [0]);
        }
    }

    #[test]
    fn going_from_one_thread_to_several_and_back_loses_nothing() {
        let mut model = Model::new(3, false);
        model.set_solo(true);
        (0..300).for_each(|_| model.end(model.begin(0, true)));
        model.end(model.begin(1, false));
        let seen =
            |model: &Model| (0..3).map(|number| (model.floor(number), model.newest(number) % 256)).collect::<Vec<_>>();
        assert_eq!(seen(&model), [(599 % 256, 599 % 256), (2, 2), (0, 0)]);
        model.set_solo(false);
        assert_eq!(seen(&model), [(599 % 256, 599 % 256), (2, 2), (0, 0)]);
        let (a, b) = (model.begin(2, true), model.begin(2, true));
        model.set_solo(true);
        model.end(a);
        model.end(b);
        assert_eq!(model.present(2), None, "which of the two came last nobody knows");
    }

    #[test]
    fn a_read_during_a_put_may_see_either() {
        let model = Model::new(1, true);
        let change = model.begin(0, true);
        assert_eq!((range(&model), model.present(0)), ((0, 1), None));
        model.end(change);
        assert_eq!((range(&model), model.present(0)), ((1, 1), Some(true)));
    }

    #[test]
    fn concurrent_changes_stay_open_until_a_lone_one() {
        let model = Model::new(1, true);
        let (a, b) = (model.begin(0, true), model.begin(0, true));
        model.end(b);
        assert_eq!(range(&model), (0, 3), "a may be applied after b");
        model.end(a);
        assert_eq!(range(&model), (1, 3));
        let c = model.begin(0, false);
        assert_eq!(range(&model), (1, 4));
        model.end(c);
        assert_eq!((range(&model), model.present(0)), ((4, 4), Some(false)));
    }

    #[test]
    fn a_lag_too_long_to_count_means_anything_goes() {
        let model = Model::new(1, true);
        let first = model.begin(0, true);
        for _ in 0..LAG_MAX {
            let change = model.begin(0, true);
            model.end(change);
        }
        assert_eq!(model.floor(0), 0);
        model.end(first);
        let last = model.begin(0, true);
        model.end(last);
        assert_eq!(model.floor(0), last.generation);
    }
}
