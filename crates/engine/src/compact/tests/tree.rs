//! A tree without storage for tests of policies: its tables are lists of entries. After every step
//! the tests read all keys and check the results.
use crate::{
    compact::{
        inputs::rewrite_in_place,
        leveled::{Leveled, score},
        limits::Limits,
        older_runs::OlderRuns,
        plan::{Plan, span},
        policy::Policy,
        reservation::RunningCompactions,
        situation::Situation,
        tombstones,
    },
    version::{
        Contents, KeyRange, LevelTotals, TableRef, add_to,
        set::{Start, VersionSet},
    },
};
use std::collections::{BTreeMap, VecDeque};
use terrace_format::{FamilyId, KeyOrder, Kind, LEVELS, LogId, SeqNo, TableId, edit::Edit, key};
use terrace_sim::Rng;
use terrace_storage::placement::TableMeta;

pub const ORDER: KeyOrder = KeyOrder::Bytewise;
pub const ENTRY_BYTES: u64 = 1000;
pub const KEYS: usize = 150;

pub type Entry = (Vec<u8>, u64, Kind);

pub fn user(n: usize) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

pub type Admits = fn(&Plan) -> bool;
pub type Picker = fn(&Situation<'_>, Admits) -> Option<Plan>;

/// How long the most urgent level has waited for its compaction.
pub struct Waiting {
    pub level: usize,
    /// The compactions that ran when the wait began: one input of each.
    pub jobs: Vec<TableId>,
    /// How many times all compactions in `jobs` have ended and were replaced by the ones running
    /// then.
    pub rounds: usize,
}

/// A store without storage.
pub struct Tree {
    pub rng: Rng,
    pub policy: Box<dyn Policy>,
    pub limits: Limits,
    pub jobs_max: usize,
    pub versions: VersionSet,
    pub busy: RunningCompactions,
    pub running: Vec<Plan>,
    pub tables: BTreeMap<TableId, Vec<Entry>>,
    /// The immutable memtables, oldest first, each with the number of its future table.
    pub sealed: VecDeque<(TableId, Vec<Entry>)>,
    pub newest: BTreeMap<Vec<u8>, (u64, Kind)>,
    pub last: u64,
    pub waits: Option<Waiting>,
    /// The bytes of disk space that a compaction may use.
    pub room: u64,
}

impl Tree {
    pub fn new(seed: u64, limits: Limits, jobs_max: usize) -> Tree {
        Tree {
            rng: Rng::new(seed),
            policy: Box::new(Leveled),
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
            room: u64::MAX,
        }
    }

    /// Makes a tree. `levels` has the number of tables in each level. The tables of a level are
    /// adjacent and have 1000 bytes each.
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
        tree.versions.install_flush(edit, SeqNo(tree.last), LogId(0), 0, Vec::new()).expect("disjoint in each level");
        tree
    }

    /// Runs compactions until no level is due. Returns how many bytes these compactions rewrote.
    pub fn settle(&mut self) -> u64 {
        let mut merged = 0;
        while let Some(plan) = self.situated(|ctx| self.policy.plan(ctx)) {
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
            family: FamilyId::DEFAULT,
            order: &ORDER,
            version: self.versions.live(),
            busy: &self.busy,
            pointers: self.versions.pointers(),
            limits: &self.limits,
            reserved_numbers: self.versions.reserved_numbers(),
            seek_hint: None,
            oldest_reader: SeqNo(self.last),
            room: self.room,
            shadow_ratio: 0.0,
        })
    }

    pub fn seal(&mut self) {
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

    /// Flushes a run that has only the first and the last key. Its range overlaps every table.
    pub fn flush_wide(&mut self) {
        let table = self.versions.new_sealed_number(true);
        self.last += 1;
        self.sealed.push_back((table, [0, KEYS - 1].map(|n| (user(n), self.last, Kind::Put)).to_vec()));
        self.flush();
    }

    pub fn flush(&mut self) {
        let Some((id, entries)) = self.sealed.pop_front() else { return };
        let meta = self.made(id, entries);
        let range = KeyRange { from: Some(key::user_key(&meta.smallest)), to: Some(key::user_key(&meta.largest)) };
        let alone = self.busy.is_empty() && !self.versions.compaction_pending();
        let level = if alone { self.situated(|ctx| self.policy.level_for_flush(ctx, &range)) } else { 0 };
        let mut edit = Edit::default();
        add_to(&mut edit, level, &meta);
        let contents = self.contents(&meta);
        let install = self.versions.install_flush(edit, SeqNo(self.last), LogId(0), 0, Vec::new());
        install.expect("a flush").set_contents(level, vec![contents]);
    }

    pub fn made(&mut self, id: TableId, entries: Vec<Entry>) -> TableMeta {
        let bound = |entry: &Entry| key::encode(&entry.0, SeqNo(entry.1), entry.2);
        let (smallest, largest) = (bound(&entries[0]), bound(&entries[entries.len() - 1]));
        let count = entries.len() as u64;
        assert!(self.tables.insert(id, entries).is_none(), "number {id} was used before");
        TableMeta { entries: count, ..TableMeta::bounded(id, count * ENTRY_BYTES, None, smallest, largest) }
    }

    pub fn contents(&self, meta: &TableMeta) -> (TableId, Contents) {
        let mut contents = Contents::default();
        for (user, seq, kind) in &self.tables[&meta.id] {
            contents.add(&key::Parsed { user, seq: SeqNo(*seq), kind: *kind }, true);
        }
        (meta.id, contents)
    }

    /// Starts all compactions that the policy picks and that conflict with no running compaction.
    pub fn start_all(&mut self) {
        while self.running.len() < self.jobs_max
            && let Some(plan) = self.situated(|ctx| self.policy.plan(ctx))
        {
            self.running.iter().for_each(|other| assert_disjoint(other, &plan));
            self.begin(plan);
        }
    }

    /// Starts a manual compaction of a random range, or a rewrite in place, if it may start.
    pub fn start_manual(&mut self) {
        let (level, from) = (self.rng.below(LEVELS - 1), user(self.rng.below(KEYS)));
        let range = KeyRange { from: Some(&from), to: None };
        let rewrite = self.rng.chance(1, 3);
        let plan = self.situated(|ctx| match rewrite {
            true if level > 0 => rewrite_in_place(ctx, level, &range, None, TableId(u64::MAX)),
            _ => self.policy.plan_range(ctx, level, &range),
        });
        if let Some(plan) = plan.filter(|plan| self.situated(|ctx| ctx.busy.admits(&ORDER, plan))) {
            self.running.iter().for_each(|other| assert_disjoint(other, &plan));
            self.begin(plan);
        }
    }

    /// Starts compactions as [`start_all`](Tree::start_all) does, for the leveled policy. Then
    /// checks that no due level waits for its compaction for ever.
    pub fn schedule(&mut self) {
        while self.running.len() < self.jobs_max
            && let Some(plan) = self.situated(|ctx| self.policy.plan(ctx))
        {
            // If another level becomes the most urgent, its wait starts at zero. The most urgent
            // level can change because target sizes depend on the level sizes.
            let first = self.situated(due).first().copied();
            self.waits.take_if(|waits| Some(waits.level) != first);
            self.running.iter().for_each(|other| assert_disjoint(other, &plan));
            self.waits.take_if(|waits| waits.level == plan.level);
            self.begin(plan);
        }
        self.check_starvation();
        self.check_tombstone_plan();
    }

    /// Checks that the tombstone compaction that is planned from the summaries of chunks is the
    /// same as the one that a scan of all tables finds.
    pub fn check_tombstone_plan(&self) {
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
    pub fn end_one(&mut self) {
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

    pub fn merged(&mut self, plan: &Plan) -> Vec<TableMeta> {
        if plan.trivial_move {
            let moved = |table: &std::sync::Arc<TableRef>| TableMeta { run: plan.output_run, ..table.meta.clone() };
            return plan.upper.iter().map(moved).collect();
        }
        let mut entries: Vec<Entry> =
            plan.inputs().flat_map(|(_, table)| self.tables[&table.meta.id].iter().cloned()).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries.dedup_by(|older, newer| older.0 == newer.0);
        let older = OlderRuns::of(&ORDER, plan);
        entries.retain(|(user, _, kind)| *kind == Kind::Put || older.may_hold(user));
        let size = (self.limits.target_file_size / ENTRY_BYTES) as usize;
        let size = if plan.number.is_some() { entries.len().max(1) } else { size };
        let chunks: Vec<Vec<Entry>> = entries.chunks(size).map(<[Entry]>::to_vec).collect();
        let mut metas = Vec::new();
        for chunk in chunks {
            let id = plan.number.unwrap_or_else(|| TableId(self.versions.new_number()));
            metas.push(TableMeta { run: plan.output_run, ..self.made(id, chunk) });
        }
        metas
    }

    /// Checks that the most urgent level does not wait too long for its compaction. The level waits
    /// for the compactions that ran when it became the most urgent. They may have some of its
    /// tables as inputs, and compactions that started together with them may block its other
    /// tables. After all these compactions have ended, the compaction of the level must start.
    pub fn check_starvation(&mut self) {
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

    /// Flushes all memtables and ends all compactions. After each flush and each end of a
    /// compaction, `start` starts the compactions that are due.
    pub fn run_to_the_end(&mut self, start: fn(&mut Tree)) {
        let mut steps = 0;
        while !self.running.is_empty() || !self.sealed.is_empty() {
            self.flush();
            self.end_one();
            start(self);
            steps += 1;
            assert!(steps < 10_000, "compaction does not end");
        }
        self.check_reads();
    }

    pub fn commit_edits(&mut self) {
        let count = self.versions.committable().expect("durable handles").0;
        let count = self.rng.below(count + 1);
        self.versions.mark_committed(count).expect("a commit");
    }

    /// Checks that every read finds the newest write of every key.
    pub fn check_reads(&self) {
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

/// Returns the levels that are due, most urgent first. This is an independent implementation of
/// the policy's definition.
pub fn due(ctx: &Situation<'_>) -> Vec<usize> {
    let sizes = ctx.limits.level_targets(&ctx.version.held());
    let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
        .map(|n| {
            let (level, leaving) = (&ctx.version.levels[n], ctx.busy.leaving(ctx.family, n));
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

/// Returns whether level 0 should wait although its number of runs makes it due.
pub fn level_0_may_wait(ctx: &Situation<'_>) -> bool {
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

/// Checks that two concurrent compactions share no table. If both may place tables in the same
/// level below level 0, they must share no key either.
pub fn assert_disjoint(a: &Plan, b: &Plan) {
    let tables = |plan: &Plan| plan.inputs().map(|(_, table)| table.meta.id).collect::<Vec<_>>();
    assert!(!tables(a).iter().any(|table| tables(b).contains(table)), "a table in two compactions: {a:?} {b:?}");
    if a.own_run || b.own_run {
        return; // the outputs of one of them are a separate sorted run
    }
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
