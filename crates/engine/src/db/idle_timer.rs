//! What a store does from time to time: it sees whether anybody writes, gives memory back that nobody needs, and makes durable what
//! the last writer left. A tick must not keep the store open: it would have to close it.
use super::make_durable;
use crate::{state::DbInner, write::Writes};
use parking_lot::Mutex;
use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

/// Between two ticks at most. Without a write from one to the next it is a lull.
const PERIOD: Duration = Duration::from_millis(250);
/// A lull is long when so much has passed since a tick that saw a write: it is told within a second of the write, as long as the lab waits
/// for deferred work to begin. Where turns are short it is two of them, if that is less.
const LONG: Duration = Duration::from_millis(400);
/// Between two of the turns that do more, where nothing becomes durable on its own.
const TURN: Duration = Duration::from_millis(2500);

/// A store, as its ticks see it.
pub struct IdleTimer {
    shared: Weak<DbInner>,
    writes: Option<Weak<Writes>>,
    /// Half of what an idle store has time to become durable: what was written is seen by one turn, and that nothing followed by the next.
    turn: Duration,
    makes_durable: bool,
    seen: Mutex<Seen>, // a leaf
}

/// What there was at the last tick.
#[derive(Debug, Default)]
struct Seen {
    newest: u64,
    /// When a tick saw that first, or a writer at work last.
    since: Duration,
    /// What was told of the lull since then.
    lull: bool,
    long: bool,
    ticks: u32,
    /// At the last turn.
    turned: u64,
}

/// What a tick has found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// A lull begins.
    lull: bool,
    /// Whether it is a long one, where that has changed, and at each turn.
    long: Option<bool>,
    /// It is time for more; and whether nothing was written since the last such turn.
    turn: Option<bool>,
}

impl IdleTimer {
    pub fn new(shared: &Arc<DbInner>, writes: Option<&Arc<Writes>>) -> IdleTimer {
        let interval = Duration::from_millis(shared.options.idle_durability_ms);
        let makes_durable = !interval.is_zero();
        let turn = if makes_durable { interval / 2 } else { TURN };
        let writes = writes.map(Arc::downgrade);
        IdleTimer { shared: Arc::downgrade(shared), writes, turn, makes_durable, seen: Mutex::default() }
    }

    /// Between two ticks.
    pub fn period(&self) -> Duration {
        self.turn / self.in_turn()
    }

    fn in_turn(&self) -> u32 {
        u32::try_from(self.turn.as_nanos().div_ceil(PERIOD.as_nanos())).unwrap_or(u32::MAX)
    }

    fn long(&self) -> Duration {
        LONG.min(2 * self.turn)
    }

    pub fn tick(&self) {
        let (Some(shared), Some(writes)) = (self.shared.upgrade(), self.writes.as_ref().and_then(Weak::upgrade)) else {
            return;
        };
        let (idle, newest, now) = (writes.are_idle(), shared.visible().0, shared.clock.now());
        let found = self.seen.lock().look(newest, idle, now, self.long(), self.in_turn());
        if found.lull {
            shared.rest(|lull| lull.rest(newest));
        }
        if let Some(long) =
            found.long.filter(|_| shared.values_apart || shared.options.tombstone_compaction_percent > 0)
        {
            if long {
                shared.look_for_range_deletes();
                shared.look_for_contents();
            }
            shared.rest(|lull| lull.rest_long(long && newest == shared.visible().0));
        }
        let Some(quiet) = found.turn else { return };
        shared.storage.budget().rest();
        if quiet && self.makes_durable {
            let _ = make_durable(&shared, &writes); // a failure has stopped the store, and its next writer hears of it
        }
    }
}

impl Seen {
    /// A tick at `now`. While a writer is held up nothing new is seen, but that is no long lull.
    fn look(&mut self, newest: u64, idle: bool, now: Duration, long: Duration, in_turn: u32) -> Found {
        let same = newest == self.newest;
        if !same || !idle {
            self.since = now;
        }
        self.newest = newest;
        self.ticks = (self.ticks + 1) % in_turn;
        let turn = (self.ticks == 0).then(|| newest == mem::replace(&mut self.turned, newest));
        let was_lull = mem::replace(&mut self.lull, same);
        let long = now.saturating_sub(self.since) >= long;
        let changes = long != mem::replace(&mut self.long, long);
        Found { lull: same && !was_lull, long: (changes || turn.is_some()).then_some(long), turn }
    }
}

/// Somebody waits until all work is done, as long as this lives.
pub struct Waiting<'a>(&'a Arc<DbInner>);

impl Waiting<'_> {
    pub fn begin(shared: &Arc<DbInner>) -> Waiting<'_> {
        shared.look_for_range_deletes();
        shared.look_for_contents();
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
    use crate::{Db, Event, Options, WriteOptions};
    use std::{sync::mpsc, thread};
    use terrace_format::Values;

    #[test]
    fn a_long_lull_is_told_within_a_second() {
        for interval_ms in [1_u64, 100, 499, 500, 501, 998, 5000, 100_000] {
            let turn = Duration::from_millis(interval_ms) / 2;
            let ticks =
                IdleTimer { shared: Weak::new(), writes: None, turn, makes_durable: true, seen: Mutex::default() };
            let (mut seen, mut now) = (Seen::default(), ticks.period()); // a write right behind the tick before
            while seen.look(1, true, now, ticks.long(), ticks.in_turn()).long != Some(true) {
                now += ticks.period();
            }
            let bounds = LONG.min(2 * turn)..=Duration::from_secs(1);
            assert!(bounds.contains(&now), "after {now:?} where idle_durability_ms is {interval_ms}");
        }
    }

    #[test]
    fn a_lull_is_told_once_and_a_turn_sees_what_ticks_between_it_saw() {
        let mut seen = Seen::default();
        let mut now = Duration::ZERO;
        let found: Vec<_> = [5, 5, 5, 6, 6, 6, 6, 6, 6]
            .map(|newest| {
                now += PERIOD;
                seen.look(newest, true, now, LONG, 3)
            })
            .into();
        let lulls: Vec<_> = found.iter().map(|found| found.lull).collect();
        assert_eq!(lulls, [false, true, false, false, true, false, false, false, false]);
        let long: Vec<_> = found.iter().map(|found| found.long).collect();
        let (begun, over) = (Some(true), Some(false));
        assert_eq!(long, [None, None, begun, over, None, begun, None, None, begun], "the last two at turns");
        let turns: Vec<_> = found.iter().map(|found| found.turn).collect();
        assert_eq!(turns, [None, None, Some(false), None, None, Some(false), None, None, Some(true)]);
    }

    #[test]
    fn while_a_writer_waits_it_is_no_long_lull() {
        let mut seen = Seen::default();
        let mut look = |at, idle| seen.look(5, idle, PERIOD * at, LONG, 100);
        let busy: Vec<_> = (1..8).map(|at| look(at, false)).collect();
        assert!(busy.iter().all(|found| found.long.is_none()), "{busy:?}");
        let idle: Vec<_> = (8..11).map(|at| look(at, true).long).collect();
        assert_eq!(idle, [None, Some(true), None]);
        assert_eq!(look(11, false).long, Some(false));
    }

    /// A put stands in its sync, with nothing new to see: whoever would collect beside it is not told of a rest.
    #[test]
    fn a_store_whose_writer_is_held_up_does_not_rest() {
        let (began, begun) = mpsc::channel();
        let (go_on, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let mut options = Options::default().listener(Arc::new(move |event: &Event| {
            if matches!(event, Event::SyncBegun) {
                let _ = began.send(());
                let _ = gone.lock().recv(); // until the other end is dropped
            }
        }));
        options.values = Some(Values::Log);
        options.idle_durability_ms = 0; // or a turn would sync
        let db = Db::open_in_memory(options).expect("open");
        let rests = |wanted: bool| {
            let end = db.shared().clock.now() + Duration::from_secs(60);
            while db.shared().control.lock().busy.lull.is_long() != wanted {
                assert!(db.shared().clock.now() < end, "STILL: rests is to be {wanted}");
                thread::sleep(Duration::from_millis(10));
            }
        };
        rests(true);
        thread::scope(|scope| {
            let go_on = go_on; // dropped also if this panics
            let put = scope.spawn(|| db.put_with("key", "value", WriteOptions::synced()));
            begun.recv().expect("told");
            rests(false);
            thread::sleep(4 * LONG);
            assert!(!db.shared().control.lock().busy.lull.is_long(), "RESTS beside a writer");
            drop(go_on);
            put.join().expect("joined").expect("put");
        });
        rests(true);
        db.close().expect("close");
    }
}
