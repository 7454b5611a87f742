//! Admission of a write: whether the write may proceed, how long it is delayed, and whether it
//! must wait for background work. [`stall`] decides, and this module waits.
use super::{
    rotate::rotate_wal,
    stall::{self, Admission, admit},
    writer::WriterState,
};
use crate::{
    Error, Event, Result,
    bounds::BacklogBounds,
    state::{DbInner, DbState},
    stats::StallCause,
};
use std::{
    mem,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::precise_sleep;

/// The delay of LevelDB's slowdown. When level 0 has many runs, each write sleeps for this time,
/// so that compactions can use the processor.
const DELAY: Duration = Duration::from_millis(1);

/// Waits until the active memtable can take `bytes` more bytes.
#[inline]
pub(super) fn make_room(shared: &Arc<DbInner>, writer: &mut WriterState, bytes: usize) -> Result<()> {
    let full = writer.is_full(&shared.options);
    let nothing_new = writer.seen_epoch == Some(shared.stall_epoch.load(Ordering::Acquire));
    if !full && nothing_new && writer.delay_per_byte == 0.0 {
        return Ok(());
    }
    make_room_slow(shared, writer, bytes, full || !nothing_new)
}

/// The stall of one write, from its beginning until now.
#[derive(Default)]
struct Stall {
    begun: bool,
    /// The time waited, by [`StallCause`].
    waited: [Duration; StallCause::ALL.len()],
}

impl Stall {
    /// Notifies the listener of the beginning of the stall, but only once. The caller must hold no
    /// lock.
    fn begin(&mut self, shared: &DbInner) {
        if !mem::replace(&mut self.begun, true) {
            shared.options.notify(|| Event::StallBegin);
        }
    }

    /// If the write was stalled, counts the stall and notifies the listener of its end.
    fn end(self, shared: &DbInner) {
        if self.begun {
            shared.stats.stalled(&self.waited);
            shared.options.notify(|| Event::StallEnd { time: self.waited.iter().sum() });
        }
    }
}

/// Does the work of [`make_room`] if background work may delay the write. If `look` is set, the
/// function first waits until the write controller admits the write. If `look` is not set, it only
/// sleeps for the throttle debt.
#[inline(never)]
fn make_room_slow(shared: &Arc<DbInner>, writer: &mut WriterState, bytes: usize, look: bool) -> Result<()> {
    let mut stall = Stall::default();
    let outcome = if look { wait_for_room(shared, writer, &mut stall) } else { Ok(()) };
    if outcome.is_ok() {
        sleep_off_debt(shared, writer, bytes, &mut stall);
    }
    stall.end(shared);
    outcome
}

/// Adds the delay for `bytes` bytes to the throttle debt, and sleeps if the debt is large enough.
fn sleep_off_debt(shared: &DbInner, writer: &mut WriterState, bytes: usize, stall: &mut Stall) {
    if writer.delay_per_byte == 0.0 {
        return writer.throttle_debt.clear();
    }
    let Some(time) = writer.throttle_debt.charge_write(writer.delay_per_byte * bytes as f64) else { return };
    stall.begin(shared);
    let started = shared.clock.now();
    precise_sleep(time);
    let slept = shared.clock.since(started);
    writer.throttle_debt.slept(slept);
    stall.waited[writer.delay_cause as usize] += slept;
}

fn wait_for_room(shared: &Arc<DbInner>, writer: &mut WriterState, stall: &mut Stall) -> Result<()> {
    let mut delayed = false;
    loop {
        let free = shared.free_bytes();
        let mut state = shared.state.lock();
        shared.check_writable(&state)?;
        let inputs = inputs(shared, writer, &state, free, delayed);
        match admit(&shared.options, &inputs) {
            Admission::Proceed => {
                // If LevelDB's slowdown delays single writes, every write must check the state of
                // the store. So the leader does not store the stall epoch, which lets later writes
                // skip this check.
                writer.seen_epoch = (!delayed).then(|| shared.stall_epoch.load(Ordering::Acquire));
                (writer.delay_per_byte, writer.delay_cause) = stall::delay_per_byte(&shared.options, &inputs);
                return Ok(());
            }
            Admission::Slowdown => {
                drop(state);
                stall.begin(shared);
                thread::sleep(DELAY);
                stall.waited[StallCause::Level0 as usize] += DELAY;
                delayed = true;
            }
            // The store is closing, so no compaction starts any more that could end this wait.
            Admission::Stop if state.closing => return Err(Error::Closed),
            Admission::Stop => {
                if let Some(damage) = blocked_by_damage(shared, &state, &inputs) {
                    return Err(Error::FailStopped(Arc::new(damage)));
                }
                if !stall.begun {
                    drop(state);
                    stall.begin(shared);
                    continue; // the state may have changed
                }
                let cause = stall::stop_cause(&shared.options, &inputs);
                let started = shared.clock.now();
                let _awaits = stall::waits_for_commit(&inputs).then(|| shared.storage.io_stats().wait_for_syncs());
                shared.wait_for_change(&mut state)?;
                stall.waited[cause as usize] += shared.clock.since(started);
            }
            Admission::Seal => {
                drop(state);
                rotate_wal(shared, writer)?;
            }
        }
    }
}

/// Level 0 has reached its stop trigger. If damage in a table prevents its compaction, returns the
/// error of this damage. Returns `None` if a compaction may still reduce the number of its runs.
fn blocked_by_damage(shared: &DbInner, state: &DbState, inputs: &stall::StallInputs) -> Option<Error> {
    if inputs.l0_runs < shared.options.level0_stop_writes_trigger || !state.compactions.is_empty() {
        return None;
    }
    let near = state.compactions.damage_in(0).or(state.compactions.damage_in(1));
    let damage = near.or(state.compactions.first_damage())?;
    shared.pick_compaction(state).is_none().then(|| damage.clone())
}

fn inputs(
    shared: &DbInner,
    writer: &WriterState,
    state: &DbState,
    free: Option<u64>,
    delayed: bool,
) -> stall::StallInputs {
    let ((debt_bytes, unmerged), retained_bytes) = (shared.compaction_debt(), state.versions.retained_bytes());
    stall::StallInputs {
        full: writer.is_full(&shared.options),
        sealed: state.sealed,
        l0_runs: shared.stall_runs(state),
        debt_bytes,
        pending_compaction_bytes: if state.compactions.merges() { unmerged } else { 0 },
        retained_bytes,
        bounds: BacklogBounds::of(&shared.options, free, unmerged, retained_bytes),
        too_many_wals: shared.has_too_many_wals(state),
        delayed,
    }
}
