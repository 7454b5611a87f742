//! LevelDB's leveled policy: each level below 0 is one run; the fullest level gives one table to the next.
//!
//! Level 0 is due by its number of runs, but may wait ([`level0`]), and, where levels are sized from the last and nobody writes, by
//! its bytes; level n ≥ 1 by its bytes ([`LevelSizes`]); or each by its entries (base · 10^n), and tables whose entries nobody knows by their bytes. Tables are taken
//! in turn around the key space, or those first that meet least below. Before all others comes a level that goes down as a whole
//! ([`sink`]). A level whose work is blocked by what is running keeps its place: nothing less urgent may begin in its way. Source: LevelDB's `version_set.cc`; with its numbers the same
//! history picks the same tables.
use super::{
    claim::Claim,
    level0, move_level_down,
    plan::{Amount, Limits, Plan, Policy, Situation, span},
    seeks,
    sizes::{self, LevelSizes},
    tombstones,
};
use crate::version::{KeyRange, TableRef, Version};
use std::{cmp::Ordering, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, TableId};

/// The policy; it has no state of its own.
#[derive(Debug, Default)]
pub struct Leveled;

impl Limits {
    /// A merge's own inputs may grow to this, if that costs nothing in the lower level.
    pub fn expanded_bytes(&self) -> u64 {
        25 * self.target_file_size
    }

    /// An output that would later meet more than this is ended; a table that meets more is not just moved.
    pub fn grandparent_bytes(&self) -> u64 {
        10 * self.target_file_size
    }
}

/// How due a level is, in a store that is `resting` or not; 1 is due.
pub fn score(limits: &Limits, sizes: &LevelSizes, level: usize, there: &Amount, resting: bool) -> f64 {
    let entries = match limits.max_entries_for_level_base {
        0 => 0.0,
        base => there.entries as f64 / (base as f64 * 10f64.powi(level as i32)),
    };
    if level == 0 {
        // A run that was merged from several is one to search, but all of them to scan.
        let brought =
            if limits.fits() && resting { there.bytes as f64 / limits.max_bytes_for_level_base as f64 } else { 0.0 };
        return entries.max(brought).max(there.tables as f64 / limits.level0_file_num_compaction_trigger as f64);
    }
    let bytes = if limits.max_entries_for_level_base > 0 { there.uncounted } else { there.bytes };
    entries + bytes as f64 / sizes.of(level) as f64
}

/// The deepest level, at most 2, that a new table of these keys may enter without meeting what is newer than it or
/// too much of what lies below. LevelDB's rule; the caller makes sure that nothing is being compacted.
pub fn level_for_flush(situation: &Situation<'_>, range: &KeyRange<'_>) -> usize {
    let deepest = if situation.limits.fits() { sizes::last(&situation.version.held()).min(2) } else { 2 };
    let levels = &situation.version.levels;
    let meets = |level: usize| levels[level].tables().any(|table| table.overlaps(situation.order, range));
    if meets(0) {
        return 0;
    }
    let below = |level: usize| -> u64 { bytes(&levels[level].overlapping(situation.order, range)) };
    (1..=deepest)
        .take_while(|&level| !meets(level) && below(level + 1) <= situation.limits.grandparent_bytes())
        .last()
        .unwrap_or(0)
}

impl Policy for Leveled {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        let mut waiting: Vec<Claim> = situation.busy.wanted().cloned().into_iter().collect();
        let held = situation.version.held();
        if let Some(plan) = move_level_down::move_level_down(situation, &held) {
            if admits(situation, &waiting, &plan) {
                return Some(plan);
            }
            // What runs ends; damage does not, and what waits for that waits for nothing.
            if situation.busy.damage(situation.order, &plan).is_none() {
                waiting.push(Claim::of(situation.order, &plan));
            }
        }
        for level in due(situation, &held) {
            let blocked = match relieve(situation, level, &waiting) {
                Relief::Plan(plan) => return Some(plan),
                Relief::Blocked(claim) => claim,
                Relief::None => continue,
            };
            if level == 0
                && let Some(plan) = level0::merge_within(situation).filter(|plan| admits(situation, &waiting, plan))
            {
                return Some(plan);
            }
            waiting.push(blocked);
        }
        let sought = seeks::plan(situation).filter(|plan| admits(situation, &waiting, plan));
        sought.or_else(|| tombstones::plan(situation, |plan| admits(situation, &waiting, plan)))
    }

    fn plan_range(&self, situation: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan> {
        let mut upper = overlapping(situation, level, range);
        if level > 0 {
            // One table's worth at a time, so that a huge range does not become one huge merge; less where that meets much,
            // as small tables of deletes do.
            let (mut sum, mut met) = (0u64, 0u64);
            let full = upper.iter().position(|table| {
                sum = sum.saturating_add(table.meta.bytes);
                met = met.saturating_add(bytes(&beneath(situation, level + 1, std::slice::from_ref(table))));
                sum >= situation.limits.target_file_size || met >= situation.limits.grandparent_bytes()
            });
            upper.truncate(full.map_or(upper.len(), |at| at + 1));
        }
        let trivial_moves = false; // a wish to compact is a wish to rewrite
        (!upper.is_empty()).then(|| complete(situation, level, upper, trivial_moves))
    }
}

/// What can be done for a level that is due.
enum Relief {
    Plan(Plan),
    /// Its first choice has to wait for what is running.
    Blocked(Claim),
    /// It has nothing to give that is not on its way already.
    None,
}

/// Levels that are due, the most urgent first. What is on its way down counts no more, nor does what may wait.
fn due(situation: &Situation<'_>, held: &[u64; LEVELS]) -> Vec<usize> {
    let sizes = situation.limits.level_sizes(held);
    let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
        .map(|n| {
            let there = Amount::of(situation.version.levels[n].tables()).minus(&situation.busy.leaving(n));
            (score(situation.limits, &sizes, n, &there, situation.busy.lull.is_resting()), n)
        })
        .filter(|(score, level)| *score >= 1.0 && !(*level == 0 && level0::waits(situation)))
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    due.into_iter().map(|(_, level)| level).collect()
}

/// Whether `plan` may begin beside what is running, and in nobody's way who waits.
fn admits(situation: &Situation<'_>, waiting: &[Claim], plan: &Plan) -> bool {
    let in_the_way = || {
        let claim = Claim::of(situation.order, plan);
        waiting.iter().any(|other| !other.is_apart(situation.order, &claim))
    };
    situation.busy.admits(situation.order, plan) && (waiting.is_empty() || !in_the_way())
}

/// The first table of `level`, in the order of its turns, that can be compacted now.
fn relieve(situation: &Situation<'_>, level: usize, waiting: &[Claim]) -> Relief {
    let turns = if situation.limits.least_overlap && level > 0 { by_overlap } else { around };
    let mut blocked = Relief::None;
    for table in turns(situation, level) {
        if situation.busy.has(table.meta.id) {
            continue;
        }
        let plan = grown_from(situation, level, table);
        if admits(situation, waiting, &plan) {
            return Relief::Plan(plan);
        }
        if let Some(plan) = level0::older_part(situation, &plan).filter(|plan| admits(situation, waiting, plan)) {
            return Relief::Plan(plan);
        }
        if matches!(blocked, Relief::None) && situation.busy.damage(situation.order, &plan).is_none() {
            blocked = Relief::Blocked(Claim::of(situation.order, &plan));
        }
    }
    blocked
}

/// The tables of `level` once around the key space, from where its last compaction ended.
fn around(situation: &Situation<'_>, level: usize) -> Vec<Arc<TableRef>> {
    let mut tables: Vec<_> = situation.version.levels[level].tables().cloned().collect();
    if level == 0 {
        tables.reverse(); // LevelDB keeps level 0 oldest first
    }
    let pointer = &situation.pointers[level];
    let behind = |table: &Arc<TableRef>| situation.order.internal(&table.meta.largest, pointer) == Ordering::Greater;
    let start = if pointer.is_empty() { 0 } else { tables.iter().position(behind).unwrap_or(0) };
    tables.rotate_left(start);
    tables
}

/// The tables of `level`, those first that meet the fewest bytes below for a byte of their own: the cheapest to
/// rewrite.
fn by_overlap(situation: &Situation<'_>, level: usize) -> Vec<Arc<TableRef>> {
    let below = &situation.version.levels[level + 1];
    let cost = |table: &TableRef| {
        let met: u64 = below.stretches(situation.order, &table.span()).flatten().map(|table| table.meta.bytes).sum();
        met as f64 / table.meta.bytes.max(1) as f64
    };
    let mut tables: Vec<_> =
        situation.version.levels[level].tables().map(|table| (cost(table), table.clone())).collect();
    tables.sort_by(|a, b| a.0.total_cmp(&b.0));
    tables.into_iter().map(|(_, table)| table).collect()
}

/// The merge of a table, with what its level has of its keys if that is level 0.
pub fn grown_from(situation: &Situation<'_>, level: usize, seed: Arc<TableRef>) -> Plan {
    let upper = if level == 0 { overlapping(situation, 0, &seed.span()) } else { vec![seed] };
    complete(situation, level, upper, true)
}

/// Adds what must come along, and what may for free.
pub fn complete(situation: &Situation<'_>, level: usize, upper: Vec<Arc<TableRef>>, may_move: bool) -> Plan {
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
        let free = || !wider.iter().any(|table| situation.busy.has(table.meta.id));
        if wider.len() > upper.len() && bytes(&wider) + bytes(&lower) < limits.expanded_bytes() && free() {
            let lower_for_wider = beneath(situation, level + 1, &wider);
            if lower_for_wider.len() == lower.len() {
                (upper, lower) = (wider, lower_for_wider);
            }
        }
    }
    let (from, to) = span(order, upper.iter().chain(&lower)).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let grandparents = version.levels.get(level + 2).map_or_else(Vec::new, |l| l.overlapping(order, &range));
    let trivial_move = may_move
        && upper.len() == 1
        && lower.is_empty()
        && bytes(&grandparents) <= limits.grandparent_bytes()
        && !tombstones::sheds(situation, &upper[0], level + 1);
    let last = upper.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("a plan has inputs");
    let pointer = last.meta.largest.clone();
    let version = situation.copied();
    let (output_level, number, only_collects) = (level + 1, None, false);
    Plan { level, output_level, upper, lower, grandparents, pointer, version, trivial_move, number, only_collects }
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

/// The first of `level`'s tables with keys of `range` that begins behind user key `behind` and has a number below `older`,
/// with all that its level has of its keys, to be written anew where it is.
pub fn renewal(
    situation: &Situation<'_>,
    level: usize,
    range: &KeyRange<'_>,
    behind: Option<&[u8]>,
    older: TableId,
) -> Option<Plan> {
    let order = situation.order;
    let rest = KeyRange { from: behind.or(range.from), to: range.to };
    let begins_behind = |table: &TableRef| behind.is_none_or(|behind| order.user(table.smallest(), behind).is_gt());
    let mut tables = situation.version.levels[level].stretches(order, &rest).flatten();
    let table = tables.find(|table| table.meta.id < older && begins_behind(table))?;
    Some(Plan::in_place(situation, level, with_boundaries(situation, level, vec![table.clone()])))
}

/// Tables of the level below that the merge of `upper` meets.
fn beneath(situation: &Situation<'_>, level: usize, upper: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
    let (from, to) = span(situation.order, upper.iter()).expect("a plan has inputs");
    with_boundaries(situation, level, overlapping(situation, level, &KeyRange { from: Some(from), to: Some(to) }))
}

/// LevelDB may have split one user key's versions over two neighbours. The one that begins with the user key another
/// input ends with must come along, or its older versions would surface above newer ones.
pub fn with_boundaries(situation: &Situation<'_>, level: usize, mut tables: Vec<Arc<TableRef>>) -> Vec<Arc<TableRef>> {
    if level == 0 || tables.is_empty() {
        return tables;
    }
    let order = situation.order;
    loop {
        let last = tables.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("not empty");
        let next = situation.version.levels[level].runs.iter().find_map(|run| {
            let at = run.partition_point(|table| order.internal(&table.meta.smallest, &last.meta.largest).is_le());
            run.get(at).filter(|table| order.user(table.smallest(), last.largest()).is_eq())
        });
        match next {
            Some(table) => tables.push(table.clone()),
            None => return tables,
        }
    }
}

/// Bytes of `tables`.
pub fn bytes(tables: &[Arc<TableRef>]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).fold(0, u64::saturating_add)
}

/// Whether no level below `level` has a table that may hold a key of `range`: then a delete has nothing left to hide. Never in
/// level 0, where older runs may.
pub fn is_range_bottom(order: &KeyOrder, version: &Version, level: usize, range: &KeyRange<'_>) -> bool {
    level > 0 && version.levels[level + 1..].iter().all(|level| level.overlapping(order, range).is_empty())
}

/// As [`is_range_bottom`], of one key.
pub fn is_bottom(order: &KeyOrder, version: &Version, level: usize, user: &[u8]) -> bool {
    if level == 0 {
        return false;
    }
    let range = KeyRange { from: Some(user), to: Some(user) };
    version.levels[level + 1..].iter().all(|level| {
        level.runs.iter().all(|run| {
            let at = run.partition_point(|table| order.user(table.largest(), user).is_lt());
            run.get(at).is_none_or(|table| !table.overlaps(order, &range))
        })
    })
}
