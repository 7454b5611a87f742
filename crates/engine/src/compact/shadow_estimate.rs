//! Garbage of the value log that no table's references tell of: what older entries further down still point to, while newer ones hide
//! them. It becomes known, and can be collected, when the two meet in a merge. Pure.
use super::{
    leveled,
    plan::{Limits, Plan, Policy, Situation},
    sizes,
};
use crate::version::{KeyRange, Level, TableRef, Version, segments::Segment};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};
use terrace_format::TableId;
use terrace_storage::placement::TableMeta;

/// What merges found counts until the bytes of about so many tables have been looked at since. Less than that tells little.
const TABLES_KEPT: u64 = 4;
/// Each byte that a merge looked at speaks for so many that have come into the tree.
const SPEAKS_FOR: f64 = 4.0;

/// How much of what merges brought to the deepest level, and met something there, hid that. Guarded by the control lock.
#[derive(Debug, Default)]
pub struct Found {
    /// Bytes of tables that came and met something, …
    brought: f64,
    /// … and by how many less there were afterwards than had been.
    less: f64,
    /// Bytes of tables that have come into the tree, and for which none of those speaks.
    unseen: f64,
}

impl Found {
    /// `plan` was carried out and yielded `outputs`.
    pub fn merged(&mut self, plan: &Plan, outputs: &[TableMeta], limits: &Limits) {
        if plan.level == plan.output_level || plan.output_level != sizes::last(&plan.version.held()) {
            return; // it cannot tell what lies below
        }
        // What meets nothing cannot hide anything, and tells nothing.
        let brought = leveled::bytes(&plan.upper).min(leveled::bytes(&plan.lower)) as f64;
        let left = outputs.iter().map(|meta| meta.bytes).fold(0, u64::saturating_add);
        let less = (plan.bytes().saturating_sub(left) as f64).min(brought);
        let kept = 1.0 / (1.0 + brought / least(limits));
        self.brought = self.brought * kept + brought;
        self.less = self.less * kept + less;
        self.unseen = (self.unseen - SPEAKS_FOR * brought).max(0.0);
    }

    /// Tables of `bytes` are new.
    pub fn came(&mut self, bytes: u64) {
        self.unseen += bytes as f64;
    }

    /// Of each byte above the deepest level that may hide something, so much does. Who writes over the same keys again and again fills
    /// upper levels without a merge into the deepest: what nobody has seen there for long is taken to hide, and soon a merge tells.
    pub fn share(&self, limits: &Limits) -> f64 {
        (self.less + self.unseen) / (self.brought + self.unseen).max(least(limits))
    }
}

/// Fewer bytes than these tell little.
fn least(limits: &Limits) -> f64 {
    (TABLES_KEPT * limits.target_file_size) as f64
}

/// The most that [`ShadowEstimate::hidden`] may be, without a look at any table.
pub fn hidden_at_most(version: &Version, all: &Segment, share: f64) -> u64 {
    let above = version.above_deepest().iter().map(Level::bytes).fold(0, u64::saturating_add);
    hidden(version, all, share, above)
}

/// Of the values that tables point to as much is hidden as of the tables' bytes: they are spread over levels as keys are.
fn hidden(version: &Version, all: &Segment, share: f64, bytes: u64) -> u64 {
    let tree = version.held().into_iter().fold(1, u64::saturating_add);
    (all.live as f64 * share * bytes as f64 / tree as f64) as u64
}

/// The tables above the deepest level that may hide something beneath them.
pub struct ShadowEstimate<'a> {
    version: &'a Version,
    /// Bytes of them.
    bytes: u64,
    /// Of each level what it has of them, and the table that nobody merges which has most; the fullest level comes first.
    largest: Vec<(u64, usize, &'a Arc<TableRef>)>,
}

impl<'a> ShadowEstimate<'a> {
    /// Without tables that are `refused`.
    pub fn of(situation: &Situation<'a>, refused: &BTreeSet<TableId>) -> ShadowEstimate<'a> {
        let Situation { version, busy, .. } = *situation;
        let (mut bytes, mut largest) = (0_u64, Vec::new());
        for (level, there) in version.above_deepest().iter().enumerate() {
            let (mut sum, mut first) = (0_u64, None);
            for table in there.tables().filter(|table| !refused.contains(&table.meta.id)) {
                let hides = hiding_bytes(situation, level, table);
                sum = sum.saturating_add(hides);
                if first.is_none_or(|(most, _)| hides > most) && hides > 0 && !busy.has(table.meta.id) {
                    first = Some((hides, table));
                }
            }
            // Runs of level 0 that hide the same hide it once.
            let beneath = version.levels[level + 1..].iter().map(Level::bytes);
            sum = sum.min(beneath.fold(0, u64::saturating_add));
            bytes = bytes.saturating_add(sum);
            largest.extend(first.map(|(_, table)| (sum, level, table)));
        }
        largest.sort_by_key(|(sum, level, _)| (Reverse(*sum), *level));
        ShadowEstimate { version, bytes, largest }
    }

    /// Bytes of live values that are garbage in truth, if so large a `share` of what may hide something does.
    pub fn hidden(&self, all: &Segment, share: f64) -> u64 {
        hidden(self.version, all, share, self.bytes)
    }

    /// What to merge into the next level so that what is hidden comes to light: of the fullest level that can be had. Nothing depends on that.
    pub fn reveal(&self, situation: &Situation<'_>, policy: &dyn Policy) -> Option<Plan> {
        let plans = self.largest.iter().filter_map(|(_, level, table)| {
            let plan = policy.plan_range(situation, *level, &table.span())?;
            let met = leveled::bytes(&plan.grandparents);
            let trivial_move = *level > 0
                && plan.upper.len() == 1
                && plan.lower.is_empty()
                && met <= situation.limits.grandparent_bytes();
            Some(Plan { only_collects: true, trivial_move, ..plan })
        });
        plans.into_iter().find(|plan| situation.busy.admits(situation.order, plan))
    }
}

/// No more bytes of a table hide something than there are beneath it.
fn hiding_bytes(situation: &Situation<'_>, level: usize, table: &TableRef) -> u64 {
    let (span, mut beneath) = (table.span(), 0_u64);
    for below in &situation.version.levels[level + 1..] {
        for met in below.stretches(situation.order, &span).flatten() {
            beneath = beneath.saturating_add(met.meta.bytes);
            if beneath >= table.meta.bytes {
                return table.meta.bytes;
            }
        }
    }
    beneath
}

/// The first table above the deepest level that deletes ranges, but for those `refused`, with its level: it hides whatever lies below.
pub fn deleting<'a>(version: &'a Version, refused: &BTreeSet<TableId>) -> Option<(usize, KeyRange<'a>)> {
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
        least_overlap: false,
        tombstone_compaction_percent: 0,
    };

    fn tables(count: u64) -> Vec<TableMeta> {
        (0..count).map(|number| TableMeta::unbounded(TableId(number), 1000)).collect()
    }

    #[test]
    fn only_merges_into_the_deepest_level_that_meet_something_tell() {
        let tree = Tree::stacked(LIMITS, [0, 2, 2, 4, 0, 0, 0]);
        let plan = |level| {
            tree.situated(|situation| Leveled.plan_range(situation, level, &KeyRange::default())).expect("tables")
        };
        let (brought, all) = (plan(2).upper.len() as u64, plan(2).inputs().count() as u64);
        let mut found = Found::default();
        let percent = |found: &Found| (found.share(&LIMITS) * 100.0).round();
        assert_eq!(percent(&found), 0.0);
        found.came(1000);
        assert_eq!(percent(&found), 25.0, "little is no reason to merge");
        found.merged(&plan(1), &tables(0), &LIMITS);
        found.merged(&Plan { lower: Vec::new(), ..plan(2) }, &tables(0), &LIMITS);
        assert_eq!(percent(&found), 25.0, "nothing of this told anything");
        found.merged(&plan(2), &tables(all), &LIMITS);
        assert_eq!(percent(&found), 0.0, "all of it was new");
        (0..12).for_each(|_| found.merged(&plan(2), &tables(all - brought), &LIMITS));
        assert!(percent(&found) > 90.0, "all of it hides something since: {found:?}");
        (0..12).for_each(|_| found.merged(&plan(2), &tables(all), &LIMITS));
        assert!(percent(&found) < 10.0, "and now nothing does: {found:?}");
        found.came(100_000);
        assert!(percent(&found) > 90.0, "who knows");
        (0..12).for_each(|_| found.merged(&plan(2), &tables(0), &LIMITS));
        assert!((80.0..=100.0).contains(&percent(&found)), "deletes hide what goes with them once: {found:?}");
    }

    #[test]
    fn what_is_beneath_bounds_what_may_be_hidden() {
        let all = Segment { bytes: 2000, live: 1000 };
        let hidden = |levels| {
            let tree = Tree::stacked(LIMITS, levels);
            let refused = BTreeSet::new();
            tree.situated(|situation| {
                let most = hidden_at_most(situation.version, &all, 0.5);
                (ShadowEstimate::of(situation, &refused).hidden(&all, 0.5), most)
            })
        };
        assert_eq!(hidden([1, 3, 0, 6, 0, 0, 0]), (199, 199), "four of ten");
        assert_eq!(hidden([0, 3, 0, 1, 0, 0, 0]), (124, 374), "one of three has something beneath it");
        assert_eq!(hidden([0, 0, 5, 0, 0, 0, 0]), (0, 0), "there is no level above");
    }

    #[test]
    fn the_fullest_level_is_merged_first_and_nothing_that_was_refused_or_runs() {
        let mut tree = Tree::stacked(LIMITS, [1, 3, 0, 6, 0, 0, 0]);
        let next = |tree: &Tree, refused: &BTreeSet<TableId>| {
            tree.situated(|situation| ShadowEstimate::of(situation, refused).reveal(situation, &Leveled))
        };
        let mut refused = BTreeSet::new();
        let mut levels = Vec::new();
        while let Some(plan) = next(&tree, &refused) {
            assert!(plan.only_collects && plan.trivial_move == (plan.level == 1), "level 2 has nothing");
            levels.push(plan.level);
            refused.extend(plan.upper.iter().map(|table| table.meta.id));
        }
        assert_eq!(levels, [1, 1, 0, 1], "a level is as full as what of it is not refused");
        let plan = next(&tree, &BTreeSet::new()).expect("a plan");
        let running = plan.upper[0].meta.id;
        tree.begin(plan);
        assert!(next(&tree, &BTreeSet::new()).is_some_and(|plan| plan.upper[0].meta.id != running));
    }
}
