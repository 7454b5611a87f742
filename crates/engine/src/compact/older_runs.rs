//! The sorted runs that are older than the inputs of a compaction. The compaction drops a
//! tombstone only if none of these runs can contain an entry that the tombstone shadows.
use super::plan::Plan;
use crate::version::{KeyRange, Run, run_number};
use std::cmp::Reverse;
use terrace_format::KeyOrder;

/// The sorted runs that are older than the oldest input of a compaction. A run between the newest
/// and the oldest input is left out, even if the compaction does not merge it. The reason: a plan
/// skips such a run only if the run contains no key of the inputs.
pub struct OlderRuns<'a> {
    order: &'a KeyOrder,
    runs: &'a [(usize, Run)],
}

impl<'a> OlderRuns<'a> {
    /// Returns the runs older than the inputs of `plan`.
    pub fn of(order: &'a KeyOrder, plan: &'a Plan) -> OlderRuns<'a> {
        let position = |level: usize, number: u64| (level, Reverse(number));
        let oldest = plan.inputs().map(|(level, table)| position(level, run_number(level, table))).max();
        let runs = plan.version.runs();
        let is_newer_or_input = |(level, run): &(usize, Run)| {
            let first = run.first().map(|first| position(*level, run_number(*level, first)));
            first <= oldest
        };
        OlderRuns { order, runs: &runs[runs.partition_point(is_newer_or_input)..] }
    }

    /// Returns whether an older run may contain the user key.
    pub fn may_hold(&self, user: &[u8]) -> bool {
        let range = KeyRange { from: Some(user), to: Some(user) };
        self.runs.iter().any(|(_, run)| {
            let at = run.partition_point(|table| self.order.user(table.largest(), user).is_lt());
            run.get(at).is_some_and(|table| table.overlaps(self.order, &range))
        })
    }

    /// Returns whether an older run may contain a key of `range`.
    pub fn may_hold_any(&self, range: &KeyRange<'_>) -> bool {
        self.runs.iter().any(|(_, run)| !run.overlapping(self.order, range).is_empty())
    }
}
