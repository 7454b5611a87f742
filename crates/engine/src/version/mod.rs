//! A version: which tables make up each level, at one moment. Never changed once made; readers pin the one they use.
//!
//! A level is a list of *runs*; a run is a list of tables that do not overlap, in key order. Level 0 has a run per
//! table, newest first (by table number: docs/durability.md); every deeper level of a leveled tree has one run.
pub mod check;
pub mod retire;
pub mod set;

use std::{
    cmp::Ordering,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};
use terrace_format::{
    KeyOrder, LEVELS, TableId,
    edit::{AddedTable, Edit},
    key,
};
use terrace_storage::placement::{ObjectId, TableMeta};

/// A table of a version, and what its readers learn about it.
#[derive(Debug)]
pub struct TableRef {
    /// What storage says of it.
    pub meta: TableMeta,
    /// Fruitless seeks it may still cost before it is worth compacting.
    seeks_left: AtomicI64,
}

/// One seek costs about as much as compacting 16 KiB (LevelDB's estimate), but never fewer than a hundred.
const BYTES_PER_SEEK: u64 = 16 << 10;
const SEEKS_MIN: i64 = 100;

impl TableRef {
    /// A table that has cost nothing yet.
    pub fn new(meta: TableMeta) -> TableRef {
        let allowed = i64::try_from(meta.bytes / BYTES_PER_SEEK).unwrap_or(i64::MAX).max(SEEKS_MIN);
        TableRef { meta, seeks_left: AtomicI64::new(allowed) }
    }

    /// First user key.
    pub fn smallest(&self) -> &[u8] {
        key::user_key(&self.meta.smallest)
    }

    /// Last user key.
    pub fn largest(&self) -> &[u8] {
        key::user_key(&self.meta.largest)
    }

    /// Charges one fruitless seek; true exactly when the allowance runs out.
    pub fn charge_seek(&self) -> bool {
        self.seeks_left.fetch_sub(1, Relaxed) == 1
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
pub type Run = Arc<Vec<Arc<TableRef>>>;

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
        self.tables().map(|table| table.meta.bytes).sum()
    }

    /// Takes out the tables called `ids` and adds them to `gone`.
    fn remove(&mut self, ids: &[TableId], gone: &mut Vec<Arc<TableRef>>) {
        if ids.is_empty() {
            return;
        }
        let leaves = |table: &Arc<TableRef>| ids.contains(&table.meta.id);
        for run in self.runs.iter_mut().filter(|run| run.iter().any(leaves)) {
            gone.extend(run.iter().filter(|table| leaves(table)).cloned());
            *run = Arc::new(run.iter().filter(|table| !leaves(table)).cloned().collect());
        }
        self.runs.retain(|run| !run.is_empty());
    }

    /// Puts `table` into its place in level `number`.
    fn insert(&mut self, order: &KeyOrder, number: usize, table: Arc<TableRef>) {
        if number == 0 {
            let at = self.runs.partition_point(|run| run[0].meta.id > table.meta.id);
            self.runs.insert(at, Arc::new(vec![table]));
        } else if let Some(run) = self.runs.first_mut() {
            let at = run.partition_point(|other| order.internal(&other.meta.smallest, &table.meta.smallest).is_lt());
            Arc::make_mut(run).insert(at, table);
        } else {
            self.runs.push(Arc::new(vec![table]));
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
}

impl Version {
    /// Every table with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| l.tables().map(move |table| (level, table)))
    }

    /// The version that `edit` makes of this one, or what is wrong with the edit. Levels that the edit leaves alone are
    /// shared, not copied, and not checked again.
    pub fn apply(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let (mut next, mut gone) = (self.clone(), Vec::new());
        for number in 0..LEVELS {
            let ids: Vec<_> = edit.deleted.iter().filter(|(of, _)| *of == number).map(|(_, id)| *id).collect();
            let before = gone.len();
            next.levels[number].remove(&ids, &mut gone);
            if gone.len() - before != ids.len() {
                return Err(format!("an edit deletes of {ids:?} tables that level {number} does not have"));
            }
        }
        for (number, added) in &edit.added {
            let moved = gone.iter().find(|table| table.meta.id == added.id).cloned(); // it keeps its seek allowance
            let table = moved.unwrap_or_else(|| Arc::new(TableRef::new(meta_of(added))));
            next.levels[*number].insert(order, *number, table);
        }
        check::edited(order, &next, edit)?;
        Ok(next)
    }

    /// Arranges tables into runs.
    pub fn from_tables(order: &KeyOrder, tables: [Vec<Arc<TableRef>>; LEVELS]) -> Result<Version, String> {
        let mut version = Version::default();
        for (level, mut tables) in tables.into_iter().enumerate() {
            if level == 0 {
                tables.sort_by_key(|table| std::cmp::Reverse(table.meta.id));
                version.levels[0].runs = tables.into_iter().map(|table| Arc::new(vec![table])).collect();
            } else if !tables.is_empty() {
                tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
                version.levels[level].runs = vec![Arc::new(tables)];
            }
        }
        check::version(order, &version)?;
        Ok(version)
    }
}

/// The only table of `run` that may hold `lookup` (an internal key): the first that does not end before it.
pub fn find_table<'a>(order: &KeyOrder, run: &'a [Arc<TableRef>], lookup: &[u8]) -> Option<&'a Arc<TableRef>> {
    let at = run.partition_point(|table| order.internal(&table.meta.largest, lookup) == Ordering::Less);
    run.get(at).filter(|table| order.user(table.smallest(), key::user_key(lookup)).is_le())
}

/// What an edit says of a table.
pub fn meta_of(added: &AddedTable) -> TableMeta {
    TableMeta {
        id: added.id,
        bytes: added.bytes,
        smallest: added.smallest.clone(),
        largest: added.largest.clone(),
        refs: Vec::new(), // a block table with its values inside refers to nothing else
    }
}

/// Adds `meta` to an edit at `level`.
pub fn add_to(edit: &mut Edit, level: usize, meta: &TableMeta) {
    let TableMeta { id, bytes, smallest, largest, refs: _ } = meta.clone();
    edit.added.push((level, AddedTable { id, bytes, smallest, largest }));
}

/// The objects that a table needs: itself and what it refers to.
pub fn objects(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    let own = ObjectId::Table(table.meta.id);
    std::iter::once(own).chain(table.meta.refs.iter().map(|(object, _)| *object))
}
