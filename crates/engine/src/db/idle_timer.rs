//! What a store does from time to time: it sees whether anybody writes, gives memory back that nobody needs, and makes durable what
//! the last writer left. A tick must not keep the store open: it would have to close it.
use super::make_durable;
use crate::{state::DbInner, write::WritePath};
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
const LONG_IDLE: Duration = Duration::from_millis(400);
/// Between two of the turns that do more, where nothing becomes durable on its own.
const ROUND: Duration = Duration::from_millis(2500);

/// A store, as its ticks see it.
pub struct IdleTimer {
    shared: Weak<DbInner>,
    writes: Option<Weak<WritePath>>,
    /// Half of what an idle store has time to become durable: what was written is seen by one turn, and that nothing followed by the next.
    round: Duration,
    makes_durable: bool,
    observed: Mutex<Observed>, // a leaf
}

/// What there was at the last tick.
#[derive(Debug, Default)]
struct Observed {
    newest: u64,
    /// When a tick saw that first, or a writer at work last.
    since: Duration,
    /// What was told of the lull since then.
    idle_begins: bool,
    long: bool,
    ticks: u32,
    /// At the last turn.
    last_round: u64,
}

/// What a tick has found.
#[derive(Debug, PartialEq, Eq)]
struct TickResult {
    /// A lull begins.
    idle_begins: bool,
    /// Whether it is a long one, where that has changed, and at each turn.
    long: Option<bool>,
    /// It is time for more; and whether nothing was written since the last such turn.
    round: Option<bool>,
}

impl IdleTimer {
    pub fn new(shared: &Arc<DbInner>, writes: Option<&Arc<WritePath>>) -> IdleTimer {
        let interval = Duration::from_millis(shared.options.idle_durability_ms);
        let makes_durable = !interval.is_zero();
        let round = if makes_durable { interval / 2 } else { ROUND };
        let writes = writes.map(Arc::downgrade);
        IdleTimer { shared: Arc::downgrade(shared), writes, round, makes_durable, observed: Mutex::default() }
    }

    /// Between two ticks.
    pub fn period(&self) -> Duration {
        self.round / self.ticks_per_round()
    }

    fn ticks_per_round(&self) -> u32 {
        u32::try_from(self.round.as_nanos().div_ceil(PERIOD.as_nanos())).unwrap_or(u32::MAX)
    }

    fn long(&self) -> Duration {
        LONG_IDLE.min(2 * self.round)
    }

    pub fn tick(&self) {
        let (Some(shared), Some(writes)) = (self.shared.upgrade(), self.writes.as_ref().and_then(Weak::upgrade)) else {
            return;
        };
        let (idle, newest, now) = (writes.are_idle(), shared.visible().0, shared.clock.now());
        let found = self.observed.lock().look(newest, idle, now, self.long(), self.ticks_per_round());
        if found.idle_begins {
            shared.update_idle(|idle_begins| idle_begins.rest(newest));
        }
        if let Some(long) =
            found.long.filter(|_| shared.separates_values || shared.options.tombstone_compaction_percent > 0)
        {
            if long {
                shared.load_range_tombstone_flags();
                shared.load_table_contents();
            }
            shared.update_idle(|idle_begins| idle_begins.rest_long(long && newest == shared.visible().0));
        }
        let Some(quiet) = found.round else { return };
        shared.storage.budget().rest();
        if quiet && self.makes_durable {
            let _ = make_durable(&shared, &writes); // a failure has stopped the store, and its next writer hears of it
        }
    }
}

impl Observed {
    /// A tick at `now`. While a writer is held up nothing new is seen, but that is no long lull.
    fn look(&mut self, newest: u64, idle: bool, now: Duration, long: Duration, ticks_per_round: u32) -> TickResult {
        let same = newest == self.newest;
        if !same || !idle {
            self.since = now;
        }
        self.newest = newest;
        self.ticks = (self.ticks + 1) % ticks_per_round;
        let round = (self.ticks == 0).then(|| newest == mem::replace(&mut self.last_round, newest));
        let was_lull = mem::replace(&mut self.idle_begins, same);
        let long = now.saturating_sub(self.since) >= long;
        let changes = long != mem::replace(&mut self.long, long);
        TickResult { idle_begins: same && !was_lull, long: (changes || round.is_some()).then_some(long), round }
    }
}

/// Somebody waits until all work is done, as long as this lives.
pub struct IdleWait<'a>(&'a Arc<DbInner>);

impl IdleWait<'_> {
    pub fn begin(shared: &Arc<DbInner>) -> IdleWait<'_> {
        shared.load_range_tombstone_flags();
        shared.load_table_contents();
        let mut state = shared.state.lock();
        state.compactions.lull.wait();
        shared.schedule(&mut state);
        IdleWait(shared)
    }
}

impl Drop for IdleWait<'_> {
    fn drop(&mut self) {
        self.0.state.lock().compactions.lull.wait_no_more();
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
            let round = Duration::from_millis(interval_ms) / 2;
            let ticks =
                IdleTimer { shared: Weak::new(), writes: None, round, makes_durable: true, observed: Mutex::default() };
            let (mut observed, mut now) = (Observed::default(), ticks.period()); // a write right behind the tick before
            while observed.look(1, true, now, ticks.long(), ticks.ticks_per_round()).long != Some(true) {
                now += ticks.period();
            }
            let bounds = LONG_IDLE.min(2 * round)..=Duration::from_secs(1);
            assert!(bounds.contains(&now), "after {now:?} where idle_durability_ms is {interval_ms}");
        }
    }

    #[test]
    fn a_lull_is_told_once_and_a_turn_sees_what_ticks_between_it_saw() {
        let mut observed = Observed::default();
        let mut now = Duration::ZERO;
        let found: Vec<_> = [5, 5, 5, 6, 6, 6, 6, 6, 6]
            .map(|newest| {
                now += PERIOD;
                observed.look(newest, true, now, LONG_IDLE, 3)
            })
            .into();
        let lulls: Vec<_> = found.iter().map(|found| found.idle_begins).collect();
        assert_eq!(lulls, [false, true, false, false, true, false, false, false, false]);
        let long: Vec<_> = found.iter().map(|found| found.long).collect();
        let (begun, over) = (Some(true), Some(false));
        assert_eq!(long, [None, None, begun, over, None, begun, None, None, begun], "the last two at turns");
        let turns: Vec<_> = found.iter().map(|found| found.round).collect();
        assert_eq!(turns, [None, None, Some(false), None, None, Some(false), None, None, Some(true)]);
    }

    #[test]
    fn while_a_writer_waits_it_is_no_long_lull() {
        let mut observed = Observed::default();
        let mut look = |at, idle| observed.look(5, idle, PERIOD * at, LONG_IDLE, 100);
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
            while db.shared().state.lock().compactions.lull.is_long() != wanted {
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
            thread::sleep(4 * LONG_IDLE);
            assert!(!db.shared().state.lock().compactions.lull.is_long(), "RESTS beside a writer");
            drop(go_on);
            put.join().expect("joined").expect("put");
        });
        rests(true);
        db.close().expect("close");
    }
}
