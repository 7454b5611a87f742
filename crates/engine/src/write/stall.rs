//! Write stalls: the write controller decides whether a write may proceed, or whether background
//! work must make progress first. This module does no I/O.
//!
//! The rules and their order are LevelDB's. With `delayed_writes`, a rate limit on writes replaces
//! LevelDB's slowdown. The rate decreases steadily as the backlog grows, so that no single write
//! waits long.
use crate::{Options, bounds::BacklogBounds, stats::StallCause};

/// Bytes per second that writers may write when the backlog begins to delay them.
const RATE_MAX: f64 = (512 << 20) as f64;
/// Bytes per second that writers may write when the backlog reaches a limit at which they would
/// have to stop.
const RATE_MIN: f64 = (2 << 20) as f64;

/// The inputs of the decision about one write.
#[derive(Clone, Copy, Debug)]
pub struct StallInputs {
    /// Whether the active memtable has reached its size.
    pub full: bool,
    /// Number of immutable memtables that wait for their flush.
    pub sealed: u64,
    /// Number of sorted runs in level 0.
    pub l0_runs: u64,
    /// Compaction debt: the bytes above the target sizes of levels.
    pub debt_bytes: u64,
    /// While a compaction runs: the compaction debt plus the bytes of level 0. Otherwise 0, because
    /// a writer that these bytes stop waits until a compaction ends, and none would end.
    pub pending_compaction_bytes: u64,
    /// Bytes of obsolete files that are kept until the files that replace them are durable.
    pub retained_bytes: u64,
    /// The limits on `pending_compaction_bytes` and `retained_bytes`.
    pub bounds: BacklogBounds,
    /// Whether there are so many closed WALs that no other WAL may be closed until the SSTables
    /// with their entries are durable.
    pub too_many_wals: bool,
    /// Whether this write was slowed down already.
    pub delayed: bool,
}

/// The decision about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The write proceeds.
    Proceed,
    /// The write sleeps once for a short time. In this way many writes are slowed a little, instead
    /// of one write a lot.
    Slowdown,
    /// The write waits until a background job has ended.
    Stop,
    /// The writer seals the memtable. Then the write controller decides again.
    Seal,
}

/// Returns the decision about the write with these `inputs`.
pub fn admit(options: &Options, inputs: &StallInputs) -> Admission {
    let blocked = waits_for_commit(inputs) || inputs.bounds.stops_at_debt(inputs.pending_compaction_bytes);
    if !options.delayed_writes && !inputs.delayed && inputs.l0_runs >= options.level0_slowdown_writes_trigger {
        Admission::Slowdown
    } else if !inputs.full {
        Admission::Proceed
    } else if inputs.sealed + 1 >= options.max_write_buffer_number
        || inputs.l0_runs >= options.level0_stop_writes_trigger
        || blocked
    {
        Admission::Stop
    } else {
        Admission::Seal
    }
}

/// Returns whether a stopped writer waits until the file system makes data durable. If not, it
/// waits for a job of the store.
pub fn waits_for_commit(inputs: &StallInputs) -> bool {
    inputs.bounds.stop_at(inputs.retained_bytes) || inputs.too_many_wals
}

/// Returns what a write waits for that [`admit`] stops.
pub fn stop_cause(options: &Options, inputs: &StallInputs) -> StallCause {
    if inputs.sealed + 1 >= options.max_write_buffer_number {
        StallCause::Memtables
    } else if inputs.l0_runs >= options.level0_stop_writes_trigger {
        StallCause::Level0
    } else if waits_for_commit(inputs) {
        StallCause::Durability
    } else {
        StallCause::CompactionDebt
    }
}

/// Returns the delay of a write in seconds per byte, and its cause; 0 if writes are not delayed.
/// The write rate falls exponentially as the backlog approaches a limit: equal steps towards the
/// limit divide the rate by the same factor. So the rate settles at the speed of background
/// work, on fast and slow devices.
pub fn delay_per_byte(options: &Options, inputs: &StallInputs) -> (f64, StallCause) {
    let (cause, worst) = worst_backlog(options, inputs);
    if !options.delayed_writes || worst == 0.0 {
        return (0.0, cause);
    }
    (1.0 / (RATE_MAX * (RATE_MIN / RATE_MAX).powf(worst)), cause)
}

/// Returns the largest backlog as a number from 0 (writes are not delayed) to 1 (writes stop), with
/// its cause.
fn worst_backlog(options: &Options, inputs: &StallInputs) -> (StallCause, f64) {
    let runs = fraction(inputs.l0_runs, options.level0_slowdown_writes_trigger - 1, options.level0_stop_writes_trigger);
    // One immutable memtable does not count as backlog, because its flush is already running.
    let sealed = fraction(inputs.sealed, 1, options.max_write_buffer_number);
    let BacklogBounds { unmerged_bytes, retained_bytes, .. } = inputs.bounds;
    let debt = fraction(
        inputs.debt_bytes,
        options.soft_pending_compaction_bytes_limit / 2,
        options.soft_pending_compaction_bytes_limit,
    );
    let unmerged = fraction(inputs.pending_compaction_bytes, unmerged_bytes / 2, unmerged_bytes);
    // A long compaction makes many files obsolete at its end, and the bytes of these files may then
    // stop the writers. Writers that are slowed during the compaction wait less at its end.
    let retained = fraction(inputs.retained_bytes, inputs.bounds.retained_before_slowdown(), retained_bytes);
    let backlogs = [sealed, runs, debt.max(unmerged), retained];
    let all = StallCause::ALL.into_iter().zip(backlogs);
    all.reduce(|worst, other| if other.1 > worst.1 { other } else { worst }).expect("there are causes")
}

/// Returns the position of `at` in the interval from `from` to `to`, as a number from 0 to 1; 0 if
/// the interval is empty.
fn fraction(at: u64, from: u64, to: u64) -> f64 {
    if to <= from { 0.0 } else { (at.saturating_sub(from) as f64 / (to - from) as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns inputs without any backlog.
    fn unstalled(bounds: BacklogBounds) -> StallInputs {
        StallInputs {
            full: false,
            sealed: 0,
            l0_runs: 0,
            debt_bytes: 0,
            pending_compaction_bytes: 0,
            retained_bytes: 0,
            bounds,
            too_many_wals: false,
            delayed: false,
        }
    }

    #[test]
    fn slows_writes_down_before_it_stops_them() {
        let options = Options::leveldb_compatible();
        let cases = [
            ((false, 0, 0, false), Admission::Proceed),
            ((false, 1, 7, false), Admission::Proceed),
            ((true, 0, 7, false), Admission::Seal),
            ((true, 1, 0, false), Admission::Stop),
            ((false, 0, 8, false), Admission::Slowdown),
            ((false, 0, 8, true), Admission::Proceed),
            ((true, 0, 11, true), Admission::Seal),
            ((true, 0, 12, true), Admission::Stop),
        ];
        let bounds = BacklogBounds::of(&options, None, 0, 0);
        for ((full, sealed, l0_runs, delayed), want) in cases {
            let inputs = StallInputs { full, sealed, l0_runs, delayed, ..unstalled(bounds) };
            assert_eq!(admit(&options, &inputs), want, "{inputs:?}");
        }
        let unstalled = unstalled(BacklogBounds::of(&options, Some(4 << 30), 0, 0));
        let by_logs = StallInputs { too_many_wals: true, ..unstalled };
        for blocked in [
            StallInputs { retained_bytes: 1 << 50, ..unstalled },
            StallInputs { pending_compaction_bytes: 1 << 30, ..unstalled },
            by_logs,
        ] {
            assert_eq!(
                [true, false].map(|full| admit(&options, &StallInputs { full, ..blocked })),
                [Admission::Stop, Admission::Proceed]
            );
        }
    }

    #[test]
    fn the_write_rate_falls_steadily_and_never_reaches_zero() {
        let mut options = Options::leveldb_compatible();
        let bounds = |options: &Options| BacklogBounds::of(options, Some(4 << 30), 0, 0);
        let unstalled = unstalled(bounds(&options));
        let busy = StallInputs { l0_runs: 11, sealed: 1, ..unstalled };
        assert_eq!(delay_per_byte(&options, &busy).0, 0.0, "off");
        (options.delayed_writes, options.max_write_buffer_number, options.soft_pending_compaction_bytes_limit) =
            (true, 4, 1 << 30);
        let unstalled = StallInputs { bounds: bounds(&options), ..unstalled };
        assert_eq!(admit(&options, &busy), Admission::Proceed, "no slowdown in addition");
        let mib = |inputs: &StallInputs| 1.0 / delay_per_byte(&options, inputs).0 / f64::from(1 << 20);
        let cases = [
            (StallInputs { sealed: 1, l0_runs: 7, debt_bytes: 1 << 29, ..unstalled }, f64::INFINITY),
            (StallInputs { l0_runs: 8, ..unstalled }, 168.0), // 8: 1/5 of the way from 7 to 12
            (StallInputs { l0_runs: 11, ..unstalled }, 6.0),
            (StallInputs { l0_runs: 40, ..unstalled }, 2.0),
            (StallInputs { sealed: 2, ..unstalled }, 80.0),
            (StallInputs { sealed: 3, ..unstalled }, 12.6),
            (StallInputs { debt_bytes: 3 << 28, ..unstalled }, 32.0),
            // The limit on pending compaction bytes is 1 GiB, a quarter of the 4 GiB of free space.
            // Delays begin at half of it.
            (StallInputs { pending_compaction_bytes: 1 << 29, ..unstalled }, f64::INFINITY),
            (StallInputs { pending_compaction_bytes: 3 << 28, ..unstalled }, 32.0),
            // The largest of the fractions determines the delay.
            (StallInputs { debt_bytes: 3 << 28, l0_runs: 12, ..unstalled }, 2.0),
            // The limit on retained bytes is 1 GiB. Delays begin at three quarters of it.
            (StallInputs { retained_bytes: 768 << 20, ..unstalled }, f64::INFINITY),
            (StallInputs { retained_bytes: 896 << 20, ..unstalled }, 32.0),
            (StallInputs { retained_bytes: 4 << 30, ..unstalled }, 2.0),
        ];
        for (inputs, want) in cases {
            let rate = mib(&inputs);
            assert!(rate == want || (rate / want - 1.0).abs() < 0.15, "{inputs:?}: {rate} MiB/s, not {want}");
        }
        options.soft_pending_compaction_bytes_limit = 0;
        let unstalled = StallInputs { bounds: bounds(&options), ..unstalled };
        assert_eq!(delay_per_byte(&options, &StallInputs { debt_bytes: 1 << 40, ..unstalled }).0, 0.0, "no limit");
    }
}
