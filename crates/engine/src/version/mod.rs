//! A version: which tables make up each level, at one moment. Never changed once made; readers pin the one they use.
//!
//! A level is a list of *runs*; a run is a list of tables that do not overlap, in key order. Level 0 has a run per
//! table, newest first (by table number: docs/durability.md); every deeper level of a leveled tree has one run.
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

/// A table of a version, and what its readers learn about it.
pub struct TableRef {
    /// What storage says of it, `refs` sorted.
    pub meta: TableMeta,
    /// Fruitless seeks it may still cost before it is worth compacting.
    seeks_left: AtomicI64,
    /// Whether it was allowed more of them than at first.
    indulged: AtomicBool,
    /// Opened when it is first read, and held as long as some version has the table.
    table: OnceLock<Arc<dyn Table>>,
    /// Whether it deletes ranges, once somebody has looked: no manifest says so.
    deletes: OnceLock<bool>,
    /// What it holds, once that is known.
    contents: OnceLock<Contents>,
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRef").field("meta", &self.meta).field("seeks_left", &self.seeks_left).finish()
    }
}

/// One seek costs about as much as compacting 16 KiB (LevelDB's estimate), but never fewer than a hundred.
const BYTES_PER_SEEK: u64 = 16 << 10;
const SEEKS_MIN: i64 = 100;

/// Fruitless seeks that a table's own bytes allow.
fn seeks_allowed(meta: &TableMeta) -> i64 {
    i64::try_from(meta.bytes / BYTES_PER_SEEK).unwrap_or(i64::MAX).max(SEEKS_MIN)
}

impl TableRef {
    /// A table that has cost nothing yet.
    pub fn new(mut meta: TableMeta) -> TableRef {
        meta.refs.sort_unstable(); // for `refers_to`; they come all but sorted
        let seeks_left = AtomicI64::new(seeks_allowed(&meta));
        let indulged = AtomicBool::new(false);
        TableRef {
            meta,
            seeks_left,
            indulged,
            table: OnceLock::new(),
            deletes: OnceLock::new(),
            contents: OnceLock::new(),
        }
    }

    /// The table itself.
    pub fn open(&self, storage: &dyn Storage) -> terrace_storage::Result<&Arc<dyn Table>> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => storage.open_table(&self.meta).map(|table| self.table.get_or_init(|| table)),
        }
    }

    /// Looks whether it deletes ranges. I/O, unless somebody has looked before.
    pub fn look_for_range_deletes(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
        if self.deletes.get().is_none() {
            let deletes = self.open(storage)?.range_tombstones()?.is_some();
            self.deletes.get_or_init(|| deletes);
        }
        Ok(())
    }

    /// Whether it is known to delete ranges.
    pub fn deletes_ranges(&self) -> bool {
        self.deletes.get() == Some(&true)
    }

    /// What it holds, if that is known.
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.get()
    }

    /// It holds this.
    pub fn learn(&self, contents: Contents) {
        let _ = self.contents.set(contents); // what was counted does not change
    }

    /// Whether it refers to `object`.
    pub fn refers_to(&self, object: ObjectId) -> bool {
        self.meta.refs.binary_search_by_key(&object, |(referred, _)| *referred).is_ok()
    }

    /// First user key.
    pub fn smallest(&self) -> &[u8] {
        key::user_key(&self.meta.smallest)
    }

    /// Last user key.
    pub fn largest(&self) -> &[u8] {
        key::user_key(&self.meta.largest)
    }

    /// The user keys from the first to the last.
    pub fn span(&self) -> KeyRange<'_> {
        KeyRange { from: Some(self.smallest()), to: Some(self.largest()) }
    }

    /// Charges one fruitless seek; true exactly when the allowance runs out.
    pub fn charge_seek(&self) -> bool {
        self.seeks_left.fetch_sub(1, Relaxed) == 1
    }

    /// Allows a table that has used up its seeks more of them, so that they are `seeks` in all, if it was not allowed more before. Whether
    /// there is one left.
    pub fn indulge(&self, seeks: u64) -> bool {
        let more = i64::try_from(seeks).unwrap_or(i64::MAX) - seeks_allowed(&self.meta);
        // Readers may have charged it since.
        more > 0 && !self.indulged.swap(true, Relaxed) && self.seeks_left.fetch_add(more, Relaxed) + more > 0
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

/// The number that is kept free for a merge within level 0 whose newest input is `table`.
pub fn spare_above(table: TableId) -> TableId {
    TableId(table.0 + 1)
}

/// Tables that do not overlap, in key order.
pub type Run = Arc<Tables>;

/// The tables of a run, and their last keys side by side, so that a search need not visit the tables.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<Arc<TableRef>>,
    largest: Fences,
}

impl Tables {
    /// From tables in the order of their keys.
    pub fn new(order: &KeyOrder, tables: Vec<Arc<TableRef>>) -> Tables {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(tables.len()));
        for table in &tables {
            keys.extend_from_slice(&table.meta.largest);
            ends.push(keys.len());
        }
        Tables { tables, largest: Fences::new(order, keys, ends) }
    }

    /// Index of the first table that does not end before `internal`; the count of tables if all do.
    pub fn first_at_or_after(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        self.largest.first_at_or_after(order, internal)
    }

    /// The only table that may hold `lookup` (an internal key).
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

/// The runs of one level, newest first.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Newest first.
    pub runs: Vec<Run>,
}

impl Level {
    /// Every table of the level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableRef>> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.bytes).fold(0, u64::saturating_add)
    }

    /// Takes tables of level `number` out and puts others in.
    fn change(&mut self, order: &KeyOrder, number: usize, out: &BTreeSet<TableId>, put: Vec<Arc<TableRef>>) {
        if out.is_empty() && put.is_empty() {
            return; // its runs stay shared with the version before
        }
        let stays = |table: &&Arc<TableRef>| !out.contains(&table.meta.id);
        if number == 0 {
            self.runs.retain(|run| run.iter().all(|table| stays(&table)));
            for table in put {
                let at = self.runs.partition_point(|run| run[0].meta.id > table.meta.id);
                self.runs.insert(at, Arc::new(Tables::new(order, vec![table])));
            }
        } else {
            let mut tables: Vec<_> = self.tables().filter(stays).cloned().chain(put).collect();
            tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
            self.runs = if tables.is_empty() { Vec::new() } else { vec![Arc::new(Tables::new(order, tables))] };
        }
    }

    /// Tables that may hold keys of `range`, in the level's order.
    pub fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
        self.stretches(order, range).flatten().cloned().collect()
    }

    /// The stretch of each run that may hold keys of `range`.
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

/// Which tables make up each level.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Level 0 first.
    pub levels: [Level; LEVELS],
    /// See [`runs`](Version::runs).
    runs: Vec<(usize, Run)>,
    /// What range reads have paid towards merging level 0.
    paid: Paid,
}

/// Bytes of compaction that the range reads of one version have been worth; the next version begins anew, so that a level 0
/// which grows meanwhile is merged for its own reasons and not for theirs.
#[derive(Debug, Default)]
struct Paid(AtomicU64);

impl Clone for Paid {
    fn clone(&self) -> Paid {
        Paid::default()
    }
}

impl Version {
    /// Every run with its level, in the order in which reads ask them: what an earlier one says of a key is newer.
    pub fn runs(&self) -> &[(usize, Run)] {
        &self.runs
    }

    /// Those of `tables`, by level and number, that there are.
    pub fn named(&self, tables: &[(usize, TableId)]) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let levels: BTreeSet<_> = tables.iter().map(|(level, _)| *level).collect();
        let wanted: BTreeSet<_> = tables.iter().copied().collect();
        let there = levels.into_iter().flat_map(|level| self.levels[level].tables().map(move |table| (level, table)));
        there.filter(move |(level, table)| wanted.contains(&(*level, table.meta.id)))
    }

    /// What is known of tables that `level` has got.
    pub fn learn(&self, level: usize, contents: Vec<(TableId, Contents)>) {
        let mut contents: BTreeMap<_, _> = contents.into_iter().collect();
        if !contents.is_empty() {
            let known = self.levels[level].tables().filter_map(|table| Some((table, contents.remove(&table.meta.id)?)));
            known.for_each(|(table, contents)| table.learn(contents));
        }
    }

    /// Bytes of each level.
    pub fn held(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.levels[level].bytes())
    }

    /// The levels above the deepest that has a table.
    pub fn above_deepest(&self) -> &[Level] {
        &self.levels[..self.levels.iter().rposition(|level| level.bytes() > 0).unwrap_or(0)]
    }

    /// Every table with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| l.tables().map(move |table| (level, table)))
    }

    /// A range read has looked into every run of level 0, which is worth `worth` bytes of compaction for each. Once such reads
    /// have been worth merging level 0 into level 1, this is level 0's oldest table, one time.
    pub fn charge_range_read(&self, worth: u64) -> Option<TableId> {
        const GRAIN: u64 = 1 << 20; // levels are summed up that often, not at every read
        let oldest = self.levels[0].runs.last().filter(|_| worth > 0)?;
        let pays = worth * self.levels[0].runs.len() as u64;
        let before = self.paid.0.fetch_add(pays, Relaxed);
        let (before, after) = (before / GRAIN, (before + pays) / GRAIN);
        if before == after {
            return None;
        }
        let price = (self.levels[0].bytes() + self.levels[1].bytes()).div_ceil(GRAIN);
        (before < price && price <= after).then(|| oldest[0].meta.id)
    }

    /// The version that `edit` makes of this one, or what is wrong with the edit. Levels that the edit leaves alone are
    /// shared, not copied, and not checked again.
    pub fn apply(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let gone: BTreeMap<_, _> =
            self.named(&edit.deleted).map(|(level, table)| (table.meta.id, (level, table))).collect();
        let mut out: [BTreeSet<TableId>; LEVELS] = Default::default();
        for (number, id) in &edit.deleted {
            if gone.get(id).is_none_or(|(level, _)| level != number) || !out[*number].insert(*id) {
                return Err(format!("an edit deletes table {id}, which level {number} does not have"));
            }
        }
        let mut put: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let entries: BTreeMap<TableId, u64> = edit.entries.iter().copied().collect();
        for (number, added) in &edit.added {
            let meta = || meta_of(added, entries.get(&added.id).copied().unwrap_or(0));
            let moved = gone.get(&added.id).map(|(_, table)| Arc::clone(table)); // it keeps its seek allowance
            put[*number].push(moved.unwrap_or_else(|| Arc::new(TableRef::new(meta()))));
        }
        let mut next = self.clone();
        for (number, (out, put)) in out.iter().zip(put).enumerate() {
            next.levels[number].change(order, number, out, put);
        }
        check::edited(order, &next, edit)?;
        Ok(next.lined_up())
    }

    /// Arranges tables into runs.
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
        Ok(version.lined_up())
    }

    /// With the runs of its levels as they are now.
    fn lined_up(mut self) -> Version {
        let runs =
            |(level, held): (usize, &Level)| held.runs.iter().map(move |run| (level, run.clone())).collect::<Vec<_>>();
        self.runs = self.levels.iter().enumerate().flat_map(runs).collect();
        self
    }
}

/// What an edit says of a table.
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

/// Adds `meta` to an edit at `level`.
pub fn add_to(edit: &mut Edit, level: usize, meta: &TableMeta) {
    let TableMeta { id, bytes, within, entries, smallest, largest, refs, linked_bytes: _ } = meta.clone();
    let referred = |(object, bytes)| match object {
        ObjectId::Wal(id) => Some((Referred::Log(id), bytes)),
        ObjectId::Segment(id) => Some((Referred::Values(id), bytes)),
        ObjectId::Bundle(_) => None, // `within` says it
        // Nothing points there.
        ObjectId::Table(_) | ObjectId::SmallLog(_) | ObjectId::Manifest(_) | ObjectId::Temporary(_) => None,
    };
    let refs = refs.into_iter().filter_map(referred).collect();
    edit.added.push((level, AddedTable { id, bytes, within, smallest, largest, refs }));
    edit.entries.extend((entries > 0).then_some((id, entries)));
}

/// What a table needs that has a file of its own: the bundle that it is in instead of itself.
pub fn files(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects(table).filter(|object| table.meta.within.is_none() || *object != ObjectId::Table(table.meta.id))
}

/// The objects that a table needs: itself and what it refers to.
pub fn objects(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects_of(&table.meta)
}

/// The same of a table that may be in no version.
pub fn objects_of(meta: &TableMeta) -> impl Iterator<Item = ObjectId> + '_ {
    std::iter::once(ObjectId::Table(meta.id)).chain(meta.refs.iter().map(|(object, _)| *object))
}
