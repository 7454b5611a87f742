//! The driver's model of a store: the expected value of each key. The model is correct even while
//! several threads write the same key.
//!
//! Each change of a key increases the key's *generation*. An odd generation is a put, an even one
//! is a delete, and 0 is a key that was never written. A correct result for a key is the value of
//! one of the generations `floor ..= newest`. With one writer both bounds are equal. If several
//! writers change one key concurrently, the order in which the store applies their changes is
//! unknown, so the range contains the generations of all these changes. The range becomes a single
//! generation again when the store acknowledges a change during which no other change of the key
//! was pending. That change is newer than all others.
//!
//! In this model, accesses to random keys miss all processor caches, as they do in the store. Only
//! the store's cost is to be measured, so the model must be small. While one thread works, it
//! therefore has only one byte per key, the generation modulo 256. With eight bytes per key, the
//! model would cost 0.3 µs per operation on a million keys.
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The generations of all keys.
#[derive(Debug)]
pub struct Model {
    slots: Slots,
    /// Whether the model must store the exact generation (number of changes) of each key. Otherwise
    /// it may store generations modulo 256.
    exact: bool,
}

#[derive(Debug)]
enum Slots {
    /// The form for one thread. One byte per key is the newest generation modulo 256. With one
    /// thread, this is also the oldest generation that a read may return.
    SingleThreaded(Vec<AtomicU8>),
    /// The form for several threads, with 64 bits per key. Bits 32..64 are the `newest` generation.
    /// Bits 16..32 are `newest - floor`, where `floor` is the oldest generation that a read may
    /// return; if all of these bits are set, the difference may be larger. Bits 0..16 are the
    /// number of pending changes.
    Concurrent(Vec<AtomicU64>),
}

/// A change of a key that the store has not acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number of the key.
    pub number: u64,
    /// Generation of the key after the change.
    pub generation: u32,
    /// Whether no other change of the key was pending when this change began.
    alone: bool,
}

const LAG_MAX: u32 = 0xffff;

/// Maximum number of changes of one key that may be pending at the same time.
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

/// Returns the generation of the change that follows `newest`. It is odd for a put and even for a
/// delete.
fn next(newest: u32, put: bool) -> u32 {
    newest + if (newest % 2 == 1) == put { 2 } else { 1 }
}

impl Model {
    /// Creates a model of `len` keys that were never written. If `exact`, the model stores exact
    /// generations (numbers of changes). Otherwise it may store them modulo 256.
    pub fn new(len: u64, exact: bool) -> Model {
        // The allocator returns zeroed memory, and pages of it that are never used take no memory.
        let slots = vec![0u64; len as usize].into_iter().map(AtomicU64::new).collect();
        Model { slots: Slots::Concurrent(slots), exact }
    }

    /// Sets whether a single thread performs all reads and writes from now on.
    pub fn set_solo(&mut self, solo: bool) {
        match &self.slots {
            Slots::SingleThreaded(slots) if !solo => {
                let slot = |newest: &AtomicU8| Slot { newest: newest.load(Relaxed).into(), lag: 0, pending: 0 }.bits();
                self.slots = Slots::Concurrent(slots.iter().map(|newest| slot(newest).into()).collect());
            }
            Slots::Concurrent(slots) if solo && !self.exact => {
                let slots = || slots.iter().map(|slot| Slot::of(slot.load(Relaxed)));
                if slots().all(|slot| slot.lag == 0) {
                    self.slots = Slots::SingleThreaded(slots().map(|slot| (slot.newest as u8).into()).collect());
                }
            }
            _ => {}
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> u64 {
        match &self.slots {
            Slots::SingleThreaded(slots) => slots.len() as u64,
            Slots::Concurrent(slots) => slots.len() as u64,
        }
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that the model takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.slots {
            Slots::SingleThreaded(slots) => size_of_val(slots.as_slice()) as u64,
            Slots::Concurrent(slots) => size_of_val(slots.as_slice()) as u64,
        }
    }

    /// Notes that a put or a delete of a key begins. The driver must call this before it calls the
    /// store.
    #[inline]
    pub fn begin(&self, number: u64, put: bool) -> Pending {
        let slots = match &self.slots {
            Slots::Concurrent(slots) => slots,
            Slots::SingleThreaded(slots) => {
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

    /// Notes that the store has acknowledged a change.
    #[inline]
    pub fn end(&self, change: Pending) {
        let Slots::Concurrent(slots) = &self.slots else { return };
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
            Slots::SingleThreaded(slots) => {
                Slot { newest: slots[number as usize].load(Relaxed).into(), lag: 0, pending: 0 }
            }
            Slots::Concurrent(slots) => Slot::of(slots[number as usize].load(Acquire)),
        }
    }

    /// Returns the oldest value of this key that a read may return if the read begins now, as a
    /// generation (number of changes of the key).
    #[inline]
    pub fn floor(&self, number: u64) -> u32 {
        self.slot(number).floor()
    }

    /// Returns the newest value of this key that a read may return if the read ends now, as a
    /// generation (number of changes of the key).
    #[inline]
    pub fn newest(&self, number: u64) -> u32 {
        self.slot(number).newest
    }

    /// Returns the generation that a put of this key would have if it began now.
    #[inline]
    pub fn coming(&self, number: u64) -> u32 {
        next(self.newest(number), true)
    }

    /// Returns whether the key is present. Returns `None` while a pending change makes this
    /// uncertain.
    #[inline]
    pub fn present(&self, number: u64) -> Option<bool> {
        let slot = self.slot(number);
        (slot.lag == 0).then_some(slot.newest % 2 == 1)
    }

    /// Returns the numbers of the keys that are present in their newest generations.
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
    fn one_writer_gives_exact_generations() {
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
    fn switching_the_number_of_threads_preserves_generations() {
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
        assert_eq!(model.present(2), None, "the order of the two is unknown");
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
    fn concurrent_changes_stay_uncertain_until_a_single_one() {
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
    fn a_lag_beyond_the_counter_accepts_every_generation() {
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
