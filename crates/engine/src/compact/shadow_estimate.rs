//! Estimates the shadowed garbage of the value log. Shadowed garbage is a value whose pointer is
//! in a shadowed entry: the entry is in a deeper level, and a newer entry of the same key is in a
//! level above. The table of the shadowed entry still references the value, so the reference
//! counts do not show that the value is garbage. A compaction that merges both entries drops the
//! older one. Then the value counts as garbage, and value-log GC can reclaim it. This module does
//! no I/O.
use super::{inputs::bytes, level_targets, limits::Limits, plan::Plan, policy::Policy, situation::Situation};
use crate::version::{KeyRange, Level, TableRef, Version, segments::Segment};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};
use terrace_format::TableId;
use terrace_storage::placement::TableMeta;

/// The size of the sample of past compactions, in tables of `target_file_size` bytes. Each new
/// observation lowers the weight of the older ones; an observation of this size halves their
/// weight. The estimate does not trust a sample of fewer bytes.
const WINDOW_TABLES: u64 = 4;
/// The factor of extrapolation: a compaction of one byte into the deepest level is an observation
/// that represents this many of the bytes that have entered the tree.
const EXTRAPOLATION: f64 = 4.0;

/// Statistics of the compactions into the deepest level: which share of the bytes that they merged
/// shadowed older entries there. The state lock guards them.
#[derive(Debug, Default)]
pub struct ShadowStats {
    /// The bytes of the upper inputs of compactions into the deepest level. Each compaction counts
    /// at most as many bytes as its lower inputs have.
    merged_bytes: f64,
    /// The bytes by which compactions into the deepest level made the tables smaller: inputs minus
    /// outputs.
    reclaimed_bytes: f64,
    /// The bytes of new tables for which no compaction into the deepest level has shown yet whether
    /// they shadow older entries.
    unmerged_bytes: f64,
}

impl ShadowStats {
    /// Records that the compaction of `plan` produced the tables `outputs`.
    pub fn record_compaction(&mut self, plan: &Plan, outputs: &[TableMeta], limits: &Limits) {
        if plan.level == plan.output_level || plan.output_level != level_targets::last(&plan.version.held()) {
            return; // not a compaction into the deepest level
        }
        // The upper inputs can shadow at most as many bytes as the lower inputs have, so more bytes
        // do not count.
        let merged_bytes = bytes(&plan.upper).min(bytes(&plan.lower)) as f64;
        let left = outputs.iter().map(|meta| meta.bytes).fold(0, u64::saturating_add);
        let reclaimed_bytes = (plan.bytes().saturating_sub(left) as f64).min(merged_bytes);
        let kept = 1.0 / (1.0 + merged_bytes / window_bytes(limits));
        self.merged_bytes = self.merged_bytes * kept + merged_bytes;
        self.reclaimed_bytes = self.reclaimed_bytes * kept + reclaimed_bytes;
        self.unmerged_bytes = (self.unmerged_bytes - EXTRAPOLATION * merged_bytes).max(0.0);
    }

    /// Records that tables with a total size of `bytes` have entered the tree.
    pub fn record_new_bytes(&mut self, bytes: u64) {
        self.unmerged_bytes += bytes as f64;
    }

    /// Returns the share, from 0 to 1, of the bytes above the deepest level that shadow older
    /// entries. Bytes that no observed compaction represents yet are assumed to shadow older
    /// entries, until a compaction into the deepest level shows otherwise. The reason: a workload
    /// that overwrites the same keys can fill the upper levels without any compaction into the
    /// deepest level.
    pub fn share(&self, limits: &Limits) -> f64 {
        (self.reclaimed_bytes + self.unmerged_bytes)
            / (self.merged_bytes + self.unmerged_bytes).max(window_bytes(limits))
    }
}

/// Returns the size of the sample of past compactions in bytes; see [`WINDOW_TABLES`].
fn window_bytes(limits: &Limits) -> f64 {
    WINDOW_TABLES as f64 * limits.target_file_size as f64
}

/// Returns an upper bound of [`ShadowEstimate::shadowed_bytes`] that needs no visit to any table.
pub fn shadowed_at_most(version: &Version, all: &Segment, share: f64) -> u64 {
    let above = version.above_deepest().iter().map(Level::bytes).fold(0, u64::saturating_add);
    shadowed_bytes(version, all, share, above)
}

/// Returns the estimated bytes of shadowed values in the value log. `bytes` are the table bytes
/// that may shadow older entries, and `share` is the share of them that does. Values are assumed
/// to be spread over the levels as keys are. So the fraction of values that is shadowed is the
/// fraction of table bytes that shadow.
fn shadowed_bytes(version: &Version, all: &Segment, share: f64, bytes: u64) -> u64 {
    let tree = version.held().into_iter().fold(1, u64::saturating_add);
    (all.live as f64 * share * bytes as f64 / tree as f64) as u64
}

/// An estimate of shadowed garbage from the tables above the deepest level, whose entries may
/// shadow older entries in deeper levels.
pub struct ShadowEstimate<'a> {
    version: &'a Version,
    /// The total number of bytes, in tables above the deepest level, that may shadow older entries.
    bytes: u64,
    /// One element per level: the number of the level's bytes that may shadow older entries, the
    /// level, and the table to compact. This table has the most bytes that may shadow, among the
    /// tables that are not being compacted. The elements are ordered by the level's bytes, the
    /// largest first.
    picks: Vec<(u64, usize, &'a Arc<TableRef>)>,
}

impl<'a> ShadowEstimate<'a> {
    /// Makes the estimate. `refused` are tables whose GC compaction failed; they are left out.
    pub fn of(ctx: &Situation<'a>, refused: &BTreeSet<TableId>) -> ShadowEstimate<'a> {
        let Situation { version, busy, .. } = *ctx;
        let (mut bytes, mut picks) = (0_u64, Vec::new());
        for (level, there) in version.above_deepest().iter().enumerate() {
            let (mut sum, mut first) = (0_u64, None);
            for table in there.tables().filter(|table| !refused.contains(&table.meta.id)) {
                let shadowing = shadowing_bytes(ctx, level, table);
                sum = sum.saturating_add(shadowing);
                if first.is_none_or(|(most, _)| shadowing > most) && shadowing > 0 && !busy.has(table.meta.id) {
                    first = Some((shadowing, table));
                }
            }
            // Several runs of level 0 may shadow the same entry. The sum is limited to the bytes of
            // the deeper levels, so that this entry counts only once.
            let lower_bytes = version.levels[level + 1..].iter().map(Level::bytes);
            sum = sum.min(lower_bytes.fold(0, u64::saturating_add));
            bytes = bytes.saturating_add(sum);
            picks.extend(first.map(|(_, table)| (sum, level, table)));
        }
        picks.sort_by_key(|(sum, level, _)| (Reverse(*sum), *level));
        ShadowEstimate { version, bytes, picks }
    }

    /// Returns the estimated bytes of shadowed garbage: values that look live but are garbage.
    /// `share` is the estimated share of the possibly shadowing bytes that really shadow older
    /// entries.
    pub fn shadowed_bytes(&self, all: &Segment, share: f64) -> u64 {
        shadowed_bytes(self.version, all, share, self.bytes)
    }

    /// Picks a compaction into the next level that merges shadowed entries away and so makes their
    /// values visible as garbage. The search starts in the level with the most bytes that may
    /// shadow. Only value-log GC needs this compaction.
    pub fn expose(&self, ctx: &Situation<'_>, policy: &dyn Policy) -> Option<Plan> {
        let plans = self.picks.iter().filter_map(|(_, level, table)| {
            let plan = policy.plan_range(ctx, *level, &table.span())?;
            let lower_bytes = bytes(&plan.grandparents);
            let trivial_move = *level > 0
                && plan.upper.len() == 1
                && plan.lower.is_empty()
                && lower_bytes <= ctx.limits.grandparent_bytes();
            Some(Plan { gc_only: true, trivial_move, ..plan })
        });
        plans.into_iter().find(|plan| ctx.busy.admits(ctx.order, plan))
    }
}

/// Returns how many bytes of `table` may shadow older entries: at most the number of bytes that
/// the table overlaps in deeper levels.
fn shadowing_bytes(ctx: &Situation<'_>, level: usize, table: &TableRef) -> u64 {
    let (span, mut lower_bytes) = (table.span(), 0_u64);
    for below in &ctx.version.levels[level + 1..] {
        for lower in below.overlap_slices(ctx.order, &span).flatten() {
            lower_bytes = lower_bytes.saturating_add(lower.meta.bytes);
            if lower_bytes >= table.meta.bytes {
                return table.meta.bytes;
            }
        }
    }
    lower_bytes
}

/// Returns the level and the key range of the first table above the deepest level that has range
/// tombstones, which may shadow everything below them. `refused` are tables whose GC compaction
/// failed; they are skipped.
pub fn range_deleting_table<'a>(version: &'a Version, refused: &BTreeSet<TableId>) -> Option<(usize, KeyRange<'a>)> {
    version.above_deepest().iter().enumerate().find_map(|(number, level)| {
        let deletes = |table: &&Arc<TableRef>| table.deletes_ranges() && !refused.contains(&table.meta.id);
        Some((number, level.tables().find(deletes)?.span()))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::leveled::Leveled, super::tests::Tree, *};

    const LIMITS: Limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 30,
        level_compaction_dynamic_level_bytes: false,
        max_entries_for_level_base: 0,
        level0_file_num_compaction_trigger: 4,
        l0_pressing_runs: 8,
        level0_min_overlap_percent: 0,
        intra_l0_compaction_trigger: 0,
        min_overlapping_ratio: false,
        tombstone_compaction_percent: 0,
    };

    fn tables(count: u64) -> Vec<TableMeta> {
        (0..count).map(|number| TableMeta::unbounded(TableId(number), 1000)).collect()
    }

    #[test]
    fn only_overlapping_compactions_into_the_deepest_level_are_observed() {
        let tree = Tree::stacked(LIMITS, [0, 2, 2, 4, 0, 0, 0]);
        let plan = |level| tree.situated(|ctx| Leveled.plan_range(ctx, level, &KeyRange::default())).expect("tables");
        let (merged_bytes, all) = (plan(2).upper.len() as u64, plan(2).inputs().count() as u64);
        let mut stats = ShadowStats::default();
        let percent = |stats: &ShadowStats| (stats.share(&LIMITS) * 100.0).round();
        assert_eq!(percent(&stats), 0.0);
        stats.record_new_bytes(1000);
        assert_eq!(percent(&stats), 25.0, "too small a sample");
        stats.record_compaction(&plan(1), &tables(0), &LIMITS);
        stats.record_compaction(&Plan { lower: Vec::new(), ..plan(2) }, &tables(0), &LIMITS);
        assert_eq!(percent(&stats), 25.0, "none of these is an observation");
        stats.record_compaction(&plan(2), &tables(all), &LIMITS);
        assert_eq!(percent(&stats), 0.0, "nothing was shadowed");
        (0..12).for_each(|_| stats.record_compaction(&plan(2), &tables(all - merged_bytes), &LIMITS));
        assert!(percent(&stats) > 90.0, "all later bytes shadow entries: {stats:?}");
        (0..12).for_each(|_| stats.record_compaction(&plan(2), &tables(all), &LIMITS));
        assert!(percent(&stats) < 10.0, "now none do: {stats:?}");
        stats.record_new_bytes(100_000);
        assert!(percent(&stats) > 90.0, "unobserved bytes count as shadowing");
        (0..12).for_each(|_| stats.record_compaction(&plan(2), &tables(0), &LIMITS));
        assert!(
            (80.0..=100.0).contains(&percent(&stats)),
            "a tombstone and its entry shrink the level once: {stats:?}"
        );
    }

    #[test]
    fn bytes_below_bound_the_shadow_estimate() {
        let all = Segment { bytes: 2000, live: 1000 };
        let hidden = |levels| {
            let tree = Tree::stacked(LIMITS, levels);
            let refused = BTreeSet::new();
            tree.situated(|ctx| {
                let most = shadowed_at_most(ctx.version, &all, 0.5);
                (ShadowEstimate::of(ctx, &refused).shadowed_bytes(&all, 0.5), most)
            })
        };
        assert_eq!(hidden([1, 3, 0, 6, 0, 0, 0]), (199, 199), "four tables of ten");
        assert_eq!(hidden([0, 3, 0, 1, 0, 0, 0]), (124, 374), "one table of three overlaps a lower one");
        assert_eq!(hidden([0, 0, 5, 0, 0, 0, 0]), (0, 0), "no level lies above");
    }

    #[test]
    fn the_level_with_most_shadowing_bytes_is_exposed_first_without_refused_or_running_tables() {
        let mut tree = Tree::stacked(LIMITS, [1, 3, 0, 6, 0, 0, 0]);
        let next = |tree: &Tree, refused: &BTreeSet<TableId>| {
            tree.situated(|ctx| ShadowEstimate::of(ctx, refused).expose(ctx, &Leveled))
        };
        let mut refused = BTreeSet::new();
        let mut levels = Vec::new();
        while let Some(plan) = next(&tree, &refused) {
            assert!(plan.gc_only && plan.trivial_move == (plan.level == 1), "level 2 is empty");
            levels.push(plan.level);
            refused.extend(plan.upper.iter().map(|table| table.meta.id));
        }
        assert_eq!(levels, [1, 1, 0, 1], "refused tables do not count");
        let plan = next(&tree, &BTreeSet::new()).expect("a plan");
        let running = plan.upper[0].meta.id;
        tree.begin(plan);
        assert!(next(&tree, &BTreeSet::new()).is_some_and(|plan| plan.upper[0].meta.id != running));
    }
}
