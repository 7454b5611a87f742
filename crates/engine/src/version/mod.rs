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
pub mod contents;
pub mod obsolete_files;
pub mod pending;
pub mod segments;
pub mod set;

pub use contents::Contents;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};
use terrace_format::{
    KeyOrder, LEVELS, TableId,
    edit::{AddedTable, Edit, Referred},
    fences::Fences,
    key,
};
use terrace_storage::placement::{ObjectId, Storage, Table, TableMeta};

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
    pub fn look_for_range_deletes(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
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
    pub fn learn(&self, contents: Contents) {
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
    pub fn indulge(&self, seeks: u64) -> bool {
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

/// A sorted run: tables that do not overlap, in key order.
pub type Run = Arc<Tables>;

/// The tables of a run, and an index of their last keys, so that a search does not visit the
/// tables.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<Arc<TableRef>>,
    largest: Fences,
}

impl Tables {
    /// Makes a run of tables in key order.
    pub fn new(order: &KeyOrder, tables: Vec<Arc<TableRef>>) -> Tables {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(tables.len()));
        for table in &tables {
            keys.extend_from_slice(&table.meta.largest);
            ends.push(keys.len());
        }
        Tables { tables, largest: Fences::new(order, keys, ends) }
    }

    /// Returns the index of the first table that ends at or after `internal`; the number of tables
    /// if there is none.
    pub fn first_at_or_after(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        self.largest.first_at_or_after(order, internal)
    }

    /// Returns the only table that may hold the internal key `lookup`.
    pub fn find(&self, order: &KeyOrder, lookup: &[u8]) -> Option<&Arc<TableRef>> {
        let table = self.tables.get(self.first_at_or_after(order, lookup));
        table.filter(|table| order.user(table.smallest(), key::user_key(lookup)).is_le())
    }
}

impl Deref for Tables {
    type Target = [Arc<TableRef>];

    fn deref(&self) -> &[Arc<TableRef>] {
        &self.tables
    }
}

/// The sorted runs of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Newest first.
    pub runs: Vec<Run>,
}

impl Level {
    /// Returns the tables of the level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableRef>> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Returns the bytes of the tables.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.bytes).fold(0, u64::saturating_add)
    }

    /// Replaces tables of level `number` by others.
    fn change(
        &mut self,
        order: &KeyOrder,
        number: usize,
        removed_ids: &BTreeSet<TableId>,
        added_tables: Vec<Arc<TableRef>>,
    ) {
        if removed_ids.is_empty() && added_tables.is_empty() {
            return; // the runs stay shared with the previous version
        }
        let stays = |table: &&Arc<TableRef>| !removed_ids.contains(&table.meta.id);
        if number == 0 {
            self.runs.retain(|run| run.iter().all(|table| stays(&table)));
            for table in added_tables {
                let at = self.runs.partition_point(|run| run[0].meta.id > table.meta.id);
                self.runs.insert(at, Arc::new(Tables::new(order, vec![table])));
            }
        } else {
            let mut tables: Vec<_> = self.tables().filter(stays).cloned().chain(added_tables).collect();
            tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
            self.runs = if tables.is_empty() { Vec::new() } else { vec![Arc::new(Tables::new(order, tables))] };
        }
    }

    /// Returns the tables that may hold keys of `range`, in the order of the level.
    pub fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
        self.stretches(order, range).flatten().cloned().collect()
    }

    /// Returns for each run the slice of tables that may hold keys of `range`.
    pub fn stretches<'a>(
        &'a self,
        order: &'a KeyOrder,
        range: &'a KeyRange<'_>,
    ) -> impl Iterator<Item = &'a [Arc<TableRef>]> {
        self.runs.iter().map(move |run| {
            let before =
                |table: &Arc<TableRef>| range.from.is_some_and(|from| order.user(table.largest(), from).is_lt());
            let rest = &run[run.partition_point(before)..];
            let begun = |table: &Arc<TableRef>| range.to.is_none_or(|to| order.user(table.smallest(), to).is_le());
            &rest[..rest.partition_point(begun)]
        })
    }
}

/// The tables of each level.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Level 0 first.
    pub levels: [Level; LEVELS],
    /// All runs; see [`runs`](Version::runs).
    runs: Vec<(usize, Run)>,
    /// Charges of range reads for level 0.
    range_read_charge: RangeReadCharge,
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
        let levels: BTreeSet<_> = tables.iter().map(|(level, _)| *level).collect();
        let wanted: BTreeSet<_> = tables.iter().copied().collect();
        let tables_of_levels =
            levels.into_iter().flat_map(|level| self.levels[level].tables().map(move |table| (level, table)));
        tables_of_levels.filter(move |(level, table)| wanted.contains(&(*level, table.meta.id)))
    }

    /// Sets the entry counts of tables in `level`.
    pub fn learn(&self, level: usize, contents: Vec<(TableId, Contents)>) {
        let mut contents: BTreeMap<_, _> = contents.into_iter().collect();
        if !contents.is_empty() {
            let known = self.levels[level].tables().filter_map(|table| Some((table, contents.remove(&table.meta.id)?)));
            known.for_each(|(table, contents)| table.learn(contents));
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
        let charge = bytes_per_run * self.levels[0].runs.len() as u64;
        let before = self.range_read_charge.0.fetch_add(charge, Relaxed);
        let (before, after) = (before / GRAIN, (before + charge) / GRAIN);
        if before == after {
            return None;
        }
        let compaction_bytes = (self.levels[0].bytes() + self.levels[1].bytes()).div_ceil(GRAIN);
        (before < compaction_bytes && compaction_bytes <= after).then(|| oldest[0].meta.id)
    }

    /// Returns the version that results from `edit`, or a description of why the edit does not
    /// apply. Levels that the edit does not touch are shared with this version and not checked
    /// again.
    pub fn apply(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let removed: BTreeMap<_, _> =
            self.named(&edit.deleted).map(|(level, table)| (table.meta.id, (level, table))).collect();
        let mut removed_ids: [BTreeSet<TableId>; LEVELS] = Default::default();
        for (number, id) in &edit.deleted {
            if removed.get(id).is_none_or(|(level, _)| level != number) || !removed_ids[*number].insert(*id) {
                return Err(format!("the edit deletes table {id}, which is not in level {number}"));
            }
        }
        let mut added_tables: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let entries: BTreeMap<TableId, u64> = edit.entries.iter().copied().collect();
        for (number, added) in &edit.added {
            let meta = || meta_of(added, entries.get(&added.id).copied().unwrap_or(0));
            // A moved table keeps its seek budget.
            let moved = removed.get(&added.id).map(|(_, table)| Arc::clone(table));
            added_tables[*number].push(moved.unwrap_or_else(|| Arc::new(TableRef::new(meta()))));
        }
        let mut next = self.clone();
        for (number, (removed_ids, added_tables)) in removed_ids.iter().zip(added_tables).enumerate() {
            next.levels[number].change(order, number, removed_ids, added_tables);
        }
        check::edited(order, &next, edit)?;
        Ok(next.with_run_list())
    }

    /// Makes a version of tables per level, in any order.
    pub fn from_tables(order: &KeyOrder, tables: [Vec<Arc<TableRef>>; LEVELS]) -> Result<Version, String> {
        let mut version = Version::default();
        for (level, mut tables) in tables.into_iter().enumerate() {
            if level == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse(table.meta.id));
                version.levels[0].runs =
                    tables.into_iter().map(|table| Arc::new(Tables::new(order, vec![table]))).collect();
            } else if !tables.is_empty() {
                tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
                version.levels[level].runs = vec![Arc::new(Tables::new(order, tables))];
            }
        }
        check::version(order, &version)?;
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
        ObjectId::Table(_) | ObjectId::SmallLog(_) | ObjectId::Manifest(_) | ObjectId::Temporary(_) => None,
    };
    let refs = refs.into_iter().filter_map(referred).collect();
    edit.added.push((level, AddedTable { id, bytes, within, smallest, largest, refs }));
    edit.entries.extend((entries > 0).then_some((id, entries)));
}

/// Returns the objects with files that a table needs. For a table inside a bundle these are the
/// bundle and its references, not a file of its own.
pub fn files(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects(table).filter(|object| table.meta.within.is_none() || *object != ObjectId::Table(table.meta.id))
}

/// Returns the objects that a table needs: itself and its references.
pub fn objects(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects_of(&table.meta)
}

/// As [`objects`], for the metadata of a table.
pub fn objects_of(meta: &TableMeta) -> impl Iterator<Item = ObjectId> + '_ {
    std::iter::once(ObjectId::Table(meta.id)).chain(meta.refs.iter().map(|(object, _)| *object))
}
