//! The idle timer: it detects that no writes arrive, returns unused memory, and makes the last
//! writes durable. A *tick* is one check for new writes. A *round* is a sequence of several ticks.
//! At the end of a round the timer returns unused memory and, if no write has arrived during the
//! round, makes the last writes durable.
//!
//! The timer holds only weak references to the store. With a strong reference, a tick could hold
//! the last reference to the store and would then have to close the store.
//!
//! If the store has been idle for a long time and has no work left, the timer stops, so that an
//! idle store has no thread. The next commit leader starts the timer again.
use super::{make_durable, report};
use crate::{info_log, state::DbInner, write::WritePath};
use parking_lot::Mutex;
use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};
use terrace_format::SeqNo;

/// Longest time between two ticks (checks for new writes). The store is idle if no write arrives
/// between two ticks.
const PERIOD: Duration = Duration::from_millis(250);
/// The store counts as idle for a long time once this time has passed since a tick that saw a
/// write. The timer reports the long idle state within a second of the last write. If two rounds
/// are shorter than this constant, the timer uses the time of two rounds instead.
const LONG_IDLE: Duration = Duration::from_millis(400);
/// Time between two rounds, if the timer does not have to make writes durable.
const ROUND: Duration = Duration::from_millis(2500);

/// Shortest time between two lines with statistics in the information log.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The idle timer of one store.
pub struct IdleTimer {
    shared: Weak<DbInner>,
    writes: Option<Weak<WritePath>>,
    /// Time between two rounds: half of `idle_durability_ms`. The reason: one round sees a write,
    /// and only the next round sees that no further write has followed.
    round: Duration,
    makes_durable: bool,
    observed: Mutex<Observed>, // a leaf lock
}

/// The state of the store at the last tick.
#[derive(Debug, Default)]
struct Observed {
    newest: u64,
    /// The time of the last tick that saw activity: a new sequence number, or a writer at work.
    since: Duration,
    /// Whether the last tick found no write since the tick before it. If so, the timer has already
    /// reported that the store is idle.
    idle_begins: bool,
    long: bool,
    ticks: u32,
    /// The newest sequence number at the last round.
    last_round: u64,
    /// The time at which the statistics were last written to the information log.
    logged: Duration,
}

/// The result of a tick.
#[derive(Debug, PartialEq, Eq)]
struct TickResult {
    /// Whether the store begins to be idle at this tick: after the last write, this is the first
    /// tick that found no new write.
    idle_begins: bool,
    /// Whether the store has been idle for a long time. The field has a value only if the answer
    /// has changed since the last tick, or if a round ends at this tick.
    long: Option<bool>,
    /// Whether no write has arrived since the end of the previous round. The field has a value only
    /// if a round ends at this tick.
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

    /// Returns the time between two ticks.
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
        // The timer does not stop while a snapshot exists: the release of the snapshot may cause
        // work that this tick has not seen.
        let no_snapshots = shared.snapshots.len() == 0;
        if found.idle_begins {
            shared.update_idle(|idle| idle.set_idle(newest));
        }
        let mut all_known = true;
        if let Some(long) =
            found.long.filter(|_| shared.separates_values || shared.options.tombstone_compaction_percent > 0)
        {
            if long {
                shared.load_range_tombstone_flags();
                all_known = shared.load_table_contents();
            }
            shared.update_idle(|idle| idle.set_long_idle(long && newest == shared.visible().0));
        }
        let Some(quiet) = found.round else { return };
        shared.storage.budget().rest();
        if !quiet {
            self.log_statistics(&shared, now);
        }
        if quiet && self.makes_durable {
            // An error of the sync is ignored here: the failure has stopped the store, and the
            // store's next write reports it.
            let _ = make_durable(&shared, &writes);
        }
        if quiet && found.long == Some(true) && all_known && no_snapshots && self.has_nothing_to_do(&shared) {
            shared.storage.budget().empty();
            writes.stop_timer(&shared, SeqNo(newest), || self.has_nothing_to_do(&shared));
        }
    }

    /// Writes the statistics to the information log, at most once in [`LOG_PERIOD`].
    fn log_statistics(&self, shared: &DbInner, now: Duration) {
        let mut observed = self.observed.lock();
        if now.saturating_sub(observed.logged) < LOG_PERIOD {
            return;
        }
        observed.logged = now;
        drop(observed);
        shared.options.log(|| info_log::statistics(&shared.options, &report::statistics(shared)));
    }

    /// Returns whether the idle timer can stop because no later tick would find work before the
    /// next write. Two conditions must be true. No job runs or waits for space. And all writes are
    /// durable, or this timer does not make writes durable.
    fn has_nothing_to_do(&self, shared: &DbInner) -> bool {
        let state = shared.state.lock();
        let jobs = state.flush_scheduled || state.commit_scheduled || !state.compactions.is_empty();
        let gc = state.gc.relocating || state.gc.forced || state.gc.out_of_space || state.gc.low_on_space;
        let durable = !self.makes_durable || shared.safe_sequence() >= shared.visible().0;
        !jobs && !gc && !state.optional_suspended && durable
    }
}

impl Observed {
    /// Evaluates a tick at the time `now`. `newest` is the newest sequence number; `idle` is false
    /// while a writer is at work. If a stalled writer is at work, the tick sees no new write, but
    /// the time until the long idle state starts again from zero.
    fn look(&mut self, newest: u64, idle: bool, now: Duration, long: Duration, ticks_per_round: u32) -> TickResult {
        let same = newest == self.newest;
        if !same || !idle {
            self.since = now;
        }
        self.newest = newest;
        self.ticks = (self.ticks + 1) % ticks_per_round;
        let round = (self.ticks == 0).then(|| newest == mem::replace(&mut self.last_round, newest));
        let was_idle = mem::replace(&mut self.idle_begins, same);
        let long = now.saturating_sub(self.since) >= long;
        let changes = long != mem::replace(&mut self.long, long);
        TickResult { idle_begins: same && !was_idle, long: (changes || round.is_some()).then_some(long), round }
    }
}

/// Records that a caller waits until all background work is done. The caller waits as long as this
/// value exists.
pub struct IdleWait<'a>(&'a Arc<DbInner>);

impl IdleWait<'_> {
    pub fn begin(shared: &Arc<DbInner>) -> IdleWait<'_> {
        shared.load_range_tombstone_flags();
        shared.load_table_contents();
        let mut state = shared.state.lock();
        state.compactions.idle.wait();
        shared.schedule(&mut state);
        IdleWait(shared)
    }
}

impl Drop for IdleWait<'_> {
    fn drop(&mut self) {
        self.0.state.lock().compactions.idle.remove_waiter();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Event, Options, WriteOptions};
    use std::{sync::mpsc, thread};
    use terrace_format::Values;

    #[test]
    fn a_long_idle_time_is_reported_within_a_second() {
        for interval_ms in [1_u64, 100, 499, 500, 501, 998, 5000, 100_000] {
            let round = Duration::from_millis(interval_ms) / 2;
            let timer =
                IdleTimer { shared: Weak::new(), writes: None, round, makes_durable: true, observed: Mutex::default() };
            // In this test the write arrives directly after a tick, so the next tick sees it as
            // late as possible.
            let (mut observed, mut now) = (Observed::default(), timer.period());
            while observed.look(1, true, now, timer.long(), timer.ticks_per_round()).long != Some(true) {
                now += timer.period();
            }
            let bounds = LONG_IDLE.min(2 * round)..=Duration::from_secs(1);
            assert!(bounds.contains(&now), "after {now:?} where idle_durability_ms is {interval_ms}");
        }
    }

    #[test]
    fn idleness_is_reported_once_and_a_round_covers_all_its_ticks() {
        let mut observed = Observed::default();
        let mut now = Duration::ZERO;
        let found: Vec<_> = [5, 5, 5, 6, 6, 6, 6, 6, 6]
            .map(|newest| {
                now += PERIOD;
                observed.look(newest, true, now, LONG_IDLE, 3)
            })
            .into();
        let begins: Vec<_> = found.iter().map(|found| found.idle_begins).collect();
        assert_eq!(begins, [false, true, false, false, true, false, false, false, false]);
        let long: Vec<_> = found.iter().map(|found| found.long).collect();
        let (begun, over) = (Some(true), Some(false));
        assert_eq!(long, [None, None, begun, over, None, begun, None, None, begun], "the last two at rounds");
        let turns: Vec<_> = found.iter().map(|found| found.round).collect();
        assert_eq!(turns, [None, None, Some(false), None, None, Some(false), None, None, Some(true)]);
    }

    #[test]
    fn a_store_with_a_waiting_writer_is_not_idle_for_long() {
        let mut observed = Observed::default();
        let mut look = |at, idle| observed.look(5, idle, PERIOD * at, LONG_IDLE, 100);
        let busy: Vec<_> = (1..8).map(|at| look(at, false)).collect();
        assert!(busy.iter().all(|found| found.long.is_none()), "{busy:?}");
        let idle: Vec<_> = (8..11).map(|at| look(at, true).long).collect();
        assert_eq!(idle, [None, Some(true), None]);
        assert_eq!(look(11, false).long, Some(false));
    }

    /// Tests a put that blocks in its sync while no further write arrives. Background work that
    /// needs an idle store must not start before the put returns.
    #[test]
    fn optional_work_does_not_start_while_a_writer_is_blocked() {
        let (began, begun) = mpsc::channel();
        let (go_on, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let mut options = Options::default().listener(Arc::new(move |event: &Event| {
            if matches!(event, Event::SyncBegin) {
                let _ = began.send(());
                let _ = released.lock().recv(); // returns when the other end is dropped
            }
        }));
        options.values = Some(Values::Log);
        options.idle_durability_ms = 0; // so that no round syncs
        let db = Db::open_in_memory(options).expect("open");
        let wait_for_idle = |wanted: bool| {
            let end = db.shared().clock.now() + Duration::from_secs(60);
            while db.shared().state.lock().compactions.idle.is_long_idle() != wanted {
                assert!(db.shared().clock.now() < end, "STILL waiting for idle = {wanted}");
                thread::sleep(Duration::from_millis(10));
            }
        };
        wait_for_idle(true);
        thread::scope(|scope| {
            let go_on = go_on; // so that a panic drops it too
            let put = scope.spawn(|| db.put_with("key", "value", WriteOptions::synced()));
            begun.recv().expect("the listener ran");
            wait_for_idle(false);
            thread::sleep(4 * LONG_IDLE);
            assert!(!db.shared().state.lock().compactions.idle.is_long_idle(), "IDLE although a writer is blocked");
            drop(go_on);
            put.join().expect("joined").expect("put");
        });
        wait_for_idle(true);
        db.close().expect("close");
    }
}
