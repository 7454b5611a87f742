//! May a write go on, or must background work catch up first? Pure. LevelDB's rules, in LevelDB's order.
use crate::Options;

/// What the decision goes by.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The active memtable has reached its size.
    pub full: bool,
    /// Memtables that wait to be flushed.
    pub sealed: u64,
    /// Runs in level 0.
    pub l0_runs: u64,
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
    if !facts.delayed && facts.l0_runs >= options.l0_slow_runs {
        Room::Delay
    } else if !facts.full {
        Room::Enough
    } else if facts.sealed + 1 >= options.memtables_max || facts.l0_runs >= options.l0_stop_runs {
        Room::Wait
    } else {
        Room::Seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brakes_before_it_stops() {
        let options = Options::default();
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
        for ((full, sealed, l0_runs, delayed), want) in cases {
            let facts = Facts { full, sealed, l0_runs, delayed };
            assert_eq!(room(&options, &facts), want, "{facts:?}");
        }
    }
}
