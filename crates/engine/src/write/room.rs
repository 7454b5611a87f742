//! Room for a write: whether it may go on, what it owes, and the waits for background work that either takes.
use super::{
    WriterState,
    rotate::change_log,
    stall::{self, Room, room},
};
use crate::{
    Error, Event, Options, Result,
    bounds::Bounds,
    state::{DbInner, DbState},
};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::nap;

/// LevelDB's brake: each write gives compaction this much time once level 0 grows long.
const DELAY: Duration = Duration::from_millis(1);

impl WriterState {
    /// Whether memtable or log have to end.
    fn is_full(&self, options: &Options) -> bool {
        self.mem.charged_bytes() > options.write_buffer_size || self.wal.is_full()
    }
}

/// Returns once the active memtable may take `bytes` more.
#[inline]
pub(super) fn make_room(shared: &Arc<DbInner>, core: &mut WriterState, bytes: usize) -> Result<()> {
    let full = core.is_full(&shared.options);
    let nothing_new = core.seen == Some(shared.news.load(Ordering::Acquire));
    if !full && nothing_new && core.pace == 0.0 {
        return Ok(());
    }
    make_room_in_time(shared, core, bytes, full || !nothing_new)
}

/// As [`make_room`], where background work has a say: it is looked at anew, or writers only owe it time.
#[inline(never)]
fn make_room_in_time(shared: &Arc<DbInner>, core: &mut WriterState, bytes: usize, look: bool) -> Result<()> {
    let mut waited = Duration::ZERO;
    let outcome = if look { wait_for_room(shared, core, &mut waited) } else { Ok(()) };
    if outcome.is_ok() {
        pay(shared, core, bytes, &mut waited);
    }
    if !waited.is_zero() {
        shared.stats.stalled(waited);
        shared.options.tell(|| Event::StallEnded { time: waited });
    }
    outcome
}

/// Gives background work the time that `bytes` are due.
fn pay(shared: &DbInner, core: &mut WriterState, bytes: usize, waited: &mut Duration) {
    if core.pace == 0.0 {
        return core.owed.forgive();
    }
    let Some(time) = core.owed.add(core.pace * bytes as f64) else { return };
    begin_stall(shared, *waited);
    let started = shared.clock.now();
    nap(time);
    let slept = shared.clock.since(started);
    core.owed.paid(slept);
    *waited += slept;
}

/// Tells of a stall that begins, unless this write has waited before.
fn begin_stall(shared: &DbInner, waited: Duration) {
    if waited.is_zero() {
        shared.options.tell(|| Event::StallBegun);
    }
}

fn wait_for_room(shared: &Arc<DbInner>, core: &mut WriterState, waited: &mut Duration) -> Result<()> {
    let mut delayed = false;
    loop {
        let free = shared.free_bytes();
        let mut control = shared.control.lock();
        shared.check_writable(&control)?;
        let facts = facts(shared, core, &control, free, delayed);
        match room(&shared.options, &facts) {
            Room::Enough => {
                // As long as writes are delayed one by one, every one of them has to look.
                core.seen = (!delayed).then(|| shared.news.load(Ordering::Acquire));
                core.pace = stall::pace(&shared.options, &facts);
                return Ok(());
            }
            Room::Delay => {
                drop(control);
                begin_stall(shared, *waited);
                thread::sleep(DELAY);
                *waited += DELAY;
                delayed = true;
            }
            Room::Wait => {
                if let Some(damage) = held_up_by_damage(shared, &control, &facts) {
                    return Err(Error::FailStopped(Arc::new(damage)));
                }
                let started = shared.clock.now();
                begin_stall(shared, *waited);
                let _awaits = stall::waits_for_commit(&facts).then(|| shared.storage.traffic().await_others());
                shared.wait_for_change(&mut control)?;
                *waited += shared.clock.since(started);
            }
            Room::Seal => {
                drop(control);
                change_log(shared, core)?;
            }
        }
    }
}

/// The damage for which level 0, which is as long as it may get, cannot be made shorter; `None` if something may still be done about it.
fn held_up_by_damage(shared: &DbInner, control: &DbState, facts: &stall::Facts) -> Option<Error> {
    if facts.l0_runs < shared.options.level0_stop_writes_trigger || !control.busy.is_empty() {
        return None;
    }
    let near = control.busy.damage_in(0).or(control.busy.damage_in(1));
    let damage = near.or(control.busy.first_damage())?;
    shared.next_plan(control).is_none().then(|| damage.clone())
}

fn facts(shared: &DbInner, core: &WriterState, control: &DbState, free: Option<u64>, delayed: bool) -> stall::Facts {
    let view = shared.view.load();
    let ((debt_bytes, unmerged), retained_bytes) = (shared.debt(), control.versions.retained_bytes());
    stall::Facts {
        full: core.is_full(&shared.options),
        sealed: view.sealed.len() as u64,
        l0_runs: view.version.levels[0].runs.len() as u64,
        debt_bytes,
        merging_bytes: if control.busy.merges() { unmerged } else { 0 },
        retained_bytes,
        bounds: Bounds::of(&shared.options, free, unmerged, retained_bytes),
        too_many_logs: shared.has_too_many_logs(control),
        delayed,
    }
}
