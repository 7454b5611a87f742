//! The universal compaction policy: it merges neighbouring sorted runs of similar size whole. It
//! writes less than the leveled policy, but needs more space and more probes per read.
//!
//! ```text
//! level 0   [r9] [r8]                    flushed, a run per table
//! level 1   [····r7····] [········r3········]   a run per compaction, numbered by age
//!
//! merge r9, r8      ─▶ level 1   [··r9··] [····r7····] [········r3········]
//! merge r9, r7      ─▶ level 1   [······r9······] [········r3········]
//! ```
//! A compaction is due once the number of sorted runs reaches
//! `level0_file_num_compaction_trigger`. The policy picks the runs by the first of these rules
//! that applies:
//!
//! 1. Space amplification: if the bytes of all runs but the oldest are too large a percentage of
//!    the oldest run's bytes, all runs are merged.
//! 2. Size ratio: the rule looks for a group of neighbouring runs in which no run is larger than
//!    all newer runs of the group together. The newest such group with enough runs is merged.
//! 3. Number of runs: the newest runs are merged, just as many as are necessary to reduce the
//!    number of runs to the trigger.
//!
//! Reads probe level 0 before level 1. Therefore runs of level 0 enter level 1 together with all
//! older runs of level 0. The output takes the run number of its newest input in level 1. If all
//! inputs are from level 0, it takes the table number of the newest input. So the run numbers stay
//! in the order of age. Tables below level 1 exist only if another policy has left them; each such
//! level is one of the runs.
//!
//! Source: RocksDB's wiki, "Universal Compaction" (size ratio, space amplification, number of
//! runs).
use super::{level0, limits::Limits, plan::Plan, policy::Policy, situation::Situation};
use crate::{
    Options,
    version::{KeyRange, Run, TableRef, Version, run_number},
};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// The universal policy.
#[derive(Debug)]
pub struct Universal {
    /// How many percent larger than all newer runs together the next run may be.
    size_ratio: u64,
    /// The smallest number of runs that a compaction by size ratio merges.
    min_merge_width: usize,
    /// The limit of space amplification. All runs are merged when the runs without the oldest one
    /// have together at least this percentage of the oldest run's bytes.
    max_size_amplification_percent: u64,
}

impl Universal {
    /// Makes the policy with the limits that `options` set.
    pub fn of(options: &Options) -> Universal {
        Universal {
            size_ratio: options.universal_size_ratio,
            min_merge_width: usize::try_from(options.universal_min_merge_width).unwrap_or(usize::MAX),
            max_size_amplification_percent: options.universal_max_size_amplification_percent,
        }
    }

    /// Returns which neighbouring runs to merge, as a range of positions. `bytes` and `busy` have
    /// one element per run, newest first: the bytes of the run, and whether it is busy (an input of
    /// a running compaction).
    fn pick(&self, bytes: &[u64], busy: &[bool], trigger: usize) -> Option<Range<usize>> {
        if bytes.len() < trigger {
            return None;
        }
        self.by_amplification(bytes, busy)
            .or_else(|| self.by_size_ratio(bytes, busy))
            .or_else(|| newest(busy, (bytes.len() + 1).saturating_sub(trigger)))
    }

    /// Applies the rule of space amplification to the runs that are older than the oldest busy run
    /// (an input of a running compaction). Returns all these older runs if the rule applies.
    fn by_amplification(&self, bytes: &[u64], busy: &[bool]) -> Option<Range<usize>> {
        let start = busy.iter().rposition(|busy| *busy).map_or(0, |last| last + 1);
        let (oldest, newer) = bytes.get(start..)?.split_last()?;
        let newer_bytes: u128 = newer.iter().map(|bytes| u128::from(*bytes)).sum();
        let is_due = newer_bytes * 100 >= u128::from(*oldest) * u128::from(self.max_size_amplification_percent);
        (!newer.is_empty() && is_due).then_some(start..bytes.len())
    }

    /// Applies the rule of the size ratio. Returns the newest group of neighbouring runs in which
    /// no run is larger than all newer runs of the group together (plus `size_ratio` percent), if
    /// the group has enough runs.
    fn by_size_ratio(&self, bytes: &[u64], busy: &[bool]) -> Option<Range<usize>> {
        let from = |start: usize| {
            let mut sum = 0_u128;
            let fits = |at: &usize| {
                let next = u128::from(bytes[*at]);
                let fits = !busy[*at] && (*at == start || next * 100 <= sum * u128::from(100 + self.size_ratio));
                sum += next;
                fits
            };
            start..start + (start..bytes.len()).take_while(fits).count()
        };
        (0..bytes.len()).map(from).find(|range| range.len() >= self.min_merge_width.max(2))
    }

    /// Returns the compaction that merges the runs with the positions `picked`, newest first. If a
    /// run of level 0 is among them, the compaction includes all older runs of level 0.
    fn merge(ctx: &Situation<'_>, mut picked: Range<usize>) -> Plan {
        let l0_runs = ctx.version.levels[0].runs.len();
        if picked.start < l0_runs {
            picked.end = picked.end.max(l0_runs);
        }
        merge_runs(ctx, &ctx.version.runs()[picked])
    }
}

/// Returns the newest `count` neighbouring runs of which none is busy (an input of a running
/// compaction); `None` if `count` is below 2.
fn newest(busy: &[bool], count: usize) -> Option<Range<usize>> {
    if count < 2 {
        return None;
    }
    let windows = 0..(busy.len() + 1).saturating_sub(count);
    windows.map(|start| start..start + count).find(|range| !busy[range.clone()].contains(&true))
}

/// Returns for each run whether it is busy: one of its tables is an input of a running compaction,
/// or of a compaction that damage has ended.
fn busy_runs(ctx: &Situation<'_>) -> Vec<bool> {
    let position = |(level, table): (usize, &Arc<TableRef>)| (level, run_number(level, table));
    let busy: BTreeSet<_> = ctx.busy.tables().filter_map(|id| ctx.version.find(id).map(position)).collect();
    let is_busy =
        |(level, run): &(usize, Run)| run.first().is_some_and(|first| busy.contains(&position((*level, first))));
    ctx.version.runs().iter().map(is_busy).collect()
}

/// Returns the compaction that merges the neighbouring `runs`, newest first, into one run.
fn merge_runs(ctx: &Situation<'_>, runs: &[(usize, Run)]) -> Plan {
    let (level, oldest) = (runs[0].0, runs[runs.len() - 1].0);
    let output_level = oldest.max(1);
    let of_output_level = runs.iter().find(|(level, _)| *level == output_level);
    let newest = of_output_level.unwrap_or(&runs[0]);
    let output_run = newest.1.first().map_or(0, |first| run_number(newest.0, first));
    let (mut upper, mut between, mut lower) = (Vec::new(), Vec::new(), Vec::new());
    for (at, run) in runs {
        for table in run.iter().cloned() {
            match *at {
                at if at == level => upper.push(table),
                at if at == output_level => lower.push(table),
                at => between.push((at, table)),
            }
        }
    }
    let last = upper.iter().max_by(|a, b| ctx.order.internal(&a.meta.largest, &b.meta.largest));
    Plan {
        family: ctx.family,
        level,
        output_level,
        pointer: last.expect("a run has tables").meta.largest.clone(),
        upper,
        between,
        lower,
        output_run,
        own_run: true,
        grandparents: Vec::new(),
        version: ctx.copied(),
        trivial_move: false,
        number: None,
        gc_only: false,
    }
}

impl Policy for Universal {
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan> {
        let trigger = usize::try_from(ctx.limits.level0_file_num_compaction_trigger).unwrap_or(usize::MAX);
        if ctx.version.runs().len() < trigger {
            return None;
        }
        let bytes: Vec<_> = ctx.version.runs().iter().map(|(_, run)| run.totals().bytes).collect();
        let mut busy = busy_runs(ctx);
        // A run of level 0 can move to level 1 only together with all older runs of level 0.
        let l0_runs = ctx.version.levels[0].runs.len();
        if let Some(oldest_busy) = busy[..l0_runs].iter().rposition(|busy| *busy) {
            busy[..oldest_busy].fill(true);
        }
        let plan = self.pick(&bytes, &busy, trigger).map(|picked| Universal::merge(ctx, picked));
        let plan = plan.or_else(|| level0::pick_intra_l0(ctx));
        plan.filter(|plan| !ctx.busy.blocks_manual(ctx.order, plan) && ctx.busy.admits(ctx.order, plan))
    }

    /// Plans a compaction of all runs that overlap `range`, and of all runs whose age is between
    /// theirs. Returns `None` if these are fewer than two runs.
    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan> {
        let runs = ctx.version.runs();
        let meets = |(at, run): &(usize, Run)| *at >= level && !run.overlapping(ctx.order, range).is_empty();
        let (first, last) = (runs.iter().position(meets)?, runs.iter().rposition(meets)?);
        let (is_here, several) = (level == 0 || runs[first].0 == level, last > first || runs[first].0 == 0);
        // The caller of `plan_range` checks whether the plan conflicts with running compactions.
        (is_here && several).then(|| Universal::merge(ctx, first..last + 1))
    }

    fn level_for_flush(&self, _ctx: &Situation<'_>, _range: &KeyRange<'_>) -> usize {
        0
    }

    /// Returns 0: no level has a target size, so there are no pending bytes. The number of runs
    /// slows writes instead.
    fn debt(&self, _limits: &Limits, _version: &Version) -> u64 {
        0
    }

    fn stall_runs(&self, version: &Version) -> u64 {
        version.runs().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_picked_by_amplification_then_ratio_then_number() {
        let policy = Universal { size_ratio: 1, min_merge_width: 2, max_size_amplification_percent: 200 };
        let pick = |bytes: &[u64], busy: &[usize]| {
            let busy: Vec<_> = (0..bytes.len()).map(|at| busy.contains(&at)).collect();
            policy.pick(bytes, &busy, 4)
        };
        for (bytes, busy, want) in [
            (&[1, 1, 1][..], &[][..], None),             // fewer runs than the trigger
            (&[1, 1, 1, 1], &[], Some(0..4)),            // 3 times the oldest run's size
            (&[1, 1, 1, 100], &[], Some(0..3)),          // the newest three have similar sizes
            (&[1, 1, 8, 100], &[], Some(0..2)),          // 8 is larger than 1 + 1
            (&[1, 2, 8, 100], &[], None),                // the trigger; no two similar sizes
            (&[1, 2, 8, 30, 100], &[], Some(0..2)),      // one run above the trigger
            (&[1, 2, 4, 8, 30, 100], &[], Some(0..3)),   // two runs above the trigger
            (&[1, 1, 1, 1, 100], &[2], Some(0..2)),      // only the runs newer than the busy one
            (&[1, 1, 60, 60, 200], &[0, 1], Some(2..4)), // only the runs older than the busy ones
            (&[5, 1, 1, 200], &[], Some(0..3)),          // a newer run may be larger
            (&[1, 1, 1, 1], &[0], Some(1..4)),           // the free runs amplify too much
            (&[1, 1, 1, 1], &[3], Some(0..3)),           // the oldest run is busy, so not all runs
            (&[1, 1, 1, 1], &[0, 1, 2, 3], None),
            (&[0, 0, 0, 0], &[], Some(0..4)),
            (&[u64::MAX, u64::MAX, u64::MAX, u64::MAX], &[], Some(0..4)),
        ] {
            assert_eq!(pick(bytes, busy), want, "{bytes:?}, busy {busy:?}");
        }
    }
}
