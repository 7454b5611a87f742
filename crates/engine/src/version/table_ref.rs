//! A reference to a table of a version, and ranges of user keys.
use super::contents::Contents;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
};
use terrace_format::{KeyOrder, TableId, key};
use terrace_storage::placement::{ObjectId, Storage, Table, TableMeta};

/// A reference to a table of a version, with properties that become known while the table is in
/// use.
pub struct TableRef {
    /// The metadata of the table. Its list of referenced objects (`refs`) is sorted.
    pub meta: TableMeta,
    /// The number of fruitless seeks that the table may still have until its seek compaction is
    /// due.
    seek_budget: AtomicI64,
    /// Whether the seek budget was extended.
    budget_extended: AtomicBool,
    /// The open table. The first read opens it, and it stays open as long as any version has the
    /// table.
    table: OnceLock<Arc<dyn Table>>,
    /// Whether the table has range tombstones. The manifest does not have this information, so it
    /// is known only after the table has been opened to determine it.
    deletes: OnceLock<bool>,
    /// The entry counts, once they are known.
    contents: OnceLock<Contents>,
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRef").field("meta", &self.meta).field("seeks_left", &self.seek_budget).finish()
    }
}

/// LevelDB's estimate: one seek costs about as much as a compaction of this many bytes. The seek
/// budget of a table is its size divided by this number, but at least 100.
const BYTES_PER_SEEK: u64 = 16 << 10;
const SEEK_BUDGET_MIN: i64 = 100;

/// Returns the seek budget for a table with the size in `meta`.
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

    /// Determines whether the table has range tombstones, unless this is already known. The call
    /// may do I/O.
    pub fn load_range_deletes(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
        if self.deletes.get().is_none() {
            let deletes = self.open(storage)?.range_tombstones()?.is_some();
            self.deletes.get_or_init(|| deletes);
        }
        Ok(())
    }

    /// Returns whether the table is known to have range tombstones.
    pub fn deletes_ranges(&self) -> bool {
        self.deletes.get() == Some(&true)
    }

    /// Loads the entry counts of the table, unless they are already known. The call may do I/O.
    pub fn load_contents(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
        if self.contents().is_none() {
            let table = self.open(storage)?;
            self.set_contents(Contents::from_properties(table.properties()?, table.range_tombstones()?.as_deref()));
        }
        Ok(())
    }

    /// Returns the entry counts, if known.
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.get()
    }

    /// Sets the entry counts. Only the first call has an effect.
    pub fn set_contents(&self, contents: Contents) {
        let _ = self.contents.set(contents); // the counts of a table never change
    }

    /// Returns whether the table refers to `object`.
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

    /// Returns a copy of the reference with the run number `run`, for an edit that moves the table
    /// into this sorted run.
    pub fn in_run(self: &Arc<Self>, run: u64) -> Arc<TableRef> {
        if self.meta.run == run {
            return self.clone(); // keeps its seek budget
        }
        let moved = TableRef::new(TableMeta { run, ..self.meta.clone() });
        Arc::new(TableRef {
            table: self.table.clone(),
            deletes: self.deletes.clone(),
            contents: self.contents.clone(),
            ..moved
        })
    }

    /// Charges one fruitless seek. Returns true only for the seek that exhausts the seek budget.
    pub fn charge_seek(&self) -> bool {
        self.seek_budget.fetch_sub(1, Relaxed) == 1
    }

    /// Extends an exhausted seek budget to a total of `seeks`, at most once per table. Returns
    /// whether the budget is not exhausted any more.
    pub fn extend_seek_budget(&self, seeks: u64) -> bool {
        let more = i64::try_from(seeks).unwrap_or(i64::MAX) - initial_seek_budget(&self.meta);
        // Readers may have charged further seeks after the budget was exhausted, so the extended
        // budget may still be below zero.
        more > 0 && !self.budget_extended.swap(true, Relaxed) && self.seek_budget.fetch_add(more, Relaxed) + more > 0
    }

    /// Returns whether the table may contain keys of `range`.
    pub fn overlaps(&self, order: &KeyOrder, range: &KeyRange<'_>) -> bool {
        range.from.is_none_or(|from| order.user(self.largest(), from).is_ge())
            && range.to.is_none_or(|to| order.user(self.smallest(), to).is_le())
    }
}

/// A range of user keys from `from` to `to`, both included; `None` means no bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyRange<'a> {
    /// The first key of the range.
    pub from: Option<&'a [u8]>,
    /// The last key of the range.
    pub to: Option<&'a [u8]>,
}

/// Returns the reserved table number for an intra-L0 compaction whose newest input is `table`.
pub fn reserved_above(table: TableId) -> TableId {
    TableId(table.0 + 1)
}

/// Returns the number of the sorted run of `table` in level `level`. A run with a larger number
/// has newer entries.
pub fn run_number(level: usize, table: &TableRef) -> u64 {
    if level == 0 { table.meta.id.0 } else { table.meta.run }
}
