//! What a store does from time to time: it sees whether anybody writes, gives memory back that nobody needs, and makes durable what
//! the last writer left. A tick must not keep the store open: it would have to close it.
use super::make_durable;
use crate::{state::Shared, write::Writes};
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// Without a write for so long it is a lull.
const LULL: Duration = Duration::from_millis(250);
/// Memory is given back that nobody needed for so long.
const SPARE: Duration = Duration::from_millis(2500);

/// A store, as its ticks see it.
pub struct Ticks {
    shared: Weak<Shared>,
    writes: Option<Weak<Writes>>,
    /// The option; zero for never.
    durability_interval: Duration,
    seen: Mutex<Seen>, // a leaf
}

/// Times are the store's.
#[derive(Default)]
struct Seen {
    newest: u64,
    /// When that write was seen first.
    since: Duration,
    /// When memory was given back last.
    gave_back: Duration,
}

impl Ticks {
    pub fn new(shared: &Arc<Shared>, writes: Option<&Arc<Writes>>) -> Ticks {
        let durability_interval = Duration::from_millis(shared.options.durability_interval_ms);
        let writes = writes.map(Arc::downgrade);
        Ticks { shared: Arc::downgrade(shared), writes, durability_interval, seen: Mutex::default() }
    }

    /// Between two ticks. A write is seen by the next one, and a quiet half of the interval ends at one: so a quarter is little
    /// enough to be done within the whole.
    pub fn period(&self) -> Duration {
        let quarter = self.durability_interval / 4;
        if quarter.is_zero() { LULL } else { LULL.min(quarter) }
    }

    pub fn tick(&self) {
        let (Some(shared), Some(writes)) = (self.shared.upgrade(), self.writes.as_ref().and_then(Weak::upgrade)) else {
            return;
        };
        let (now, newest) = (shared.clock.now(), shared.visible());
        let (quiet, gives_back) = self.seen.lock().look(now, newest.0);
        if gives_back {
            shared.placement.budget().rest();
        }
        if quiet >= LULL {
            shared.rest(newest);
        }
        if !self.durability_interval.is_zero() && quiet >= self.durability_interval / 2 {
            let _ = make_durable(&shared, &writes); // a failure has stopped the store, and its next writer hears of it
        }
    }
}

impl Seen {
    /// For how long `newest` has been the newest write, and whether it is time to give memory back.
    fn look(&mut self, now: Duration, newest: u64) -> (Duration, bool) {
        if newest != self.newest {
            (self.newest, self.since) = (newest, now);
        }
        let gives_back = now.saturating_sub(self.gave_back) >= SPARE;
        if gives_back {
            self.gave_back = now;
        }
        (now.saturating_sub(self.since), gives_back)
    }
}

/// Somebody waits until all work is done, as long as this lives.
pub struct Waiting<'a>(&'a Arc<Shared>);

impl Waiting<'_> {
    pub fn begin(shared: &Arc<Shared>) -> Waiting<'_> {
        let mut control = shared.control.lock();
        control.busy.lull.wait();
        shared.schedule(&mut control);
        Waiting(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.control.lock().busy.lull.wait_no_more();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_begins_where_the_newest_write_was_seen_first() {
        let mut seen = Seen::default();
        let ms = Duration::from_millis;
        let looks = [(100, 0), (200, 5), (2600, 5), (2700, 6), (5200, 6)].map(|(at, newest)| seen.look(ms(at), newest));
        let expected = [(100, false), (0, false), (2400, true), (0, false), (2500, true)];
        assert_eq!(looks, expected.map(|(quiet, gives_back)| (ms(quiet), gives_back)));
    }
}
