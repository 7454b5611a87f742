//! The rate limiter of background I/O (`rate_bytes_per_sec`). It makes compactions and value-log
//! GC wait if together they write faster than this rate.
use crate::{bounds::BacklogBounds, compact::parallelism, state::DbInner};
use std::{thread, time::Duration};
use terrace_storage::Purpose;

/// The number of bytes that a compaction writes between two checks of the rate.
const BYTES_PER_LOOK: u64 = 64 << 10;

/// The minimum wait. A shorter wait is not slept, but adds to the next one.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// The maximum time of one sleep. After each sleep the caller checks again whether it still has to
/// wait.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Waits while compactions and value-log GC together write faster than `rate_bytes_per_sec`, if
/// this option is set. `bytes_at_last_check` is the number of bytes that they had written at the
/// caller's last check. The function does not wait while compactions are so slow that writers are
/// slowed or soon would be. After a failure of the store it does not wait either, because
/// `Db::resume` waits for the end of all jobs.
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
        let io_stats = shared.storage.io_stats();
        io_stats.bytes(Purpose::Compaction) + io_stats.bytes(Purpose::ValueLogGc) + shared.stats.relocated_bytes()
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

/// Returns whether compactions are so slow that writes are slowed or soon would be.
fn compactions_are_behind(shared: &DbInner) -> bool {
    let (free, retained) = (shared.free_bytes(), shared.state.lock().versions.retained_bytes());
    let ((debt, unmerged), most) = (shared.compaction_debt(), shared.options.soft_pending_compaction_bytes_limit);
    let indebted = most > 0 && debt >= most / 2;
    let low_on_space = unmerged >= BacklogBounds::of(&shared.options, free, unmerged, retained).unmerged_bytes / 2;
    indebted || low_on_space || parallelism::is_pressing(&shared.options, shared.stall_runs(&shared.state.lock()))
}
