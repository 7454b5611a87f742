//! LevelDB's leveled policy: each level below 0 is one run; the fullest level gives one table to the next.
//!
//! Level 0 is due by its number of runs, level n ≥ 1 by its bytes (base · 10^(n−1)). Tables are taken in turn around
//! the key space. Source: LevelDB's `version_set.cc`; the same history picks the same tables.
use super::plan::{Limits, Plan, Policy, Situation, span};
use crate::version::{KeyRange, TableRef};
use std::{cmp::Ordering, sync::Arc};
use terrace_format::{KeyOrder, LEVELS};

/// The policy; it has no state of its own.
#[derive(Debug, Default)]
pub struct Leveled;

impl Limits {
    /// A merge's own inputs may grow to this, if that costs nothing in the lower level.
    fn expanded_bytes(&self) -> u64 {
        25 * self.table_bytes
    }

    /// An output that would later meet more than this is ended; a table that meets more is not just moved.
    pub fn grandparent_bytes(&self) -> u64 {
        10 * self.table_bytes
    }
}

/// How due a level is; 1 is due.
pub fn score(limits: &Limits, level: usize, runs: usize, bytes: u64) -> f64 {
    if level == 0 {
        return runs as f64 / limits.l0_compact_runs as f64;
    }
    bytes as f64 / (limits.level_base_bytes as f64 * 10f64.powi(level as i32 - 1))
}

/// The deepest level, at most 2, that a new table of these keys may enter without meeting what is newer than it or
/// too much of what lies below. LevelDB's rule; the caller makes sure that nothing is being compacted.
pub fn level_for_flush(situation: &Situation<'_>, range: &KeyRange<'_>) -> usize {
    const DEEPEST: usize = 2;
    let levels = &situation.version.levels;
    let meets = |level: usize| levels[level].tables().any(|table| table.overlaps(situation.order, range));
    if meets(0) {
        return 0;
    }
    let below = |level: usize| -> u64 { bytes(&levels[level].overlapping(situation.order, range)) };
    (1..=DEEPEST)
        .take_while(|&level| !meets(level) && below(level + 1) <= situation.limits.grandparent_bytes())
        .last()
        .unwrap_or(0)
}

impl Policy for Leveled {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
            .map(|n| {
                let level = &situation.version.levels[n];
                (score(situation.limits, n, level.runs.len(), level.bytes()), n)
            })
            .filter(|(score, _)| *score >= 1.0)
            .collect();
        due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        due.iter().find_map(|&(_, level)| self.relieve(situation, level)).or_else(|| self.after_seeks(situation))
    }

    fn plan_range(&self, situation: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan> {
        let mut upper = overlapping(situation, level, range);
        if level > 0 {
            // One table's worth at a time, so that a huge range does not become one huge merge.
            let mut sum = 0;
            let full = upper.iter().position(|table| {
                sum += table.meta.bytes;
                sum >= situation.limits.table_bytes
            });
            upper.truncate(full.map_or(upper.len(), |at| at + 1));
        }
        let trivial_moves = false; // a wish to compact is a wish to rewrite
        (!upper.is_empty()).then(|| complete(situation, level, upper, trivial_moves))
    }
}

impl Leveled {
    /// The next table around the key space that can be compacted beside what is running.
    fn relieve(&self, situation: &Situation<'_>, level: usize) -> Option<Plan> {
        let mut tables: Vec<_> = situation.version.levels[level].tables().cloned().collect();
        if level == 0 {
            tables.reverse(); // LevelDB keeps level 0 oldest first
        }
        let pointer = &situation.pointers[level];
        let behind =
            |table: &Arc<TableRef>| situation.order.internal(&table.meta.largest, pointer) == Ordering::Greater;
        let start = if pointer.is_empty() { 0 } else { tables.iter().position(behind).unwrap_or(0) };
        tables.rotate_left(start);
        tables.into_iter().find_map(|table| self.grown_from(situation, level, table))
    }

    fn after_seeks(&self, situation: &Situation<'_>) -> Option<Plan> {
        let (level, id) = situation.seek_hint.filter(|(level, _)| level + 1 < LEVELS)?;
        let table = situation.version.levels[level].tables().find(|table| table.meta.id == id)?.clone();
        self.grown_from(situation, level, table)
    }

    fn grown_from(&self, situation: &Situation<'_>, level: usize, seed: Arc<TableRef>) -> Option<Plan> {
        let upper = if level == 0 {
            let range = KeyRange { from: Some(seed.smallest()), to: Some(seed.largest()) };
            overlapping(situation, 0, &range)
        } else {
            vec![seed]
        };
        let plan = complete(situation, level, upper, true);
        situation.busy.admits(situation.order, &plan).then_some(plan)
    }
}

/// Adds what must come along, and what may for free.
fn complete(situation: &Situation<'_>, level: usize, upper: Vec<Arc<TableRef>>, may_move: bool) -> Plan {
    let Situation { order, version, limits, .. } = situation;
    let mut upper = with_boundaries(situation, level, upper);
    let mut lower = beneath(situation, level + 1, &upper);
    if !lower.is_empty() {
        let (from, to) = span(order, upper.iter().chain(&lower)).expect("a plan has inputs");
        let wider = with_boundaries(
            situation,
            level,
            overlapping(situation, level, &KeyRange { from: Some(from), to: Some(to) }),
        );
        if wider.len() > upper.len() && bytes(&wider) + bytes(&lower) < limits.expanded_bytes() {
            let lower_for_wider = beneath(situation, level + 1, &wider);
            if lower_for_wider.len() == lower.len() {
                (upper, lower) = (wider, lower_for_wider);
            }
        }
    }
    let (from, to) = span(order, upper.iter().chain(&lower)).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let grandparents = version.levels.get(level + 2).map_or_else(Vec::new, |l| l.overlapping(order, &range));
    let trivial_move =
        may_move && upper.len() == 1 && lower.is_empty() && bytes(&grandparents) <= limits.grandparent_bytes();
    let last = upper.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("a plan has inputs");
    let pointer = last.meta.largest.clone();
    let version = Arc::clone(version);
    Plan { level, output_level: level + 1, upper, lower, grandparents, pointer, version, trivial_move }
}

/// Tables of `level` that hold keys of `range`. In level 0 tables overlap each other, so the range grows until no
/// further table meets it.
fn overlapping(situation: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
    let tables = &situation.version.levels[level];
    let mut found = tables.overlapping(situation.order, range);
    if level > 0 || found.is_empty() {
        return found;
    }
    loop {
        let (from, to) = span(situation.order, found.iter()).expect("not empty");
        let wider = tables.overlapping(situation.order, &KeyRange { from: Some(from), to: Some(to) });
        if wider.len() == found.len() {
            return found;
        }
        found = wider;
    }
}

/// Tables of the level below that the merge of `upper` meets.
fn beneath(situation: &Situation<'_>, level: usize, upper: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
    let (from, to) = span(situation.order, upper.iter()).expect("a plan has inputs");
    with_boundaries(situation, level, overlapping(situation, level, &KeyRange { from: Some(from), to: Some(to) }))
}

/// LevelDB may have split one user key's versions over two neighbours. The one that begins with the user key another
/// input ends with must come along, or its older versions would surface above newer ones.
fn with_boundaries(situation: &Situation<'_>, level: usize, mut tables: Vec<Arc<TableRef>>) -> Vec<Arc<TableRef>> {
    if level == 0 || tables.is_empty() {
        return tables;
    }
    let order = situation.order;
    loop {
        let last = tables.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("not empty");
        let next = situation.version.levels[level].tables().find(|table| {
            order.user(table.smallest(), last.largest()).is_eq()
                && order.internal(&table.meta.smallest, &last.meta.largest).is_gt()
        });
        match next {
            Some(table) => tables.push(table.clone()),
            None => return tables,
        }
    }
}

fn bytes(tables: &[Arc<TableRef>]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).sum()
}

/// Whether no level below `level` has a table that may hold `user`: then a delete has nothing left to hide.
pub fn is_bottom(order: &KeyOrder, version: &crate::version::Version, level: usize, user: &[u8]) -> bool {
    let range = KeyRange { from: Some(user), to: Some(user) };
    version.levels[level + 1..].iter().all(|level| {
        level.runs.iter().all(|run| {
            let at = run.partition_point(|table| order.user(table.largest(), user).is_lt());
            run.get(at).is_none_or(|table| !table.overlaps(order, &range))
        })
    })
}
