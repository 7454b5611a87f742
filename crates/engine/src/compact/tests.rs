//! Runs the policy on random trees with compactions that end in any order. Tables are lists of
//! entries, so every step is judged by the result of a read.
use super::{
    leveled::{Leveled, is_bottom, level_for_flush, rewrite_in_place, score},
    plan::{LevelTotals, Limits, Plan, Policy, Situation, span},
    seek_compaction, split, tombstones, value_log_gc,
};
use crate::{
    compact::reservation::{Reservation, RunningCompactions},
    version::{
        Contents, KeyRange, TableRef, add_to,
        set::{Start, VersionSet},
    },
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use terrace_format::{KeyOrder, Kind, LEVELS, LogId, SegmentId, SeqNo, TableId, edit::Edit, key};
use terrace_sim::Rng;
use terrace_storage::{
    DurabilityHandle,
    placement::{ObjectId, TableMeta},
};

const ORDER: KeyOrder = KeyOrder::Bytewise;
const ENTRY_BYTES: u64 = 1000;
const KEYS: usize = 150;

type Entry = (Vec<u8>, u64, Kind);

fn user(n: usize) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

type Admits = fn(&Plan) -> bool;
type Picker = fn(&Situation<'_>, Admits) -> Option<Plan>;

/// The most urgent level is waiting.
struct Waiting {
    level: usize,
    /// One input of each compaction that ran when the wait began.
    jobs: Vec<TableId>,
    /// How often all of these have ended.
    rounds: usize,
}

/// A store without storage.
pub struct Tree {
    rng: Rng,
    limits: Limits,
    jobs_max: usize,
    versions: VersionSet,
    busy: RunningCompactions,
    running: Vec<Plan>,
    tables: BTreeMap<TableId, Vec<Entry>>,
    /// Oldest first.
    sealed: VecDeque<(TableId, Vec<Entry>)>,
    newest: BTreeMap<Vec<u8>, (u64, Kind)>,
    last: u64,
    waits: Option<Waiting>,
}

impl Tree {
    fn new(seed: u64, limits: Limits, jobs_max: usize) -> Tree {
        Tree {
            rng: Rng::new(seed),
            limits,
            jobs_max,
            versions: VersionSet::new(ORDER, Start { next_file: 2, ..Start::default() }),
            busy: RunningCompactions::default(),
            running: Vec::new(),
            tables: BTreeMap::new(),
            sealed: VecDeque::new(),
            newest: BTreeMap::new(),
            last: 0,
            waits: None,
        }
    }

    /// Makes levels with this many adjacent tables of 1000 bytes each.
    pub fn stacked(limits: Limits, levels: [usize; LEVELS]) -> Tree {
        let mut tree = Tree::new(1, limits, 1);
        let mut edit = Edit::default();
        for (level, count) in levels.into_iter().enumerate() {
            for n in 0..count {
                let id = TableId(tree.versions.new_number());
                let meta = tree.made(id, vec![(user(n * KEYS / count), id.0, Kind::Put)]);
                add_to(&mut edit, level, &meta);
            }
        }
        tree.last = 999;
        tree.versions
            .install_flush(edit, SeqNo(tree.last), LogId(0), 0, DurabilityHandle::mature())
            .expect("disjoint in each level");
        tree
    }

    /// Compacts until no level is due. Returns the bytes rewritten.
    pub fn settle(&mut self) -> u64 {
        let mut merged = 0;
        while let Some(plan) = self.situated(|ctx| Leveled.plan(ctx)) {
            merged += if plan.trivial_move { 0 } else { plan.bytes() };
            self.begin(plan);
            self.end_one();
        }
        merged
    }

    pub fn begin(&mut self, plan: Plan) {
        self.busy.begin(&ORDER, &plan);
        self.running.push(plan);
    }

    pub fn tables_held(&self) -> [usize; LEVELS] {
        std::array::from_fn(|level| self.versions.live().levels[level].tables().count())
    }

    pub fn situated<T>(&self, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        look(&Situation {
            order: &ORDER,
            version: self.versions.live(),
            busy: &self.busy,
            pointers: self.versions.pointers(),
            limits: &self.limits,
            reserved_numbers: self.versions.reserved_numbers(),
            seek_hint: None,
            oldest_reader: SeqNo(self.last),
            shadow_ratio: 0.0,
        })
    }

    fn seal(&mut self) {
        let mut entries = BTreeMap::new();
        let from = if self.rng.chance(1, 2) { 0 } else { self.rng.below(KEYS) };
        for _ in 0..1 + self.rng.below(12) {
            self.last += 1;
            let kind = if self.rng.chance(1, 4) { Kind::Delete } else { Kind::Put };
            let reach = if from == 0 { KEYS } else { 20 };
            let key = user((from + self.rng.below(reach)) % KEYS);
            entries.insert(key.clone(), (self.last, kind));
            self.newest.insert(key, (self.last, kind));
        }
        let entries = entries.into_iter().map(|(key, (seq, kind))| (key, seq, kind)).collect();
        let table = self.versions.new_sealed_number(self.limits.intra_l0_compaction_trigger > 0);
        self.sealed.push_back((table, entries));
    }

    /// Flushes a run with the first and the last key.
    fn flush_wide(&mut self) {
        let table = self.versions.new_sealed_number(true);
        self.last += 1;
        self.sealed.push_back((table, [0, KEYS - 1].map(|n| (user(n), self.last, Kind::Put)).to_vec()));
        self.flush();
    }

    fn flush(&mut self) {
        let Some((id, entries)) = self.sealed.pop_front() else { return };
        let meta = self.made(id, entries);
        let range = KeyRange { from: Some(key::user_key(&meta.smallest)), to: Some(key::user_key(&meta.largest)) };
        let alone = self.busy.is_empty() && !self.versions.compaction_pending();
        let level = if alone { self.situated(|ctx| level_for_flush(ctx, &range)) } else { 0 };
        let mut edit = Edit::default();
        add_to(&mut edit, level, &meta);
        let contents = self.contents(&meta);
        let install = self.versions.install_flush(edit, SeqNo(self.last), LogId(0), 0, DurabilityHandle::mature());
        install.expect("a flush").set_contents(level, vec![contents]);
    }

    fn made(&mut self, id: TableId, entries: Vec<Entry>) -> TableMeta {
        let bound = |entry: &Entry| key::encode(&entry.0, SeqNo(entry.1), entry.2);
        let (smallest, largest) = (bound(&entries[0]), bound(&entries[entries.len() - 1]));
        let count = entries.len() as u64;
        assert!(self.tables.insert(id, entries).is_none(), "number {id} was used before");
        TableMeta { entries: count, ..TableMeta::bounded(id, count * ENTRY_BYTES, None, smallest, largest) }
    }

    fn contents(&self, meta: &TableMeta) -> (TableId, Contents) {
        let mut contents = Contents::default();
        for (user, seq, kind) in &self.tables[&meta.id] {
            contents.add(&key::Parsed { user, seq: SeqNo(*seq), kind: *kind }, true);
        }
        (meta.id, contents)
    }

    /// Starts all compactions that may start.
    fn schedule(&mut self) {
        while self.running.len() < self.jobs_max
            && let Some(plan) = self.situated(|ctx| Leveled.plan(ctx))
        {
            // A level that became more urgent, for instance because targets follow the level sizes,
            // resets the wait: that is soon done.
            let first = self.situated(due).first().copied();
            self.waits.take_if(|waits| Some(waits.level) != first);
            self.running.iter().for_each(|other| assert_disjoint(other, &plan));
            self.waits.take_if(|waits| waits.level == plan.level);
            self.begin(plan);
        }
        self.check_starvation();
        self.check_tombstone_plan();
    }

    /// The pick by remembered summaries is that of a full scan.
    fn check_tombstone_plan(&self) {
        for shadow_ratio in [0.0, 1.0] {
            let picked = |pick: Picker, admits: Admits| {
                let plan = self.situated(|ctx| pick(&Situation { shadow_ratio, ..*ctx }, admits));
                plan.map(|plan| plan.inputs().map(|(_, table)| table.meta.id).collect::<Vec<_>>())
            };
            for admits in [(|_| true) as Admits, |plan| plan.upper[0].meta.id.0 % 2 == 0] {
                let scanned = picked(|ctx, admits| tombstones::plan_by_full_scan(ctx, admits), admits);
                (0..2).for_each(|_| assert_eq!(picked(|ctx, admits| tombstones::plan(ctx, admits), admits), scanned));
            }
        }
    }

    /// Ends one of the running compactions.
    fn end_one(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let plan = self.running.swap_remove(self.rng.below(self.running.len()));
        let mut edit = Edit::default();
        edit.deleted.extend(plan.inputs().map(|(level, table)| (level, table.meta.id)));
        if plan.output_level > plan.level {
            edit.compact_pointers.push((plan.level, plan.pointer.clone()));
        }
        let mut contents = Vec::new();
        for meta in self.merged(&plan) {
            add_to(&mut edit, plan.output_level, &meta);
            contents.push(self.contents(&meta));
        }
        self.busy.end(&plan);
        let install = self.versions.install_compaction(edit, Vec::new(), 0, |_| false);
        install.expect("a compaction").set_contents(plan.output_level, contents);
    }

    fn merged(&mut self, plan: &Plan) -> Vec<TableMeta> {
        if plan.trivial_move {
            return plan.upper.iter().map(|table| table.meta.clone()).collect();
        }
        let mut entries: Vec<Entry> =
            plan.inputs().flat_map(|(_, table)| self.tables[&table.meta.id].iter().cloned()).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries.dedup_by(|older, newer| older.0 == newer.0);
        entries
            .retain(|(user, _, kind)| *kind == Kind::Put || !is_bottom(&ORDER, &plan.version, plan.output_level, user));
        let size = (self.limits.target_file_size / ENTRY_BYTES) as usize;
        let size = if plan.number.is_some() { entries.len().max(1) } else { size };
        let chunks: Vec<Vec<Entry>> = entries.chunks(size).map(<[Entry]>::to_vec).collect();
        let mut metas = Vec::new();
        for chunk in chunks {
            let id = plan.number.unwrap_or_else(|| TableId(self.versions.new_number()));
            metas.push(self.made(id, chunk));
        }
        metas
    }

    /// The most urgent level waits for the compactions that ran when it became most urgent. They
    /// may consume its tables, and compactions that started with them may block the rest. After
    /// that it is the level's turn.
    fn check_starvation(&mut self) {
        let running: Vec<TableId> = self.running.iter().map(|plan| plan.upper[0].meta.id).collect();
        let first = self.situated(due).first().copied();
        self.waits = match (self.waits.take(), first) {
            (Some(mut waits), Some(level)) if waits.level == level => {
                if running.len() < self.jobs_max && !waits.jobs.iter().any(|job| running.contains(job)) {
                    (waits.jobs, waits.rounds) = (running, waits.rounds + 1);
                }
                assert!(waits.rounds <= 2, "level {level} starves");
                Some(waits)
            }
            (_, first) => first.map(|level| Waiting { level, jobs: running, rounds: 0 }),
        };
    }

    fn commit_edits(&mut self) {
        let count = self.versions.committable().expect("durable handles").0;
        let count = self.rng.below(count + 1);
        self.versions.mark_committed(count).expect("a commit");
    }

    /// Every read finds the newest write of every key.
    fn check_reads(&self) {
        let live = self.versions.live();
        for (user, (seq, kind)) in &self.newest {
            let in_memory = self.sealed.iter().rev().map(|(_, entries)| entries);
            let in_tables = live.tables().map(|(_, table)| &self.tables[&table.meta.id]);
            let found = in_memory.chain(in_tables).find_map(|entries| entries.iter().find(|entry| entry.0 == *user));
            match found {
                Some(entry) => assert_eq!((entry.1, entry.2), (*seq, *kind), "an older write of {user:?} surfaced"),
                None => assert_eq!(*kind, Kind::Delete, "{user:?} is missing"),
            }
        }
    }
}

/// Returns the due levels, most urgent first, by the policy's specification.
fn due(ctx: &Situation<'_>) -> Vec<usize> {
    let sizes = ctx.limits.level_targets(&ctx.version.held());
    let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
        .map(|n| {
            let (level, leaving) = (&ctx.version.levels[n], ctx.busy.leaving(n));
            let tables = if n == 0 { level.runs.len() - leaving.tables } else { 1 };
            let totals = LevelTotals::of(level.tables());
            let entries = totals.entries - leaving.entries;
            let uncounted_bytes = totals.uncounted_bytes - leaving.uncounted_bytes;
            let totals = LevelTotals { tables, bytes: level.bytes() - leaving.bytes, entries, uncounted_bytes };
            (score(ctx.limits, &sizes, n, &totals, ctx.busy.idle.is_idle()), n)
        })
        .filter(|(score, level)| *score >= 1.0 && !(*level == 0 && level_0_may_wait(ctx)))
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    due.into_iter().map(|(_, level)| level).collect()
}

/// Whether level 0 should wait, with its compaction counted by runs.
fn level_0_may_wait(ctx: &Situation<'_>) -> bool {
    let Situation { version, busy, limits, .. } = ctx;
    let may_wait =
        limits.level0_min_overlap_percent > 0 && limits.max_entries_for_level_base == 0 && !busy.idle.is_idle();
    if !may_wait || version.levels[0].runs.len() as u64 >= limits.l0_pressing_runs {
        return false;
    }
    let keys = |table: &TableRef| table.smallest().to_vec()..=table.largest().to_vec();
    let (mut upper, mut lower) = (0, BTreeMap::new());
    for run in version.levels[0].tables().filter(|run| !busy.has(run.meta.id)) {
        upper += run.meta.bytes;
        let overlaps_run = |table: &&std::sync::Arc<TableRef>| {
            keys(run).contains(&table.smallest().to_vec()) || keys(table).contains(&run.smallest().to_vec())
        };
        lower.extend(version.levels[1].tables().filter(overlaps_run).map(|table| (table.meta.id, table.meta.bytes)));
    }
    (upper as f64) < lower.values().sum::<u64>() as f64 * limits.level0_min_overlap_percent as f64 / 100.0
}

/// Two compactions that run at the same time share no table, and where both may place tables
/// below level 0, no key.
fn assert_disjoint(a: &Plan, b: &Plan) {
    let tables = |plan: &Plan| plan.inputs().map(|(_, table)| table.meta.id).collect::<Vec<_>>();
    assert!(!tables(a).iter().any(|table| tables(b).contains(table)), "a table in two compactions: {a:?} {b:?}");
    let writes = |plan: &Plan, level: usize| (plan.level.max(1)..=plan.output_level).contains(&level);
    if (1..LEVELS).any(|level| writes(a, level) && writes(b, level)) {
        let keys = |plan: &Plan| {
            let inputs: Vec<std::sync::Arc<TableRef>> = plan.inputs().map(|(_, table)| table.clone()).collect();
            span(&ORDER, inputs.iter()).map(|(from, to)| (from.to_vec(), to.to_vec())).expect("inputs")
        };
        let ((a_from, a_to), (b_from, b_to)) = (keys(a), keys(b));
        assert!(a_to < b_from || b_to < a_from, "two running compactions overlap: {a:?} {b:?}");
    }
}

/// Level 0 covers all keys and waits for a compaction of level 1. Level 1, less urgent, could
/// start one compaction after the other meanwhile; it has to let level 0 pass.
#[test]
fn a_less_urgent_compaction_does_not_block_a_reserved_one() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 5500,
        level0_file_num_compaction_trigger: 2,
        ..Limits::default()
    };
    let mut tree = Tree::new(0, limits, 2);
    let mut edit = Edit::default();
    for n in 0..6 {
        let id = TableId(tree.versions.new_number());
        add_to(&mut edit, 1, &tree.made(id, vec![(user(10 * n), 1, Kind::Put)]));
        let id = TableId(tree.versions.new_number());
        add_to(&mut edit, 2, &tree.made(id, vec![(user(10 * n), 0, Kind::Put)]));
    }
    tree.versions.install_flush(edit, SeqNo(1), LogId(0), 0, DurabilityHandle::mature()).expect("tables");
    tree.last = 2;
    tree.schedule();
    assert_eq!(tree.running.iter().map(|plan| plan.level).collect::<Vec<_>>(), [1], "level 1 is due once");
    for _ in 0..4 {
        tree.sealed.push_back((
            tree.versions.new_sealed_number(false),
            vec![(user(0), 2, Kind::Put), (user(50), 2, Kind::Put)],
        ));
        tree.flush();
    }
    tree.limits.max_bytes_for_level_base = 3000; // due again
    tree.schedule();
    assert_eq!(tree.running.len(), 1, "level 0 is more urgent, and would be blocked again");
    tree.end_one();
    let manual = tree.situated(|ctx| Leveled.plan_range(ctx, 1, &KeyRange::default())).expect("tables");
    tree.busy.reserve_manual(Some(Reservation::of(&ORDER, &manual)));
    tree.schedule();
    assert!(tree.running.is_empty(), "a manual compaction comes before both");
    tree.busy.reserve_manual(None);
    tree.schedule();
    assert_eq!(tree.running.iter().map(|plan| plan.level).collect::<Vec<_>>(), [0], "now level 0 is compacted");
}

/// Keys that are overwritten meanwhile need not be compacted into level 1 again and again.
#[test]
fn level_0_is_due_by_bytes_only_in_an_idle_store() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 2000,
        level_compaction_dynamic_level_bytes: true,
        level0_file_num_compaction_trigger: 4,
        ..Limits::default()
    };
    let mut tree = Tree::stacked(limits, [3, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held(), [3, 1, 0, 0, 0, 0, 0]);
    tree.busy.idle.set_idle(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 1, "a run of half the base is left");
    let mut tree = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 3, "the trigger by runs does not wait");
}

#[test]
fn tables_that_overlap_several_ranges_count_once() {
    // A table at every 15th key.
    let tree = Tree::stacked(Limits::default(), [0, 10, 0, 0, 0, 0, 0]);
    let bytes = |ranges: &[(usize, usize)]| {
        let keys: Vec<_> = ranges.iter().map(|(from, to)| [*from, *to].map(user)).collect();
        let ranges: Vec<_> = keys.iter().map(|[from, to]| KeyRange { from: Some(from), to: Some(to) }).collect();
        tree.versions.live().levels[1].overlapping_bytes(&ORDER, &ranges)
    };
    assert_eq!(bytes(&[]), 0);
    assert_eq!(bytes(&[(1, 14), (136, 149)]), 0, "between tables, and after the last");
    assert_eq!(bytes(&[(15, 30), (0, 15), (30, 45), (20, 31)]), 4000);
    assert_eq!(bytes(&[(0, 149), (30, 30)]), 10_000);
}

/// Runs of 2000 bytes overlap all of level 1, which has tables of 1000 bytes. Less than half of
/// it is not worth the rewrite.
#[test]
fn level_0_waits_until_it_is_large_enough_or_long_or_the_store_is_idle() {
    let mut limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 20,
        level0_file_num_compaction_trigger: 2,
        ..Limits::default()
    };
    (limits.level0_min_overlap_percent, limits.l0_pressing_runs, limits.intra_l0_compaction_trigger) = (50, 5, 2);
    let filled = |runs: usize, below: usize| {
        let mut tree = Tree::stacked(limits, [0, below, 0, 0, 0, 0, 0]);
        (0..runs).for_each(|_| tree.flush_wide());
        tree
    };
    let remaining = [(2, 9), (2, 8), (4, 17), (5, 21)].map(|(runs, below)| {
        let mut tree = filled(runs, below);
        tree.settle();
        tree.tables_held()[0]
    });
    assert_eq!(remaining, [2, 0, 4, 0]);

    let mut tree = filled(2, 9);
    tree.busy.idle.set_idle(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 0, "the store is idle");

    let mut tree = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 1, "a small overlap does not wait");

    let mut tree = filled(3, 12);
    tree.schedule();
    assert_eq!(tree.running.len(), 1, "large enough");
    (0..2).for_each(|_| tree.flush_wide());
    let plan = tree.situated(|ctx| Leveled.plan(ctx)).expect("runs being compacted are still probed");
    assert_eq!((plan.output_level, plan.upper.len()), (0, 2), "intra-L0 compaction meanwhile");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_interleaving_keeps_every_read_right_and_no_level_starves(
        seed in any::<u64>(),
        jobs_max in 1..5usize,
        level0_file_num_compaction_trigger in 1..5u64,
        intra_l0_compaction_trigger in 0..4u64,
        l0_pressing_runs in 1..9u64,
        level0_min_overlap_percent in prop::sample::select(vec![0u64, 70, 300]),
        min_overlapping_ratio in any::<bool>(),
        level_compaction_dynamic_level_bytes in any::<bool>(),
        max_entries_for_level_base in prop::sample::select(vec![0u64, 20]),
        tombstone_compaction_percent in prop::sample::select(vec![0u64, 10, 50]),
    ) {
        let limits =
            Limits { target_file_size: 10_000, max_bytes_for_level_base: 20_000, level_compaction_dynamic_level_bytes, level0_file_num_compaction_trigger, l0_pressing_runs, level0_min_overlap_percent, intra_l0_compaction_trigger, min_overlapping_ratio, max_entries_for_level_base, tombstone_compaction_percent };
        let mut tree = Tree::new(seed, limits, jobs_max);
        for _ in 0..400 {
            match tree.rng.below(10) {
                0..3 => tree.seal(),
                3..6 => tree.flush(),
                6..9 => tree.end_one(),
                _ => tree.commit_edits(),
            }
            if tree.rng.chance(1, 20) {
                let idle = tree.rng.chance(1, 2);
                if idle { tree.busy.idle.set_idle(tree.last) } else { tree.busy.idle.look(u64::MAX) }
                tree.busy.idle.set_long_idle(idle);
            }
            tree.schedule();
            tree.check_reads();
        }
        let mut steps = 0;
        while !tree.running.is_empty() || !tree.sealed.is_empty() {
            tree.flush();
            tree.end_one();
            tree.schedule();
            steps += 1;
            prop_assert!(steps < 10_000, "compaction does not end");
        }
        tree.check_reads();
        prop_assert_eq!(tree.situated(due), Vec::<usize>::new(), "a due level was not compacted");
    }
}

/// Tables with an unknown number of entries count by bytes, next to tables with a known one.
#[test]
fn tables_with_unknown_entries_count_by_bytes() {
    let table = |id, bytes, entries| {
        let [smallest, largest] = [1, 2].map(|n| key::encode(&user(10 * id as usize + n), SeqNo(1), Kind::Put));
        TableMeta { entries, ..TableMeta::bounded(TableId(id), bytes, None, smallest, largest) }
    };
    let mut edit = Edit::default();
    [table(2, 500, 0), table(3, 7000, 30), table(4, 700, 0)].iter().for_each(|meta| add_to(&mut edit, 1, meta));
    let mut versions = VersionSet::new(ORDER, Start { next_file: 5, ..Start::default() });
    let version = versions.install_flush(edit, SeqNo(1), LogId(1), 0, DurabilityHandle::mature()).unwrap();
    let totals = LevelTotals::of(version.levels[1].tables());
    assert_eq!(totals, LevelTotals { tables: 3, bytes: 8200, entries: 30, uncounted_bytes: 1200 });
    let limits = Limits { max_bytes_for_level_base: 1000, max_entries_for_level_base: 100, ..Limits::default() };
    let sizes = limits.level_targets(&[0; LEVELS]);
    assert!((score(&limits, &sizes, 1, &totals, false) - (0.03 + 1.2)).abs() < 1e-9);
    let none = totals.minus(&totals);
    assert_eq!(none, LevelTotals::default());
    assert!(
        (score(&Limits { max_entries_for_level_base: 0, ..limits }, &sizes, 1, &totals, false) - 8.2).abs() < 1e-9,
        "levels are sized by bytes"
    );
}

/// A rewrite in place includes every older version of its keys in the level; otherwise a dropped
/// tombstone would bring one back.
#[test]
fn a_rewrite_in_place_includes_all_versions_of_its_last_key() {
    let mut tree = Tree::new(0, Limits::default(), 1);
    let mut edit = Edit::default();
    let mut ids = Vec::new();
    for (first, last) in [((1, 9), (2, 9)), ((2, 5), (2, 3)), ((2, 1), (3, 1)), ((4, 1), (5, 1))] {
        let entry = |(n, seq): (usize, u64)| (user(n), seq, Kind::Put);
        ids.push(TableId(tree.versions.new_number()));
        add_to(&mut edit, 2, &tree.made(ids[ids.len() - 1], vec![entry(first), entry(last)]));
    }
    tree.versions.install_flush(edit, SeqNo(9), LogId(0), 0, DurabilityHandle::mature()).expect("tables");
    let picked_ids = |after: Option<usize>, older: u64| -> Vec<TableId> {
        let (after, all) = (after.map(user), KeyRange::default());
        let plan = tree.situated(|ctx| rewrite_in_place(ctx, 2, &all, after.as_deref(), TableId(older)));
        plan.map_or_else(Vec::new, |plan| plan.inputs().map(|(_, table)| table.meta.id).collect())
    };
    assert_eq!(picked_ids(None, u64::MAX), ids[..3]);
    assert_eq!(picked_ids(Some(3), u64::MAX), ids[3..]);
    assert_eq!(picked_ids(Some(3), ids[3].0), [], "its number is not below");
    assert_eq!(picked_ids(Some(5), u64::MAX), []);
}

/// The price of one table in level 0 counts the first level below with an overlap, at any depth,
/// and no other.
#[test]
fn a_seek_compaction_is_priced_by_the_first_level_with_an_overlap() {
    let price = |levels| {
        let tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, levels);
        let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
        tree.situated(|ctx| seek_compaction::price(ctx, (0, table)).map(|(_, bytes)| bytes))
    };
    assert_eq!(price([1, 1, 1, 0, 0, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 1, 1, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 0, 0, 0, 0]), Some(1000));

    let mut tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, [1, 0, 1, 0, 0, 0, 0]);
    let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
    let planned = |tree: &Tree, hint| {
        tree.situated(|ctx| seek_compaction::plan(&Situation { seek_hint: Some(hint), ..*ctx })).expect("a plan")
    };
    let moves = planned(&tree, (0, table));
    assert!(moves.trivial_move);
    assert_eq!(seek_compaction::left_of_hint(&moves, table, false), None, "LevelDB drops the hint after a move");
    let hint = seek_compaction::left_of_hint(&moves, table, true).expect("the seeks have paid for a merge");
    tree.begin(moves);
    tree.end_one();
    let merges = planned(&tree, hint);
    assert_eq!((merges.level, merges.lower.len(), merges.trivial_move), (1, 1, false));
    assert_eq!(seek_compaction::left_of_hint(&merges, table, true), None);
}

#[test]
fn a_seek_budget_is_extended_once_and_less_the_seeks_already_charged() {
    const FIRST: usize = 100; // LevelDB's minimum
    let charged = |times: usize| {
        let table = TableRef::new(TableMeta::unbounded(TableId(1), 1));
        let exhausted = (0..times).filter(|_| table.charge_seek()).count();
        (table, exhausted)
    };
    let (table, exhausted) = charged(FIRST);
    assert_eq!(exhausted, 1);
    assert!(table.extend_seek_budget(150));
    assert_eq!((0..49).filter(|_| table.charge_seek()).count(), 0);
    assert!(table.charge_seek(), "the last of 150");
    assert!(!table.extend_seek_budget(1000), "twice");
    assert!(!charged(FIRST).0.extend_seek_budget(FIRST as u64), "no more than the initial budget");
    assert!(!charged(150).0.extend_seek_budget(150), "already charged");
}

#[test]
fn tombstones_in_the_last_level_are_dropped_by_a_rewrite_in_place() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 20,
        tombstone_compaction_percent: 50,
        ..Limits::default()
    };
    let tree = Tree::stacked(limits, [0, 0, 0, 0, 0, 0, 1]);
    assert!(tree.situated(|ctx| Leveled.plan(ctx)).is_none(), "contents unknown");
    let contents = Contents { entries: 1, tombstones: 1, newest: SeqNo(1), ..Contents::default() };
    tree.versions.live().tables().for_each(|(_, table)| table.set_contents(contents.clone()));
    let plan = tree.situated(|ctx| Leveled.plan(ctx)).expect("a plan");
    assert_eq!((plan.level, plan.output_level), (LEVELS - 1, LEVELS - 1));
}

/// Sums over sizes that a manifest declares saturate; in tests an overflow would panic.
#[test]
fn any_sizes_in_a_manifest_are_summed_without_overflow() {
    let limits = Limits { target_file_size: u64::MAX / 2, tombstone_compaction_percent: 50, ..Limits::default() };
    for (min_overlapping_ratio, level_compaction_dynamic_level_bytes) in [(false, false), (true, true)] {
        let limits = Limits { min_overlapping_ratio, level_compaction_dynamic_level_bytes, ..limits };
        let mut versions = VersionSet::new(ORDER, Start { next_file: 100, ..Start::default() });
        let mut edit = Edit::default();
        for id in 2..20_u64 {
            let [smallest, largest] =
                [0, 9].map(|n| key::encode(&user(10 * (id as usize / 6) + n), SeqNo(id), Kind::Put));
            let refs = vec![(ObjectId::Segment(SegmentId(id % 3)), u64::MAX)];
            let meta = TableMeta::bounded(TableId(id), u64::MAX, None, smallest, largest);
            add_to(&mut edit, id as usize % 6, &TableMeta { entries: u64::MAX, refs, ..meta });
        }
        versions.install_flush(edit, SeqNo(99), LogId(0), u64::MAX, DurabilityHandle::mature()).expect("it applies");
        versions
            .install_flush(Edit::default(), SeqNo(99), LogId(0), 9, DurabilityHandle::mature())
            .expect("it applies");
        let live = versions.live().clone();
        let ranges = vec![(user(0), user(99))];
        let contents =
            Contents { entries: u64::MAX, tombstones: u64::MAX, shadowed: u64::MAX, ranges, newest: SeqNo(9) };
        live.tables().for_each(|(_, table)| table.set_contents(contents.clone()));
        assert_eq!(versions.retained_bytes(), u64::MAX);
        limits.debt(&live.held());
        live.charge_range_read(u64::MAX);
        live.charge_range_read(u64::MAX);
        let (mut busy, reserved_numbers) = (RunningCompactions::default(), versions.reserved_numbers().clone());
        for idle in [false, true] {
            busy.idle.set_long_idle(idle);
            let ctx = Situation {
                order: &ORDER,
                version: &live,
                busy: &busy,
                pointers: versions.pointers(),
                limits: &limits,
                reserved_numbers: &reserved_numbers,
                seek_hint: Some((1, TableId(7))),
                oldest_reader: SeqNo(99),
                shadow_ratio: 1.0,
            };
            (0..LEVELS - 1).for_each(|level| drop(Leveled.plan_range(&ctx, level, &KeyRange::default())));
            assert!(Leveled.plan(&ctx).is_some());
            tombstones::plan(&ctx, |_| false);
            (0..LEVELS - 1).for_each(|level| {
                seek_compaction::price(&ctx, (level, TableId(6 + level as u64)));
            });
            level_for_flush(&ctx, &KeyRange::default());
        }
        let segments = &versions.segments;
        assert_eq!(segments.sum().live, u64::MAX);
        value_log_gc::victims(segments, &BTreeSet::new(), 20);
        value_log_gc::oldest(segments, &BTreeSet::new(), 20);
        split::cuts(&ORDER, vec![(user(1), u64::MAX), (user(2), u64::MAX)], 3);
        let edit =
            Edit { deleted: live.tables().map(|(level, table)| (level, table.meta.id)).collect(), ..Edit::default() };
        versions.install_compaction(edit, Vec::new(), 0, |_| false).expect("it applies");
        assert_eq!(versions.retained_bytes(), u64::MAX);
        let count = versions.committable().expect("durable").0;
        versions.mark_committed(count).expect("it applies");
        assert_eq!(versions.retained_bytes(), 0);
    }
}
