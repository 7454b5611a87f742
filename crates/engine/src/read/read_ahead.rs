//! Read-ahead of separated values (values in the value log). While a scan is at one pair, a
//! prefetcher requests the values of the next pairs, up to a window of bytes. A device that serves
//! several reads in parallel then reads these values together.
//!
//! The prefetcher starts after a cursor has moved a few times in one direction and has waited for
//! the read of a value. At first it requests the values of only a few pairs. As long as the scan
//! reaches the predicted pairs, the prefetcher looks further and further ahead. The scan of a
//! short range therefore requests almost no value that it does not use. Values in memory cause no
//! read-ahead, because the scan does not wait for them.
//!
//! After a number of values the prefetcher stops. It starts again when the scan next waits for a
//! value. The reason: the prefetcher cannot distinguish a value that it prefetched in time from a
//! value that was in memory. Errors of the prefetcher are ignored, because the scan returns them
//! itself when it reaches the pair.
use crate::Result;
use std::{cmp::Ordering, collections::VecDeque};
use terrace_format::KeyOrder;

/// The number of moves in one direction after which the prefetcher may start.
const MOVES_MIN: u32 = 3;
/// The number of bytes that the prefetcher requests ahead at first.
const BYTES_FIRST: u64 = 16 << 10;
/// The maximum number of requested values that the scan has not reached yet.
const PAIRS_MAX: usize = 256;
/// The number of values after which the prefetcher stops until the scan next waits for a value.
const PREFETCH_RUN_MAX: usize = 4096;

/// A prefetcher: it moves ahead of a cursor and requests values from the device.
pub trait Prefetcher: Send {
    /// Moves the prefetcher to the pair of key `user`. Later calls of
    /// [`prefetch_next`](Prefetcher::prefetch_next) move it on from this pair, forward if `forward`
    /// is set, otherwise backward.
    fn start(&mut self, user: &[u8], forward: bool) -> Result<()>;
    /// Moves the prefetcher to the next pair with a separated value and requests this value from
    /// the device. Returns the user key and the number of bytes requested, or `None` at the end of
    /// the range.
    fn prefetch_next(&mut self) -> Result<Option<(Vec<u8>, u64)>>;
}

/// The read-ahead of one cursor.
pub struct ReadAhead<S> {
    prefetcher: S,
    order: KeyOrder,
    window: u64,
    /// The number of bytes of values to request ahead of the scan. The number grows up to `window`
    /// while the scan reaches the predicted pairs.
    distance: u64,
    prefetched: VecDeque<(Vec<u8>, u64)>,
    /// The total bytes of the values in `prefetched`: values that were requested and that the scan
    /// has not reached yet.
    bytes: u64,
    /// The user key of the scan's current pair.
    at: Vec<u8>,
    forward: bool,
    moves: u32,
    /// Whether the scan has waited for a value since the prefetcher started.
    stalled: bool,
    /// Number of values that the prefetcher may still request; 0 while it is stopped.
    run_left: usize,
}

impl<S: Prefetcher> ReadAhead<S> {
    /// Makes a read-ahead of up to `window` bytes. A `window` of 0 turns read-ahead off.
    pub fn new(prefetcher: S, order: KeyOrder, window: u64) -> ReadAhead<S> {
        let (prefetched, at) = (VecDeque::new(), Vec::new());
        ReadAhead {
            prefetcher,
            order,
            window,
            distance: 0,
            prefetched,
            bytes: 0,
            at,
            forward: true,
            moves: 0,
            stalled: false,
            run_left: 0,
        }
    }

    /// Records that the scan has moved to the key `user`, and requests further values.
    pub fn reached(&mut self, user: &[u8]) {
        if self.window == 0 || self.run_left == 0 && !self.stalled {
            return; // the position does not matter yet
        }
        match self.prefetched.pop_front() {
            Some((expected, bytes)) if expected == user => self.bytes -= bytes,
            _ => self.restart(user),
        }
        self.at.clear();
        self.at.extend_from_slice(user);
        if self.run_left > 0
            && (self.bytes < self.distance / 2 || self.prefetched.is_empty())
            && !self.prefetch().unwrap_or(false)
        {
            self.run_left = 0;
        }
    }

    /// Records that the scan had to wait for the read of a value.
    pub fn stalled(&mut self) {
        self.stalled = true;
    }

    /// Drops the predicted pairs, because the scan moved to the key `user`, which the prefetcher
    /// did not predict. Starts the prefetcher at `user` if the scan has waited for a value and has
    /// kept its direction for more than `MOVES_MIN` moves.
    fn restart(&mut self, user: &[u8]) {
        self.prefetched.clear();
        self.bytes = 0;
        let forward = self.order.user(user, &self.at) != Ordering::Less;
        self.moves = if forward == self.forward { self.moves + 1 } else { 1 };
        self.forward = forward;
        self.distance = BYTES_FIRST.min(self.window);
        self.run_left = 0;
        if self.stalled && self.moves > MOVES_MIN && self.prefetcher.start(user, forward).is_ok() {
            (self.run_left, self.stalled) = (PREFETCH_RUN_MAX, false);
            self.moves = 0; // a wrong prediction needs new moves before the next start
        }
    }

    /// Requests values up to `distance` bytes ahead of the scan. Returns whether there may be
    /// further pairs to prefetch.
    fn prefetch(&mut self) -> Result<bool> {
        while (self.bytes < self.distance || self.prefetched.is_empty())
            && self.prefetched.len() < PAIRS_MAX
            && self.run_left > 0
        {
            let Some((user, bytes)) = self.prefetcher.prefetch_next()? else { return Ok(false) };
            self.run_left -= 1;
            self.bytes += bytes;
            self.prefetched.push_back((user, bytes));
        }
        self.distance = (2 * self.distance).min(self.window);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    /// A prefetcher for tests, over a number of pairs with values of 4 KiB. It counts requests.
    struct CountingPrefetcher {
        pairs: i64,
        at: i64,
        step: i64,
        prefetched: Arc<AtomicUsize>,
    }

    fn key(number: i64) -> Vec<u8> {
        format!("{number:05}").into_bytes()
    }

    impl Prefetcher for CountingPrefetcher {
        fn start(&mut self, user: &[u8], forward: bool) -> Result<()> {
            self.at = std::str::from_utf8(user).expect("digits").parse().expect("a number");
            self.step = if forward { 1 } else { -1 };
            Ok(())
        }

        fn prefetch_next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
            self.at += self.step;
            if !(0..self.pairs).contains(&self.at) {
                return Ok(None);
            }
            self.prefetched.fetch_add(1, Relaxed);
            Ok(Some((key(self.at), 4096)))
        }
    }

    /// Moves a scan along the pairs with the numbers in `path`, and lets the scan wait for each
    /// value. Returns how many values had been requested in total after each move.
    fn prefetched(window: u64, path: impl Iterator<Item = i64>) -> Vec<usize> {
        prefetched_of(1000, window, path, |_| true)
    }

    /// Works like [`prefetched`], for a store with a given number of pairs. `waits` returns whether
    /// the scan waits for the value of a pair.
    fn prefetched_of(
        pairs: i64,
        window: u64,
        path: impl Iterator<Item = i64>,
        waits: impl Fn(i64) -> bool,
    ) -> Vec<usize> {
        let prefetched = Arc::new(AtomicUsize::new(0));
        let counting = CountingPrefetcher { pairs, at: 0, step: 1, prefetched: prefetched.clone() };
        let mut ahead = ReadAhead::new(counting, KeyOrder::Bytewise, window);
        path.map(|number| {
            ahead.reached(&key(number));
            if waits(number) {
                ahead.stalled();
            }
            assert!(ahead.bytes <= window.max(4096) && ahead.prefetched.len() <= PAIRS_MAX);
            prefetched.load(Relaxed)
        })
        .collect()
    }

    #[test]
    fn each_value_is_prefetched_once_and_in_time() {
        let forward = prefetched(256 << 10, 0..1000);
        let backward = prefetched(256 << 10, (0..1000).rev());
        for (name, counts) in [("forward", forward), ("backward", backward)] {
            assert_eq!(counts[..3], [0; 3], "{name}: nothing is prefetched for a short range");
            assert!((990..1000).contains(counts.last().expect("a thousand")), "{name}: {:?}", counts.last());
            let ahead = |at: usize| counts[at] - (at + 1 - (1000 - counts[999]));
            assert!((100..900).all(|at| (32..=64).contains(&ahead(at))), "{name}: half a window at least, one at most");
        }
    }

    #[test]
    fn nothing_is_prefetched_for_a_cursor_that_does_not_stall() {
        let last = |waits: fn(i64) -> bool| *prefetched_of(20_000, 256 << 10, 0..20_000, waits).last().expect("many");
        assert_eq!(last(|_| false), 0, "all is in memory");
        let once = last(|number| number == 7);
        assert!((PREFETCH_RUN_MAX..PREFETCH_RUN_MAX + 64).contains(&once), "{once} for one stall");
        let now_and_then = last(|number| number % 64 == 0);
        assert!(now_and_then > 19_000, "{now_and_then} with a stall now and then");
    }

    #[test]
    fn random_seeks_and_a_window_of_0_prefetch_little_and_nothing() {
        assert_eq!(prefetched(0, 0..1000).last(), Some(&0));
        let jumps = (0..1000).map(|number| number * 617 % 1000);
        let wasted = *prefetched(256 << 10, jumps).last().expect("a thousand");
        assert!(wasted < 1000, "{wasted} for a thousand jumps");
    }
}
