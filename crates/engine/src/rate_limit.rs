//! Compactions and collectors that write too fast for the share of the device that they are granted wait.
use crate::{bounds::Bounds, compact::pace, state::DbInner};
use std::{thread, time::Duration};
use terrace_storage::Purpose;

/// How many bytes compactions write between two looks at whether that is too fast.
const BYTES_PER_LOOK: u64 = 64 << 10;

/// Shorter waits add up first.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// How long to sleep before looking again whether there is still a reason to.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Waits, if they have a limit, as long as compactions may not write, which had written `looked_at` bytes when this was last asked: not
/// at all where they have fallen behind, since writers would wait for them, nor where writing has failed, since who resumes it does.
#[inline]
pub fn throttle(shared: &DbInner, bytes_at_last_check: &mut u64) {
    if shared.options.rate_bytes_per_sec > 0 {
        throttle_slow(shared, shared.options.rate_bytes_per_sec, bytes_at_last_check);
    }
}

#[cold]
#[inline(never)]
fn throttle_slow(shared: &DbInner, per_second: u64, bytes_at_last_check: &mut u64) {
    let total = || {
        let traffic = shared.storage.traffic();
        traffic.bytes(Purpose::Compaction) + traffic.bytes(Purpose::ValueLogGc) + shared.stats.put_again_bytes()
    };
    if total() < *bytes_at_last_check + BYTES_PER_LOOK {
        return;
    }
    loop {
        let (total, now) = (total(), shared.clock.now());
        *bytes_at_last_check = total;
        if shared.work.stopping() || has_failed(shared) || compactions_are_behind(shared) {
            return shared.rate.lock().forgive(total, now);
        }
        let wait = shared.rate.lock().wait(total, per_second, now);
        if wait < WAIT_MIN {
            return;
        }
        thread::sleep(wait.min(WAIT_MAX));
    }
}

fn has_failed(shared: &DbInner) -> bool {
    shared.check_writable(&shared.state.lock()).is_err()
}

/// Whether writes are slowed for want of compactions, or soon would be.
fn compactions_are_behind(shared: &DbInner) -> bool {
    let (free, retained) = (shared.free_bytes(), shared.state.lock().versions.retained_bytes());
    let ((debt, unmerged), most) = (shared.compaction_debt(), shared.options.soft_pending_compaction_bytes_limit);
    let indebted = most > 0 && debt >= most / 2;
    let cramped = unmerged >= Bounds::of(&shared.options, free, unmerged, retained).unmerged_bytes / 2;
    indebted || cramped || pace::is_pressing(&shared.options, shared.view.load().version.levels[0].runs.len() as u64)
}
