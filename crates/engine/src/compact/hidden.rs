//! Garbage of the value log that no table's references tell of: what older entries further down still point to, while newer ones hide
//! them. It becomes known, and can be collected, when the two meet in a merge. Pure.
use super::{
    leveled,
    plan::{Limits, Plan, Policy, Situation},
    sizes,
};
use crate::version::{KeyRange, TableRef, Version, segments::Segment};
use std::sync::Arc;
use terrace_format::LEVELS;
use terrace_storage::placement::TableMeta;

/// What merges found before counts for about so many tables.
const TABLES_KEPT: u64 = 4;

/// How much of what merges brought to the deepest level, and met something there, hid that. Guarded by the control lock.
#[derive(Debug, Default)]
pub struct Found {
    /// Bytes of tables that came and met something, …
    brought: f64,
    /// … and by how many less there were afterwards than had been.
    less: f64,
    /// Bytes of tables that have come into the tree since.
    unseen: f64,
}

impl Found {
    /// `plan` was carried out and yielded `outputs`. What was found before counts as long as a few tables have not come since.
    pub fn merged(&mut self, plan: &Plan, outputs: &[TableMeta], limits: &Limits) {
        if plan.level == plan.output_level || plan.output_level != sizes::last(&plan.version.held()) {
            return; // it cannot tell what lies below
        }
        // What meets nothing cannot hide anything.
        let brought = leveled::bytes(&plan.upper).min(leveled::bytes(&plan.lower)) as f64;
        let left: u64 = outputs.iter().map(|meta| meta.bytes).sum();
        let kept = 1.0 / (1.0 + brought / (TABLES_KEPT * limits.table_bytes) as f64);
        self.brought = self.brought * kept + brought;
        self.less = self.less * kept + plan.bytes().saturating_sub(left) as f64;
        self.unseen = 0.0;
    }

    /// A table of `bytes` is new.
    pub fn flushed(&mut self, bytes: u64) {
        self.unseen += bytes as f64;
    }

    /// Of each byte above the deepest level, so much hides one of about its own size. Who writes over the same keys again and again fills
    /// upper levels without a merge into the deepest: what nobody has seen there for long is taken to hide, and soon a merge tells.
    pub fn share(&self) -> f64 {
        let known = self.brought + self.unseen;
        if known > 0.0 { ((self.less + self.unseen) / known).min(1.0) } else { 0.0 }
    }
}

/// Bytes of live values that are garbage in truth, if so large a `share` of what lies above something hides it: values are spread over
/// levels as keys are. What is on its way down counts no more.
pub fn bytes(situation: &Situation<'_>, all: &Segment, share: f64) -> u64 {
    let tree: u64 = situation.version.held().iter().sum();
    let above: u64 = waiting(situation).map(|(_, _, above)| above).sum();
    (all.live as f64 * share * above as f64 / tree.max(1) as f64) as u64
}

/// What to merge into the next level so that what is hidden comes to light: of the level that may hide most, the table that does.
pub fn merge(situation: &Situation<'_>, policy: &dyn Policy) -> Option<Plan> {
    let mut by_level = [0; LEVELS];
    waiting(situation).for_each(|(level, _, above)| by_level[level] += above);
    let (level, _) =
        by_level.into_iter().enumerate().filter(|(_, above)| *above > 0).max_by_key(|(_, above)| *above)?;
    let of_level = waiting(situation).filter(|(of, _, _)| *of == level);
    let (_, table, _) = of_level.max_by_key(|(_, _, above)| *above)?;
    policy.plan_range(situation, level, &table.span())
}

/// Tables above the deepest level that do not go down yet, with their levels, and how many of their bytes may hide something beneath.
fn waiting<'a>(situation: &'a Situation<'_>) -> impl Iterator<Item = (usize, &'a Arc<TableRef>, u64)> {
    let levels = situation.version.above_deepest().iter().enumerate();
    let tables = levels.flat_map(|(level, there)| there.tables().map(move |table| (level, table)));
    let stay = tables.filter(|(_, table)| !situation.busy.has(table.meta.id));
    stay.map(|(level, table)| (level, table, hiding_bytes(situation, level, table)))
}

/// No more bytes of a table hide something than there are beneath it.
fn hiding_bytes(situation: &Situation<'_>, level: usize, table: &TableRef) -> u64 {
    let (span, mut beneath) = (table.span(), 0);
    for below in &situation.version.levels[level + 1..] {
        for met in below.stretches(situation.order, &span).flatten() {
            beneath = met.meta.bytes.saturating_add(beneath);
            if beneath >= table.meta.bytes {
                return table.meta.bytes;
            }
        }
    }
    beneath
}

/// The first table above the deepest level that deletes ranges, with its level: it hides whatever lies below.
pub fn deleting(version: &Version) -> Option<(usize, KeyRange<'_>)> {
    version.above_deepest().iter().enumerate().find_map(|(number, level)| {
        let table = level.tables().find(|table| table.deletes_ranges())?;
        Some((number, table.span()))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::leveled::Leveled, super::tests::Tree, *};

    const LIMITS: Limits = Limits {
        table_bytes: 1000,
        level_base_bytes: 1 << 30,
        levels_fit: false,
        level_base_entries: 0,
        l0_compact_runs: 4,
        l0_pressing_runs: 8,
        l0_least_percent: 0,
        l0_merge_runs: 0,
        least_overlap: false,
    };

    fn tables(count: u64) -> Vec<TableMeta> {
        (0..count).map(|number| TableMeta::unbounded(terrace_format::TableId(number), 1000)).collect()
    }

    #[test]
    fn only_merges_into_the_deepest_level_tell() {
        let tree = Tree::stacked(LIMITS, [0, 2, 2, 4, 0, 0, 0]);
        let plan = |level| {
            tree.situated(|situation| Leveled.plan_range(situation, level, &KeyRange::default())).expect("tables")
        };
        let mut found = Found::default();
        assert_eq!(found.share(), 0.0);
        found.merged(&plan(1), &tables(0), &LIMITS);
        assert_eq!(found.share(), 0.0, "level 3 may have what it brought to level 2");
        let (brought, all) = (plan(2).upper.len() as u64, plan(2).inputs().count() as u64);
        found.merged(&plan(2), &tables(all), &LIMITS);
        assert_eq!(found.share(), 0.0, "all of it was new");
        found.flushed(found.brought as u64);
        assert_eq!(found.share(), 0.5, "it may be otherwise by now");
        (0..200).for_each(|_| found.merged(&plan(2), &tables(all - brought), &LIMITS));
        assert!(found.share() > 0.99, "all of it hides something since: {}", found.share());
        found.merged(&plan(2), &tables(0), &LIMITS);
        assert_eq!(found.share(), 1.0, "deletes hide, and go");
    }

    #[test]
    fn what_is_on_its_way_down_is_hidden_no_more() {
        let all = Segment { bytes: 2000, live: 1000 };
        let mut tree = Tree::stacked(LIMITS, [1, 3, 0, 6, 0, 0, 0]);
        let hidden = |tree: &Tree| tree.situated(|situation| bytes(situation, &all, 0.5));
        assert_eq!(hidden(&tree), 200);
        let plan = tree.situated(|situation| merge(situation, &Leveled)).expect("tables");
        assert_eq!(plan.level, 1, "the fullest");
        tree.begin(plan);
        assert_eq!(hidden(&tree), 150);
        let deepest = Tree::stacked(LIMITS, [0, 0, 5, 0, 0, 0, 0]);
        assert_eq!((hidden(&deepest), deepest.situated(|situation| merge(situation, &Leveled)).is_none()), (0, true));
    }
}
