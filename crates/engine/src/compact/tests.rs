//! The policy on random trees whose compactions end in any order. Tables are lists of entries here, so that every step can
//! be judged by what a reader would find.
use super::{
    leveled::{Leveled, is_bottom, level_for_flush, renewal, score},
    plan::{Amount, Limits, Plan, Policy, Situation, span},
    seeks,
};
use crate::{
    compact::claim::{Busy, Claim},
    version::{
        Contents, KeyRange, TableRef, add_to,
        set::{Start, VersionSet},
    },
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use terrace_format::{KeyOrder, Kind, LEVELS, LogId, SeqNo, TableId, edit::Edit, key};
use terrace_sim::Rng;
use terrace_storage::{DurabilityHandle, placement::TableMeta};

const ORDER: KeyOrder = KeyOrder::Bytewise;
const ENTRY_BYTES: u64 = 1000;
const KEYS: usize = 150;

type Entry = (Vec<u8>, u64, Kind);

fn user(n: usize) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

/// The most urgent level has got nothing so far.
struct Waits {
    level: usize,
    /// What was running when it began to wait, by a table of each.
    behind: Vec<TableId>,
    /// How often all of that had ended.
    rounds: usize,
}

/// A store without storage.
pub struct Tree {
    rng: Rng,
    limits: Limits,
    jobs_max: usize,
    versions: VersionSet,
    busy: Busy,
    running: Vec<Plan>,
    tables: BTreeMap<TableId, Vec<Entry>>,
    /// Oldest first.
    sealed: VecDeque<(TableId, Vec<Entry>)>,
    newest: BTreeMap<Vec<u8>, (u64, Kind)>,
    last: u64,
    waits: Option<Waits>,
}

impl Tree {
    fn new(seed: u64, limits: Limits, jobs_max: usize) -> Tree {
        Tree {
            rng: Rng::new(seed),
            limits,
            jobs_max,
            versions: VersionSet::new(ORDER, Start { next_file: 2, ..Start::default() }),
            busy: Busy::default(),
            running: Vec::new(),
            tables: BTreeMap::new(),
            sealed: VecDeque::new(),
            newest: BTreeMap::new(),
            last: 0,
            waits: None,
        }
    }

    /// Levels that hold so many tables of 1000 bytes each, which lie beside each other.
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
            .expect("apart in each level");
        tree
    }

    /// Compacts until nothing is due. The bytes that were merged.
    pub fn settle(&mut self) -> u64 {
        let mut merged = 0;
        while let Some(plan) = self.situated(|situation| Leveled.plan(situation)) {
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
            spares: self.versions.spares(),
            seek_hint: None,
            oldest_reader: SeqNo(self.last),
            hiding_share: 0.0,
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

    /// A run of level 0 with the first and the last key.
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
        let level = if alone { self.situated(|situation| level_for_flush(situation, &range)) } else { 0 };
        let mut edit = Edit::default();
        add_to(&mut edit, level, &meta);
        let contents = self.contents(&meta);
        let install = self.versions.install_flush(edit, SeqNo(self.last), LogId(0), 0, DurabilityHandle::mature());
        install.expect("a flush").learn(level, vec![contents]);
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

    /// Begins what may begin.
    fn schedule(&mut self) {
        while self.running.len() < self.jobs_max
            && let Some(plan) = self.situated(|situation| Leveled.plan(situation))
        {
            // What has become more urgent, as where sizes follow what levels hold, is no wait: it is soon done with.
            let first = self.situated(due).first().copied();
            self.waits.take_if(|waits| Some(waits.level) != first);
            self.running.iter().for_each(|other| apart(other, &plan));
            self.waits.take_if(|waits| waits.level == plan.level);
            self.begin(plan);
        }
        self.look_who_waits();
    }

    /// One of the running compactions ends.
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
        install.expect("a compaction").learn(plan.output_level, contents);
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

    /// The most urgent level waits for what was running when it became so: that may use up its tables, and others, begun
    /// beside it, may be in the way of what it leaves there. Then it is its turn.
    fn look_who_waits(&mut self) {
        let running: Vec<TableId> = self.running.iter().map(|plan| plan.upper[0].meta.id).collect();
        let first = self.situated(due).first().copied();
        self.waits = match (self.waits.take(), first) {
            (Some(mut waits), Some(level)) if waits.level == level => {
                if running.len() < self.jobs_max && !waits.behind.iter().any(|job| running.contains(job)) {
                    (waits.behind, waits.rounds) = (running, waits.rounds + 1);
                }
                assert!(waits.rounds <= 2, "level {level} starves");
                Some(waits)
            }
            (_, first) => first.map(|level| Waits { level, behind: running, rounds: 0 }),
        };
    }

    fn release(&mut self) {
        let count = self.versions.releasable().expect("mature tickets").0;
        let count = self.rng.below(count + 1);
        self.versions.released(count).expect("a release");
    }

    /// Every reader finds the newest write of every key.
    fn judge(&self) {
        let live = self.versions.live();
        for (user, (seq, kind)) in &self.newest {
            let in_memory = self.sealed.iter().rev().map(|(_, entries)| entries);
            let in_tables = live.tables().map(|(_, table)| &self.tables[&table.meta.id]);
            let found = in_memory.chain(in_tables).find_map(|entries| entries.iter().find(|entry| entry.0 == *user));
            match found {
                Some(entry) => assert_eq!((entry.1, entry.2), (*seq, *kind), "an older write of {user:?} surfaced"),
                None => assert_eq!(*kind, Kind::Delete, "{user:?} is gone"),
            }
        }
    }
}

/// Levels that are due, the most urgent first, as the policy is meant to see them.
fn due(situation: &Situation<'_>) -> Vec<usize> {
    let sizes = situation.limits.level_sizes(&situation.version.held());
    let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
        .map(|n| {
            let (level, leaving) = (&situation.version.levels[n], situation.busy.leaving(n));
            let tables = if n == 0 { level.runs.len() - leaving.tables } else { 1 };
            let there = Amount::of(level.tables());
            let entries = there.entries - leaving.entries;
            let uncounted = there.uncounted - leaving.uncounted;
            let there = Amount { tables, bytes: level.bytes() - leaving.bytes, entries, uncounted };
            (score(situation.limits, &sizes, n, &there, situation.busy.lull.is_resting()), n)
        })
        .filter(|(score, level)| *score >= 1.0 && !(*level == 0 && brings_little(situation)))
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    due.into_iter().map(|(_, level)| level).collect()
}

/// Whether level 0 is meant to wait, its compaction counted by runs.
fn brings_little(situation: &Situation<'_>) -> bool {
    let Situation { version, busy, limits, .. } = situation;
    let may_wait =
        limits.level0_min_overlap_percent > 0 && limits.max_entries_for_level_base == 0 && !busy.lull.is_resting();
    if !may_wait || version.levels[0].runs.len() as u64 >= limits.l0_pressing_runs {
        return false;
    }
    let keys = |table: &TableRef| table.smallest().to_vec()..=table.largest().to_vec();
    let (mut brings, mut met) = (0, BTreeMap::new());
    for run in version.levels[0].tables().filter(|run| !busy.has(run.meta.id)) {
        brings += run.meta.bytes;
        let meets = |table: &&std::sync::Arc<TableRef>| {
            keys(run).contains(&table.smallest().to_vec()) || keys(table).contains(&run.smallest().to_vec())
        };
        met.extend(version.levels[1].tables().filter(meets).map(|table| (table.meta.id, table.meta.bytes)));
    }
    (brings as f64) < met.values().sum::<u64>() as f64 * limits.level0_min_overlap_percent as f64 / 100.0
}

/// Two compactions that run at once: no table in both, and where both may put tables below level 0, no key in both.
fn apart(a: &Plan, b: &Plan) {
    let tables = |plan: &Plan| plan.inputs().map(|(_, table)| table.meta.id).collect::<Vec<_>>();
    assert!(!tables(a).iter().any(|table| tables(b).contains(table)), "a table in two compactions: {a:?} {b:?}");
    let covers = |plan: &Plan, level: usize| (plan.level.max(1)..=plan.output_level).contains(&level);
    if (1..LEVELS).any(|level| covers(a, level) && covers(b, level)) {
        let keys = |plan: &Plan| {
            let inputs: Vec<std::sync::Arc<TableRef>> = plan.inputs().map(|(_, table)| table.clone()).collect();
            span(&ORDER, inputs.iter()).map(|(from, to)| (from.to_vec(), to.to_vec())).expect("inputs")
        };
        let ((a_from, a_to), (b_from, b_to)) = (keys(a), keys(b));
        assert!(a_to < b_from || b_to < a_from, "two compactions meet: {a:?} {b:?}");
    }
}

/// Level 0 covers all keys and waits for a compaction of level 1; level 1, less urgent, could go on beside that one
/// for ever. It has to let level 0 pass.
#[test]
fn what_is_less_urgent_does_not_begin_in_the_way() {
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
    assert_eq!(tree.running.len(), 1, "level 0 is the more urgent, and would have to wait once more");
    tree.end_one();
    let wish = tree.situated(|situation| Leveled.plan_range(situation, 1, &KeyRange::default())).expect("tables");
    tree.busy.want(Some(Claim::of(&ORDER, &wish)));
    tree.schedule();
    assert!(tree.running.is_empty(), "a user's wish comes before both");
    tree.busy.want(None);
    tree.schedule();
    assert_eq!(tree.running.iter().map(|plan| plan.level).collect::<Vec<_>>(), [0], "now it is its turn");
}

/// What is written over meanwhile need not be merged into level 1 again and again.
#[test]
fn the_bytes_of_level_0_can_wait_until_nobody_writes() {
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
    tree.busy.lull.rest(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 1, "a run of half the base is left");
    let mut tree = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 3, "runs cannot wait");
}

/// Runs of 2000 bytes meet all of level 1, tables of 1000: less than half of that is not worth writing it anew.
#[test]
fn level_0_waits_until_it_brings_enough_or_presses_or_nobody_writes() {
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
    let left = [(2, 9), (2, 8), (4, 17), (5, 21)].map(|(runs, below)| {
        let mut tree = filled(runs, below);
        tree.settle();
        tree.tables_held()[0]
    });
    assert_eq!(left, [2, 0, 4, 0]);

    let mut tree = filled(2, 9);
    tree.busy.lull.rest(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 0, "nobody writes");

    let mut apart = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    apart.settle();
    assert_eq!(apart.tables_held()[0], 1, "what meets little need not wait");

    let mut tree = filled(3, 12);
    tree.schedule();
    assert_eq!(tree.running.len(), 1, "worth it");
    (0..2).for_each(|_| tree.flush_wide());
    let plan = tree.situated(|situation| Leveled.plan(situation)).expect("those on their way down are still searched");
    assert_eq!((plan.output_level, plan.upper.len()), (0, 2), "merged among themselves meanwhile");
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
        least_overlap in any::<bool>(),
        level_compaction_dynamic_level_bytes in any::<bool>(),
        max_entries_for_level_base in prop::sample::select(vec![0u64, 20]),
        tombstone_compaction_percent in prop::sample::select(vec![0u64, 10, 50]),
    ) {
        let limits =
            Limits { target_file_size: 10_000, max_bytes_for_level_base: 20_000, level_compaction_dynamic_level_bytes, level0_file_num_compaction_trigger, l0_pressing_runs, level0_min_overlap_percent, intra_l0_compaction_trigger, least_overlap, max_entries_for_level_base, tombstone_compaction_percent };
        let mut tree = Tree::new(seed, limits, jobs_max);
        for _ in 0..400 {
            match tree.rng.below(10) {
                0..3 => tree.seal(),
                3..6 => tree.flush(),
                6..9 => tree.end_one(),
                _ => tree.release(),
            }
            if tree.rng.chance(1, 20) {
                let rests = tree.rng.chance(1, 2);
                if rests { tree.busy.lull.rest(tree.last) } else { tree.busy.lull.look(u64::MAX) }
                tree.busy.lull.rest_long(rests);
            }
            tree.schedule();
            tree.judge();
        }
        let mut steps = 0;
        while !tree.running.is_empty() || !tree.sealed.is_empty() {
            tree.flush();
            tree.end_one();
            tree.schedule();
            steps += 1;
            prop_assert!(steps < 10_000, "compaction does not end");
        }
        tree.judge();
        prop_assert_eq!(tree.situated(due), Vec::<usize>::new(), "a due level got no work");
    }
}

/// Tables that were entered without their number of entries weigh by bytes, beside those that are counted.
#[test]
fn tables_without_a_number_of_entries_count_by_their_bytes() {
    let table = |id, bytes, entries| {
        let [smallest, largest] = [1, 2].map(|n| key::encode(&user(10 * id as usize + n), SeqNo(1), Kind::Put));
        TableMeta { entries, ..TableMeta::bounded(TableId(id), bytes, None, smallest, largest) }
    };
    let mut edit = Edit::default();
    [table(2, 500, 0), table(3, 7000, 30), table(4, 700, 0)].iter().for_each(|meta| add_to(&mut edit, 1, meta));
    let mut versions = VersionSet::new(ORDER, Start { next_file: 5, ..Start::default() });
    let version = versions.install_flush(edit, SeqNo(1), LogId(1), 0, DurabilityHandle::mature()).unwrap();
    let there = Amount::of(version.levels[1].tables());
    assert_eq!(there, Amount { tables: 3, bytes: 8200, entries: 30, uncounted: 1200 });
    let limits = Limits { max_bytes_for_level_base: 1000, max_entries_for_level_base: 100, ..Limits::default() };
    let sizes = limits.level_sizes(&[0; LEVELS]);
    assert!((score(&limits, &sizes, 1, &there, false) - (0.03 + 1.2)).abs() < 1e-9);
    let none = there.minus(&there);
    assert_eq!(none, Amount::default());
    assert!(
        (score(&Limits { max_entries_for_level_base: 0, ..limits }, &sizes, 1, &there, false) - 8.2).abs() < 1e-9,
        "levels hold bytes"
    );
}

/// What is written anew has no older version of one of its keys beside it, which a delete that goes would bring back.
#[test]
fn what_is_written_anew_takes_the_rest_of_its_last_key_along() {
    let mut tree = Tree::new(0, Limits::default(), 1);
    let mut edit = Edit::default();
    let mut ids = Vec::new();
    for (first, last) in [((1, 9), (2, 9)), ((2, 5), (2, 3)), ((2, 1), (3, 1)), ((4, 1), (5, 1))] {
        let entry = |(n, seq): (usize, u64)| (user(n), seq, Kind::Put);
        ids.push(TableId(tree.versions.new_number()));
        add_to(&mut edit, 2, &tree.made(ids[ids.len() - 1], vec![entry(first), entry(last)]));
    }
    tree.versions.install_flush(edit, SeqNo(9), LogId(0), 0, DurabilityHandle::mature()).expect("tables");
    let taken = |behind: Option<usize>, older: u64| -> Vec<TableId> {
        let (behind, all) = (behind.map(user), KeyRange::default());
        let plan = tree.situated(|situation| renewal(situation, 2, &all, behind.as_deref(), TableId(older)));
        plan.map_or_else(Vec::new, |plan| plan.inputs().map(|(_, table)| table.meta.id).collect())
    };
    assert_eq!(taken(None, u64::MAX), ids[..3]);
    assert_eq!(taken(Some(3), u64::MAX), ids[3..]);
    assert_eq!(taken(Some(3), ids[3].0), [], "it was made later");
    assert_eq!(taken(Some(5), u64::MAX), []);
}

/// Of one table in level 0: what it meets first below, however deep, and nothing else.
#[test]
fn a_table_that_reads_ask_in_vain_pays_for_the_merge_behind_its_moves() {
    let price = |levels| {
        let tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, levels);
        let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
        tree.situated(|situation| seeks::price(situation, (0, table)).map(|(_, bytes)| bytes))
    };
    assert_eq!(price([1, 1, 1, 0, 0, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 1, 1, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 0, 0, 0, 0]), Some(1000));

    let mut tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, [1, 0, 1, 0, 0, 0, 0]);
    let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
    let planned = |tree: &Tree, hint| {
        tree.situated(|situation| seeks::plan(&Situation { seek_hint: Some(hint), ..*situation })).expect("a plan")
    };
    let moves = planned(&tree, (0, table));
    assert!(moves.trivial_move);
    assert_eq!(seeks::left_of_hint(&moves, table, false), None, "LevelDB's rule is done with a table that has moved");
    let hint = seeks::left_of_hint(&moves, table, true).expect("it has paid for more than a move");
    tree.begin(moves);
    tree.end_one();
    let merges = planned(&tree, hint);
    assert_eq!((merges.level, merges.lower.len(), merges.trivial_move), (1, 1, false));
    assert_eq!(seeks::left_of_hint(&merges, table, true), None);
}

#[test]
fn a_table_is_allowed_more_seeks_once_and_none_that_it_has_cost_already() {
    const FIRST: usize = 100; // LevelDB's least
    let charged = |times: usize| {
        let table = TableRef::new(TableMeta::unbounded(TableId(1), 1));
        let worn = (0..times).filter(|_| table.charge_seek()).count();
        (table, worn)
    };
    let (table, worn) = charged(FIRST);
    assert_eq!(worn, 1);
    assert!(table.indulge(150));
    assert_eq!((0..49).filter(|_| table.charge_seek()).count(), 0);
    assert!(table.charge_seek(), "the last of 150");
    assert!(!table.indulge(1000), "twice");
    assert!(!charged(FIRST).0.indulge(FIRST as u64), "no more than it had");
    assert!(!charged(150).0.indulge(150), "readers were faster");
}

#[test]
fn tombstones_in_the_last_level_are_dropped_where_they_are() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 20,
        tombstone_compaction_percent: 50,
        ..Limits::default()
    };
    let tree = Tree::stacked(limits, [0, 0, 0, 0, 0, 0, 1]);
    assert!(tree.situated(|situation| Leveled.plan(situation)).is_none(), "nothing is known of it");
    let contents = Contents { entries: 1, tombstones: 1, newest: SeqNo(1), ..Contents::default() };
    tree.versions.live().tables().for_each(|(_, table)| table.learn(contents.clone()));
    let plan = tree.situated(|situation| Leveled.plan(situation)).expect("a plan");
    assert_eq!((plan.level, plan.output_level), (LEVELS - 1, LEVELS - 1));
}
