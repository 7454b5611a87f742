//! Values that a scan is about to come to are asked for while it looks at those before: a scout walks ahead of it, as far as a
//! window of bytes allows, and a device that serves several reads at a time does.
//!
//! The scout sets out once a cursor has gone the same way a few times and has waited for a value, looks a few pairs ahead at first, and
//! further each time that it was right: a short range costs next to nothing, and what is in memory nothing at all. It comes back now and
//! then, since nobody can tell a value that it asked for in time from one that was there. What goes wrong with the scout goes wrong with the scan when it gets
//! there, and is told then.
use crate::Result;
use std::{cmp::Ordering, collections::VecDeque};
use terrace_format::KeyOrder;

/// Moves in one direction before the scout sets out.
const MOVES_MIN: u32 = 3;
/// Bytes that are asked for at first.
const BYTES_FIRST: u64 = 16 << 10;
/// Values asked for and not reached yet, at most.
const PAIRS_MAX: usize = 256;
/// Values that the scout asks for before it comes back.
const TRIP: usize = 4096;

/// Who walks ahead.
pub trait Scout: Send {
    /// Stands on `user`, to go on in this direction.
    fn start(&mut self, user: &[u8], forward: bool) -> Result<()>;
    /// Goes on to the next pair and asks for its value: its user key, and how many bytes were asked for. `None` where the range ends.
    fn ask(&mut self) -> Result<Option<(Vec<u8>, u64)>>;
}

/// What was asked for on behalf of one cursor.
pub struct Ahead<S> {
    scout: S,
    order: KeyOrder,
    window: u64,
    /// Bytes to be ahead by, until the scout has proved right.
    reach: u64,
    asked: VecDeque<(Vec<u8>, u64)>,
    /// Their bytes.
    bytes: u64,
    /// Where the scan is.
    at: Vec<u8>,
    forward: bool,
    moves: u32,
    /// A value was waited for since the scout set out last.
    waited: bool,
    /// Values that the scout may ask for still. None: it is not under way.
    left: usize,
}

impl<S: Scout> Ahead<S> {
    /// Asks for up to `window` bytes ahead; for nothing if that is 0.
    pub fn new(scout: S, order: KeyOrder, window: u64) -> Ahead<S> {
        let (asked, at) = (VecDeque::new(), Vec::new());
        Ahead { scout, order, window, reach: 0, asked, bytes: 0, at, forward: true, moves: 0, waited: false, left: 0 }
    }

    /// The scan stands on `user` now.
    pub fn reached(&mut self, user: &[u8]) {
        if self.window == 0 || self.left == 0 && !self.waited {
            return; // where it is, is of no interest yet
        }
        match self.asked.pop_front() {
            Some((expected, bytes)) if expected == user => self.bytes -= bytes,
            _ => self.set_out(user),
        }
        self.at.clear();
        self.at.extend_from_slice(user);
        if self.left > 0
            && (self.bytes < self.reach / 2 || self.asked.is_empty())
            && !self.look_ahead().unwrap_or(false)
        {
            self.left = 0;
        }
    }

    /// The scan had to wait for a value.
    pub fn waited(&mut self) {
        self.waited = true;
    }

    /// The scan is where it was not expected.
    fn set_out(&mut self, user: &[u8]) {
        self.asked.clear();
        self.bytes = 0;
        let forward = self.order.user(user, &self.at) != Ordering::Less;
        self.moves = if forward == self.forward { self.moves + 1 } else { 1 };
        self.forward = forward;
        self.reach = BYTES_FIRST.min(self.window);
        self.left = 0;
        if self.waited && self.moves > MOVES_MIN && self.scout.start(user, forward).is_ok() {
            (self.left, self.waited) = (TRIP, false);
            self.moves = 0; // one that was led astray earns trust anew
        }
    }

    /// Whether there may be more.
    fn look_ahead(&mut self) -> Result<bool> {
        while (self.bytes < self.reach || self.asked.is_empty()) && self.asked.len() < PAIRS_MAX && self.left > 0 {
            let Some((user, bytes)) = self.scout.ask()? else { return Ok(false) };
            self.left -= 1;
            self.bytes += bytes;
            self.asked.push_back((user, bytes));
        }
        self.reach = (2 * self.reach).min(self.window);
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

    /// So many pairs with values of 4 KiB; counts what it is asked.
    struct Counting {
        pairs: i64,
        at: i64,
        step: i64,
        asked: Arc<AtomicUsize>,
    }

    fn key(number: i64) -> Vec<u8> {
        format!("{number:05}").into_bytes()
    }

    impl Scout for Counting {
        fn start(&mut self, user: &[u8], forward: bool) -> Result<()> {
            self.at = std::str::from_utf8(user).expect("digits").parse().expect("a number");
            self.step = if forward { 1 } else { -1 };
            Ok(())
        }

        fn ask(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
            self.at += self.step;
            if !(0..self.pairs).contains(&self.at) {
                return Ok(None);
            }
            self.asked.fetch_add(1, Relaxed);
            Ok(Some((key(self.at), 4096)))
        }
    }

    /// How many values were asked for after each move of a scan over `path`, which waits for each value.
    fn asked(window: u64, path: impl Iterator<Item = i64>) -> Vec<usize> {
        asked_of(1000, window, path, |_| true)
    }

    /// The same of so many pairs, where the scan waits for what `waits` says.
    fn asked_of(pairs: i64, window: u64, path: impl Iterator<Item = i64>, waits: impl Fn(i64) -> bool) -> Vec<usize> {
        let asked = Arc::new(AtomicUsize::new(0));
        let counting = Counting { pairs, at: 0, step: 1, asked: asked.clone() };
        let mut ahead = Ahead::new(counting, KeyOrder::Bytewise, window);
        path.map(|number| {
            ahead.reached(&key(number));
            if waits(number) {
                ahead.waited();
            }
            assert!(ahead.bytes <= window.max(4096) && ahead.asked.len() <= PAIRS_MAX);
            asked.load(Relaxed)
        })
        .collect()
    }

    #[test]
    fn each_value_is_asked_for_once_and_in_time() {
        let forward = asked(256 << 10, 0..1000);
        let backward = asked(256 << 10, (0..1000).rev());
        for (name, counts) in [("forward", forward), ("backward", backward)] {
            assert_eq!(counts[..3], [0; 3], "{name}: a short range asks for nothing");
            assert!((990..1000).contains(counts.last().expect("a thousand")), "{name}: {:?}", counts.last());
            let ahead = |at: usize| counts[at] - (at + 1 - (1000 - counts[999]));
            assert!((100..900).all(|at| (32..=64).contains(&ahead(at))), "{name}: half a window at least, one at most");
        }
    }

    #[test]
    fn who_does_not_wait_is_asked_nothing() {
        let last = |waits: fn(i64) -> bool| *asked_of(20_000, 256 << 10, 0..20_000, waits).last().expect("many");
        assert_eq!(last(|_| false), 0, "all is in memory");
        let once = last(|number| number == 7);
        assert!((TRIP..TRIP + 64).contains(&once), "{once} for one value that was waited for");
        let now_and_then = last(|number| number % 64 == 0);
        assert!(now_and_then > 19_000, "{now_and_then} where values keep coming from the device");
    }

    #[test]
    fn who_jumps_about_is_asked_nothing_and_a_window_of_0_asks_nothing() {
        assert_eq!(asked(0, 0..1000).last(), Some(&0));
        let jumps = (0..1000).map(|number| number * 617 % 1000);
        let wasted = *asked(256 << 10, jumps).last().expect("a thousand");
        assert!(wasted < 1000, "{wasted} for a thousand jumps");
    }
}
