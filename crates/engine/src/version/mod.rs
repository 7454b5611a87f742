//! A version: the SSTables of each level at one moment. A version never changes; readers pin the
//! one they use.
//!
//! ```text
//! Version ── levels[0] ── run ── table          level 0: one run per table, newest first
//!         │             └ run ── table
//!         ├─ levels[1] ── run ── table table …  deeper levels: one run, in key order
//!         └─ …
//! ```
//! A level is a list of *sorted runs*; a run is a list of tables that do not overlap, in key
//! order. Level 0 has a run per table, newest first by table number (docs/durability.md); each
//! deeper level of a leveled tree has one run.
pub mod check;
mod chunks;
pub mod contents;
mod index;
mod objects;
pub mod obsolete_files;
pub mod pending;
pub mod run;
pub mod segments;
pub mod set;
mod totals;

pub use contents::Contents;
use index::{Placed, TableIndex};
pub use objects::{files, objects, objects_of, objects_written_with};
use parking_lot::Mutex;
pub use run::{Run, TableSlice, Tables};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};
use terrace_format::{
    KeyOrder, LEVELS, TableId,
    edit::{AddedTable, Edit, Referred},
    key,
};
use terrace_storage::placement::{ObjectId, Storage, Table, TableMeta};
pub use totals::LevelTotals;

/// A table of a version, with facts that are learned while it is in use.
pub struct TableRef {
    /// Metadata, with `refs` sorted.
    pub meta: TableMeta,
    /// Fruitless seeks that the table may still cost before a seek compaction is due.
    seek_budget: AtomicI64,
    /// Whether the seek budget was extended.
    budget_extended: AtomicBool,
    /// The open table: opened by the first read, then held while any version has it.
    table: OnceLock<Arc<dyn Table>>,
    /// Whether the table has range tombstones; set once it was opened for that. The manifest does
    /// not say.
    deletes: OnceLock<bool>,
    /// Entry counts, once known.
    contents: OnceLock<Contents>,
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRef").field("meta", &self.meta).field("seeks_left", &self.seek_budget).finish()
    }
}

/// One seek costs about as much as compacting 16 KiB (LevelDB's estimate). The seek budget of a
/// table is at least 100.
const BYTES_PER_SEEK: u64 = 16 << 10;
const SEEK_BUDGET_MIN: i64 = 100;

/// Returns the seek budget for a table of this size.
fn initial_seek_budget(meta: &TableMeta) -> i64 {
    i64::try_from(meta.bytes / BYTES_PER_SEEK).unwrap_or(i64::MAX).max(SEEK_BUDGET_MIN)
}

impl TableRef {
    /// Makes a reference with a full seek budget.
    pub fn new(mut meta: TableMeta) -> TableRef {
        meta.refs.sort_unstable(); // for `refers_to`; they arrive almost sorted
        let seek_budget = AtomicI64::new(initial_seek_budget(&meta));
        let budget_extended = AtomicBool::new(false);
        TableRef {
            meta,
            seek_budget,
            budget_extended,
            table: OnceLock::new(),
            deletes: OnceLock::new(),
            contents: OnceLock::new(),
        }
    }

    /// Returns the open table. Opens it if necessary (I/O).
    pub fn open(&self, storage: &dyn Storage) -> terrace_storage::Result<&Arc<dyn Table>> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => storage.open_table(&self.meta).map(|table| self.table.get_or_init(|| table)),
        }
    }

    /// Finds out whether the table has range tombstones. I/O, unless known.
    pub fn load_range_deletes(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
        if self.deletes.get().is_none() {
            let deletes = self.open(storage)?.range_tombstones()?.is_some();
            self.deletes.get_or_init(|| deletes);
        }
        Ok(())
    }

    /// Whether the table is known to have range tombstones.
    pub fn deletes_ranges(&self) -> bool {
        self.deletes.get() == Some(&true)
    }

    /// Returns the entry counts, if known.
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.get()
    }

    /// Sets the entry counts. The first call wins.
    pub fn set_contents(&self, contents: Contents) {
        let _ = self.contents.set(contents); // counts of a table do not change
    }

    /// Whether the table refers to `object`.
    pub fn refers_to(&self, object: ObjectId) -> bool {
        self.meta.refs.binary_search_by_key(&object, |(referred, _)| *referred).is_ok()
    }

    /// Returns the first user key.
    pub fn smallest(&self) -> &[u8] {
        key::user_key(&self.meta.smallest)
    }

    /// Returns the last user key.
    pub fn largest(&self) -> &[u8] {
        key::user_key(&self.meta.largest)
    }

    /// Returns the range from the first to the last user key.
    pub fn span(&self) -> KeyRange<'_> {
        KeyRange { from: Some(self.smallest()), to: Some(self.largest()) }
    }

    /// Charges one fruitless seek. Returns true exactly when this exhausts the seek budget.
    pub fn charge_seek(&self) -> bool {
        self.seek_budget.fetch_sub(1, Relaxed) == 1
    }

    /// Extends an exhausted seek budget to `seeks` in total, at most once per table. Returns
    /// whether any budget is left.
    pub fn extend_seek_budget(&self, seeks: u64) -> bool {
        let more = i64::try_from(seeks).unwrap_or(i64::MAX) - initial_seek_budget(&self.meta);
        // Readers may have charged further seeks meanwhile.
        more > 0 && !self.budget_extended.swap(true, Relaxed) && self.seek_budget.fetch_add(more, Relaxed) + more > 0
    }

    /// Whether the table may hold keys of `range`.
    pub fn overlaps(&self, order: &KeyOrder, range: &KeyRange<'_>) -> bool {
        range.from.is_none_or(|from| order.user(self.largest(), from).is_ge())
            && range.to.is_none_or(|to| order.user(self.smallest(), to).is_le())
    }
}

/// User keys from `from` to `to`, both included; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyRange<'a> {
    /// First key.
    pub from: Option<&'a [u8]>,
    /// Last key.
    pub to: Option<&'a [u8]>,
}

/// Returns the table number reserved for an intra-L0 compaction with `table` as newest input.
pub fn reserved_above(table: TableId) -> TableId {
    TableId(table.0 + 1)
}

/// The sorted runs of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Newest first.
    pub runs: Vec<Run>,
    totals: LevelTotals,
}

impl Level {
    /// Makes a level of tables in any order: a run per table for level 0, else one run.
    fn new(order: &KeyOrder, number: usize, mut tables: Vec<Arc<TableRef>>) -> Level {
        let runs = if number == 0 {
            tables.sort_by_key(|table| std::cmp::Reverse(table.meta.id));
            tables.into_iter().map(|table| Arc::new(Tables::new(order, vec![table]))).collect()
        } else if tables.is_empty() {
            Vec::new()
        } else {
            tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
            vec![Arc::new(Tables::new(order, tables))]
        };
        Level::of(runs)
    }

    fn of(runs: Vec<Run>) -> Level {
        let totals = runs.iter().fold(LevelTotals::default(), |sum, run| sum.plus(run.totals()));
        Level { runs, totals }
    }

    /// Returns the tables of the level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableRef>> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Returns the sums over the tables.
    pub fn totals(&self) -> &LevelTotals {
        &self.totals
    }

    /// Returns the bytes of the tables.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Returns level `number` without `removed` and with `added`.
    fn replaced(
        &self,
        order: &KeyOrder,
        number: usize,
        removed: Vec<Arc<TableRef>>,
        added: Vec<Arc<TableRef>>,
    ) -> Level {
        if removed.is_empty() && added.is_empty() {
            return self.clone(); // the runs stay shared
        }
        if number == 0 {
            let removed: BTreeSet<TableId> = removed.iter().map(|table| table.meta.id).collect();
            let stays = |run: &&Run| run.iter().all(|table| !removed.contains(&table.meta.id));
            let mut runs: Vec<Run> = self.runs.iter().filter(stays).cloned().collect();
            for table in added {
                let newer = |run: &Run| run.first().is_some_and(|first| first.meta.id > table.meta.id);
                runs.insert(runs.partition_point(newer), Arc::new(Tables::new(order, vec![table])));
            }
            return Level::of(runs);
        }
        match self.runs.first() {
            Some(run) => {
                let run = run.replaced(order, removed, added);
                Level::of(if run.is_empty() { Vec::new() } else { vec![Arc::new(run)] })
            }
            None => Level::new(order, number, added),
        }
    }

    /// Returns the tables that may hold keys of `range`, in the order of the level.
    pub fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
        self.overlap_slices(order, range).flatten().cloned().collect()
    }

    /// Returns for each run the tables that may hold keys of `range`.
    pub fn overlap_slices<'a>(
        &'a self,
        order: &'a KeyOrder,
        range: &'a KeyRange<'_>,
    ) -> impl Iterator<Item = TableSlice<'a>> {
        self.runs.iter().map(move |run| TableSlice::new(run, run.overlapping(order, range)))
    }

    /// Returns the bytes of the tables that may hold keys of any of `ranges`; each counts once.
    pub fn overlapping_bytes(&self, order: &KeyOrder, ranges: &[KeyRange<'_>]) -> u128 {
        let of_run = |run: &Run| {
            let mut slices: Vec<_> = ranges.iter().map(|range| run.overlapping(order, range)).collect();
            slices.sort_unstable_by_key(|slice| slice.start);
            let (mut counted, mut bytes) = (0, 0);
            for slice in slices.into_iter().filter(|slice| slice.end > 0) {
                let rest = slice.start.max(counted)..slice.end.max(counted);
                counted = rest.end;
                bytes += run.range(rest).map(|table| u128::from(table.meta.bytes)).sum::<u128>();
            }
            bytes
        };
        self.runs.iter().map(of_run).sum()
    }
}

/// The tables of each level.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Level 0 first.
    pub levels: [Level; LEVELS],
    /// All runs; see [`runs`](Version::runs).
    runs: Vec<(usize, Run)>,
    index: Arc<TableIndex>,
    /// Charges of range reads for level 0.
    range_read_charge: RangeReadCharge,
    no_tombstone_plan: PlanMemo,
}

/// Inputs of the policy for which no tombstone compaction pays off in this version, if known. A
/// clone starts without.
#[derive(Debug, Default)]
struct PlanMemo(Mutex<Option<[u64; 4]>>);

impl Clone for PlanMemo {
    fn clone(&self) -> PlanMemo {
        PlanMemo::default()
    }
}

/// Bytes of compaction that range reads of one version have been worth. The next version starts
/// at 0, so that a level 0 that grows is compacted for its own size and not for old charges.
#[derive(Debug, Default)]
struct RangeReadCharge(AtomicU64);

impl Clone for RangeReadCharge {
    fn clone(&self) -> RangeReadCharge {
        RangeReadCharge::default()
    }
}

impl Version {
    /// Returns every run with its level, in read order: an earlier run has the newer entries of a
    /// key.
    pub fn runs(&self) -> &[(usize, Run)] {
        &self.runs
    }

    /// Returns those of `tables` (level and number) that the version has.
    pub fn named(&self, tables: &[(usize, TableId)]) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let wanted: BTreeSet<_> = tables.iter().copied().collect();
        wanted.into_iter().filter_map(|(level, id)| self.index.get(id).filter(|(found, _)| *found == level))
    }

    /// Whether the version has table `id`.
    pub fn has_table(&self, id: TableId) -> bool {
        self.index.get(id).is_some()
    }

    /// Whether it is known that no tombstone compaction pays off with `inputs`.
    pub fn has_no_tombstone_plan(&self, inputs: [u64; 4]) -> bool {
        *self.no_tombstone_plan.0.lock() == Some(inputs)
    }

    /// Notes that no tombstone compaction pays off with `inputs`. The contents of all tables must
    /// be known, as they would change the answer.
    pub fn set_no_tombstone_plan(&self, inputs: [u64; 4]) {
        *self.no_tombstone_plan.0.lock() = Some(inputs);
    }

    /// Sets the entry counts of tables in `level`.
    pub fn set_contents(&self, level: usize, contents: Vec<(TableId, Contents)>) {
        for (id, contents) in contents {
            if let Some((_, table)) = self.index.get(id).filter(|(found, _)| *found == level) {
                table.set_contents(contents);
            }
        }
    }

    /// Returns the bytes of each level.
    pub fn held(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.levels[level].bytes())
    }

    /// Returns the levels above the deepest non-empty one.
    pub fn above_deepest(&self) -> &[Level] {
        &self.levels[..self.levels.iter().rposition(|level| level.bytes() > 0).unwrap_or(0)]
    }

    /// Returns every table with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| l.tables().map(move |table| (level, table)))
    }

    /// Charges a range read, which probed every run of level 0, with `bytes_per_run` bytes of
    /// compaction per run. Returns the oldest table of level 0 once, when the charges have paid for
    /// a compaction of level 0 into level 1.
    pub fn charge_range_read(&self, bytes_per_run: u64) -> Option<TableId> {
        const GRAIN: u64 = 1 << 20; // the price is computed once per this many bytes, not per read
        let oldest = self.levels[0].runs.last().filter(|_| bytes_per_run > 0)?;
        let charge = bytes_per_run.saturating_mul(self.levels[0].runs.len() as u64);
        let before = self.range_read_charge.0.fetch_add(charge, Relaxed);
        let (before, after) = (before / GRAIN, before.saturating_add(charge) / GRAIN);
        if before == after {
            return None;
        }
        let compaction_bytes = self.levels[0].bytes().saturating_add(self.levels[1].bytes()).div_ceil(GRAIN);
        (before < compaction_bytes && compaction_bytes <= after)
            .then(|| oldest.first().map(|table| table.meta.id))
            .flatten()
    }

    /// Returns the version that results from `edit`, or a description of why the edit does not
    /// apply. Shares with this version all chunks of tables that the edit does not touch, and does
    /// not check them again.
    pub fn apply(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let mut removed: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let mut removed_ids = BTreeMap::new();
        for (level, id) in &edit.deleted {
            let found = self.index.get(*id).filter(|(found, _)| found == level);
            let Some((_, table)) = found.filter(|(_, table)| removed_ids.insert(*id, Arc::clone(table)).is_none())
            else {
                return Err(format!("the edit deletes table {id}, which is not in level {level}"));
            };
            removed[*level].push(table.clone());
        }
        let mut added: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let entries: BTreeMap<TableId, u64> = edit.entries.iter().copied().collect();
        for (level, table) in &edit.added {
            let meta = || meta_of(table, entries.get(&table.id).copied().unwrap_or(0));
            // A moved table keeps its seek budget.
            let moved = removed_ids.get(&table.id).cloned();
            added[*level].push(moved.unwrap_or_else(|| Arc::new(TableRef::new(meta()))));
        }
        let placed = |tables: &[Vec<Arc<TableRef>>; LEVELS]| -> Vec<Placed> {
            let of_level = |(level, tables): (usize, &Vec<Arc<TableRef>>)| {
                tables.iter().map(move |table| (level, table.clone())).collect::<Vec<_>>()
            };
            tables.iter().enumerate().flat_map(of_level).collect()
        };
        let index = self.index.replaced(placed(&removed), placed(&added));
        let index = Arc::new(index.map_err(|id| format!("the edit adds table {id} twice"))?);
        let added_placed = placed(&added);
        let mut next = Version { index, ..self.clone() };
        for (level, (removed, added)) in removed.into_iter().zip(added).enumerate() {
            next.levels[level] = self.levels[level].replaced(order, level, removed, added);
        }
        check::added(order, &next, &added_placed)?;
        Ok(next.with_run_list())
    }

    /// Makes a version of tables per level, in any order.
    pub fn from_tables(order: &KeyOrder, tables: [Vec<Arc<TableRef>>; LEVELS]) -> Result<Version, String> {
        let (mut version, mut placed) = (Version::default(), Vec::new());
        for (level, tables) in tables.into_iter().enumerate() {
            placed.extend(tables.iter().map(|table| (level, table.clone())));
            version.levels[level] = Level::new(order, level, tables);
        }
        check::version(order, &version)?;
        let index = TableIndex::default().replaced(Vec::new(), placed);
        version.index = Arc::new(index.map_err(|id| format!("table {id} occurs twice"))?);
        Ok(version.with_run_list())
    }

    /// Updates the list of all runs from the levels.
    fn with_run_list(mut self) -> Version {
        let runs =
            |(level, held): (usize, &Level)| held.runs.iter().map(move |run| (level, run.clone())).collect::<Vec<_>>();
        self.runs = self.levels.iter().enumerate().flat_map(runs).collect();
        self
    }
}

/// Returns the metadata of a table that an edit adds.
pub fn meta_of(added: &AddedTable, entries: u64) -> TableMeta {
    let (smallest, largest) = (added.smallest.clone(), added.largest.clone());
    let mut meta = TableMeta::bounded(added.id, added.bytes, added.within, smallest, largest);
    meta.refs.extend(added.refs.iter().map(|(referred, bytes)| (object_of(*referred), *bytes)));
    TableMeta { entries, ..meta }
}

fn object_of(referred: Referred) -> ObjectId {
    match referred {
        Referred::Log(id) => ObjectId::Wal(id),
        Referred::Values(id) => ObjectId::Segment(id),
    }
}

/// Adds the table `meta` to `edit` at `level`.
pub fn add_to(edit: &mut Edit, level: usize, meta: &TableMeta) {
    let TableMeta { id, bytes, within, entries, smallest, largest, refs, linked_bytes: _ } = meta.clone();
    let referred = |(object, bytes)| match object {
        ObjectId::Wal(id) => Some((Referred::Log(id), bytes)),
        ObjectId::Segment(id) => Some((Referred::Values(id), bytes)),
        ObjectId::Bundle(_) => None, // recorded by `within`
        // Tables have no references of these kinds.
        ObjectId::Table(_) | ObjectId::WalSidecar(_) | ObjectId::Manifest(_) | ObjectId::Temporary(_) => None,
    };
    let refs = refs.into_iter().filter_map(referred).collect();
    edit.added.push((level, AddedTable { id, bytes, within, smallest, largest, refs }));
    edit.entries.extend((entries > 0).then_some((id, entries)));
}
