//! May a write go on, or must background work catch up first? Pure. LevelDB's rules, in LevelDB's order; and, with
//! `delayed_writes`, a pace that falls steadily as background work falls behind, so that no write waits long.
use crate::{Options, bounds::Bounds};

/// Bytes a second that writers get when background work begins to fall behind …
const FASTEST: f64 = (512 << 20) as f64;
/// … and at the limits where they would have to stop.
const SLOWEST: f64 = (2 << 20) as f64;

/// What the decision goes by.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The active memtable has reached its size.
    pub full: bool,
    /// Memtables that wait to be flushed.
    pub sealed: u64,
    /// Runs in level 0.
    pub l0_runs: u64,
    /// Bytes that lie above their level's limit.
    pub debt_bytes: u64,
    /// The same and level 0, while something is merged: else there is nothing to wait for.
    pub merging_bytes: u64,
    /// Bytes that wait for what replaces them to be durable.
    pub retained_bytes: u64,
    /// How many of the last two may be.
    pub bounds: Bounds,
    /// No other log may be closed before tables are durable that have what is in those that are.
    pub too_many_logs: bool,
    /// This write was delayed already.
    pub delayed: bool,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Go on.
    Enough,
    /// Sleep a little, once, so that many writes are slowed a little instead of one a lot.
    Delay,
    /// Wait until something in the background has ended.
    Wait,
    /// Seal the memtable and look again.
    Seal,
}

/// Decides.
pub fn room(options: &Options, facts: &Facts) -> Room {
    let held_up = waits_for_commit(facts) || facts.bounds.stop_at_unmerged(facts.merging_bytes);
    if !options.delayed_writes && !facts.delayed && facts.l0_runs >= options.level0_slowdown_writes_trigger {
        Room::Delay
    } else if !facts.full {
        Room::Enough
    } else if facts.sealed + 1 >= options.max_write_buffer_number
        || facts.l0_runs >= options.level0_stop_writes_trigger
        || held_up
    {
        Room::Wait
    } else {
        Room::Seal
    }
}

/// Whether who waits waits for what others make durable.
pub fn waits_for_commit(facts: &Facts) -> bool {
    facts.bounds.stop_at(facts.retained_bytes) || facts.too_many_logs
}

/// Seconds that a write owes for each byte: the time that it gives to background work. The rate falls by the same factor with each
/// step towards a limit, so it settles where background work just keeps up, on fast devices and slow ones.
pub fn pace(options: &Options, facts: &Facts) -> f64 {
    if !options.delayed_writes {
        return 0.0;
    }
    let runs = share(facts.l0_runs, options.level0_slowdown_writes_trigger - 1, options.level0_stop_writes_trigger);
    let sealed = share(facts.sealed, 1, options.max_write_buffer_number); // one is being flushed: that is as it should be
    let Bounds { unmerged_bytes, retained_bytes, .. } = facts.bounds;
    let debt = share(
        facts.debt_bytes,
        options.soft_pending_compaction_bytes_limit / 2,
        options.soft_pending_compaction_bytes_limit,
    );
    let unmerged = share(facts.merging_bytes, unmerged_bytes / 2, unmerged_bytes);
    // A long compaction retains much at once. Who is slowed meanwhile has less to wait for in the end.
    let retained = share(facts.retained_bytes, facts.bounds.retained_unhindered(), retained_bytes);
    let worst = runs.max(sealed).max(debt).max(unmerged).max(retained);
    if worst == 0.0 {
        return 0.0;
    }
    1.0 / (FASTEST * (SLOWEST / FASTEST).powf(worst))
}

/// How much of the way from `from` to `to` is gone, 0 to 1; 0 if there is no way.
fn share(at: u64, from: u64, to: u64) -> f64 {
    if to <= from { 0.0 } else { (at.saturating_sub(from) as f64 / (to - from) as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is behind.
    fn calm(bounds: Bounds) -> Facts {
        Facts {
            full: false,
            sealed: 0,
            l0_runs: 0,
            debt_bytes: 0,
            merging_bytes: 0,
            retained_bytes: 0,
            bounds,
            too_many_logs: false,
            delayed: false,
        }
    }

    #[test]
    fn brakes_before_it_stops() {
        let options = Options::leveldb_compatible();
        let cases = [
            ((false, 0, 0, false), Room::Enough),
            ((false, 1, 7, false), Room::Enough),
            ((true, 0, 7, false), Room::Seal),
            ((true, 1, 0, false), Room::Wait),
            ((false, 0, 8, false), Room::Delay),
            ((false, 0, 8, true), Room::Enough),
            ((true, 0, 11, true), Room::Seal),
            ((true, 0, 12, true), Room::Wait),
        ];
        let bounds = Bounds::of(&options, None, 0, 0);
        for ((full, sealed, l0_runs, delayed), want) in cases {
            let facts = Facts { full, sealed, l0_runs, delayed, ..calm(bounds) };
            assert_eq!(room(&options, &facts), want, "{facts:?}");
        }
        let calm = calm(Bounds::of(&options, Some(4 << 30), 0, 0));
        let by_logs = Facts { too_many_logs: true, ..calm };
        for held_up in [Facts { retained_bytes: 1 << 50, ..calm }, Facts { merging_bytes: 1 << 30, ..calm }, by_logs] {
            assert_eq!(
                [true, false].map(|full| room(&options, &Facts { full, ..held_up })),
                [Room::Wait, Room::Enough]
            );
        }
    }

    #[test]
    fn the_pace_falls_steadily_and_never_stands_still() {
        let mut options = Options::leveldb_compatible();
        let bounds = |options: &Options| Bounds::of(options, Some(4 << 30), 0, 0);
        let calm = calm(bounds(&options));
        let busy = Facts { l0_runs: 11, sealed: 1, ..calm };
        assert_eq!(pace(&options, &busy), 0.0, "off");
        (options.delayed_writes, options.max_write_buffer_number, options.soft_pending_compaction_bytes_limit) =
            (true, 4, 1 << 30);
        let calm = Facts { bounds: bounds(&options), ..calm };
        assert_eq!(room(&options, &busy), Room::Enough, "no delay besides");
        let mib = |facts: &Facts| 1.0 / pace(&options, facts) / f64::from(1 << 20);
        let cases = [
            (Facts { sealed: 1, l0_runs: 7, debt_bytes: 1 << 29, ..calm }, f64::INFINITY),
            (Facts { l0_runs: 8, ..calm }, 168.0), // a fifth of the way to 12
            (Facts { l0_runs: 11, ..calm }, 6.0),
            (Facts { l0_runs: 40, ..calm }, 2.0),
            (Facts { sealed: 2, ..calm }, 80.0),
            (Facts { sealed: 3, ..calm }, 12.6),
            (Facts { debt_bytes: 3 << 28, ..calm }, 32.0),
            (Facts { merging_bytes: 1 << 29, ..calm }, f64::INFINITY), // of 4 GiB of space
            (Facts { merging_bytes: 3 << 28, ..calm }, 32.0),
            (Facts { debt_bytes: 3 << 28, l0_runs: 12, ..calm }, 2.0), // the worst counts
            (Facts { retained_bytes: 768 << 20, ..calm }, f64::INFINITY), // of 1 GiB
            (Facts { retained_bytes: 896 << 20, ..calm }, 32.0),
            (Facts { retained_bytes: 4 << 30, ..calm }, 2.0),
        ];
        for (facts, want) in cases {
            let rate = mib(&facts);
            assert!(rate == want || (rate / want - 1.0).abs() < 0.15, "{facts:?}: {rate} MiB/s, not {want}");
        }
        options.soft_pending_compaction_bytes_limit = 0;
        let calm = Facts { bounds: bounds(&options), ..calm };
        assert_eq!(pace(&options, &Facts { debt_bytes: 1 << 40, ..calm }), 0.0, "no limit");
    }
}
