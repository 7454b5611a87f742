//! The table cache. An SSTable is opened at its first use. If more SSTables are open than the
//! limit allows, the least recently used ones are closed.
//!
//! A closed table takes memory only for its metadata. An open table takes a descriptor and
//! memory for its index and filter blocks. The next use of a closed table opens it again. If the
//! memory budget has no room for the index and filter, only a small part of them is in memory.
use super::{Input, Store};
use crate::{
    Budget, Error, Result,
    backends::shares::Closes,
    placement::{Cursor, Found, RangeTombstones, Table, TableMeta, TableProperties, TableReadOptions},
    tables::sst::Reader,
};
use parking_lot::{Mutex, RwLock};
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed},
};

/// The state that the tables of a store share.
pub(in crate::backends) struct Tables {
    store: Arc<Store>,
    find: Box<Find>,
    pub budget: Arc<Budget>,
    /// The number of open tables.
    open: AtomicUsize,
    /// The tables in the order in which they are closed. A thread that holds this lock takes no
    /// other lock except that of the memory budget, and does no I/O.
    clock: Mutex<Clock>,
}

/// A function that opens the file with the blocks of a table.
pub(in crate::backends) type Find = dyn Fn(&TableMeta) -> Result<Input> + Send + Sync;

const UNUSED: u8 = 0;
/// Used, with the whole index and filter in memory.
const USED: u8 = 1;
/// Used, with a part of the index in memory. Each use checks whether there is room for the whole.
const USED_IN_PART: u8 = 2;

/// All tables in the order of opening, and the position of the clock hand. The table cache selects
/// the tables to close with the clock algorithm (an approximation of least recently used).
#[derive(Default)]
struct Clock {
    tables: Vec<Weak<FileTable>>,
    hand: usize,
}

/// A table in a file.
pub(in crate::backends) struct FileTable {
    tables: Arc<Tables>,
    this: Weak<FileTable>,
    meta: TableMeta,
    /// Identifies the table in the block cache.
    uid: u64,
    /// The reader of the open table; `None` while the table is closed. A lookup holds this lock
    /// shared. A thread that opens the table holds it exclusively, so that the table is opened only
    /// once. A thread that has to close tables skips those whose lock is held.
    reader: RwLock<Option<Arc<Reader>>>,
    /// Whether the table was used since the clock hand last passed it: [`UNUSED`], [`USED`] or
    /// [`USED_IN_PART`].
    used: AtomicU8,
    /// Whether the table is in the list of the clock. Changed only under the lock of the clock.
    is_listed: AtomicBool,
}

impl Tables {
    pub fn new(store: Arc<Store>, budget: Arc<Budget>, find: Box<Find>) -> Tables {
        Tables { store, find, budget, open: AtomicUsize::new(0), clock: Mutex::default() }
    }

    /// Opens the table of `meta`.
    pub fn open(self: &Arc<Tables>, meta: &TableMeta) -> Result<Arc<FileTable>> {
        let table = Arc::new_cyclic(|this| FileTable {
            tables: self.clone(),
            this: this.clone(),
            meta: meta.clone(),
            uid: self.budget.blocks.new_uid(),
            reader: RwLock::new(None),
            used: AtomicU8::new(UNUSED),
            is_listed: AtomicBool::new(false),
        });
        table.with(|_| Ok(()))?;
        Ok(table)
    }

    /// Counts a newly opened table. If more tables are open than the limit allows, closes others.
    fn opened(&self, table: &FileTable) {
        self.open.fetch_add(1, Relaxed);
        self.close_some(Some(table));
    }

    fn close_some(&self, opened: Option<&FileTable>) {
        if self.store.follows() {
            return; // the file of a closed table may be gone
        }
        let mut upgraded = Vec::new(); // the last owner of a table must not drop it under the lock
        let mut clock = self.clock.lock();
        if clock.tables.len() > 2 * self.open.load(Relaxed) + 16 {
            clock.tables.retain(|table| table.strong_count() > 0);
        }
        let unlisted = opened.filter(|table| !table.is_listed.swap(true, Relaxed));
        clock.tables.extend(unlisted.map(|table| table.this.clone()));
        // The clock hand passes each table at most twice, because the first round may only clear
        // the flags that tables were used.
        for _ in 0..2 * clock.tables.len() {
            let few = self.open.load(Relaxed) <= self.store.share.most();
            if few && !self.budget.tails_exceed() {
                break;
            }
            let at = clock.hand % clock.tables.len();
            let other = clock.tables[at].upgrade();
            let closes = |other: &FileTable| other.used.swap(UNUSED, Relaxed) == UNUSED && other.close(few);
            if other.as_deref().is_none_or(closes) {
                clock.tables.swap_remove(at);
                if let Some(other) = &other {
                    other.is_listed.store(false, Relaxed);
                }
            }
            clock.hand = at + 1;
            upgraded.extend(other);
            if clock.tables.is_empty() {
                break;
            }
        }
    }
}

impl Closes for Tables {
    fn fit(&self) {
        self.close_some(None);
    }
}

impl FileTable {
    /// Runs `work` on the table, which stays open for that time. Opens the table first if it is
    /// closed.
    pub fn with<T>(&self, work: impl FnOnce(&Arc<Reader>) -> Result<T>) -> Result<T> {
        let open = self.reader.read();
        if let Some(reader) = &*open {
            if self.used.load(Relaxed) != USED && self.touch(reader) {
                let reader = reader.clone();
                drop(open);
                return work(&self.reopened_whole(reader));
            }
            return work(reader);
        }
        drop(open);
        work(&self.reopened()?)
    }

    /// Records that the table is used. Returns whether it should be opened again with its whole
    /// index.
    #[cold]
    fn touch(&self, reader: &Reader) -> bool {
        let used = if reader.is_whole() { USED } else { USED_IN_PART };
        if self.used.load(Relaxed) != used {
            self.used.store(used, Relaxed);
        }
        reader.is_to_reopen()
    }

    /// Opens the table again with its whole index. Returns the reader `old` if another thread uses
    /// the table, or if the table cannot be opened.
    fn reopened_whole(&self, old: Arc<Reader>) -> Arc<Reader> {
        if self.tables.store.follows() {
            return old; // the file may be gone, or the name may belong to another table
        }
        let Some(mut open) = self.reader.try_write() else { return old };
        let (Some(reader), Ok(new)) = (&mut *open, self.new_reader()) else { return old };
        *reader = new.clone();
        new
    }

    fn reopened(&self) -> Result<Arc<Reader>> {
        let mut open = self.reader.write();
        if let Some(reader) = &*open {
            return Ok(reader.clone()); // another thread was faster
        }
        let reader = self.new_reader()?;
        *open = Some(reader.clone());
        self.touch(&reader);
        drop(open);
        self.tables.opened(self);
        Ok(reader)
    }

    fn new_reader(&self) -> Result<Arc<Reader>> {
        let Tables { store, budget, find, open, .. } = &*self.tables;
        let most = store.share.most();
        if store.follows() && open.load(Relaxed) >= most {
            let text = "a reader of a store that another process writes keeps every SSTable open, at most";
            return Err(Error::Unsupported(format!(
                "{}: {text} {most} with these options and file descriptors (max_open_files)",
                store.fs.name()
            )));
        }
        let source = find(&self.meta)?;
        let there = source.there;
        let opened = Reader::open(&self.meta, self.uid, Box::new(source), &store.setup, budget.clone());
        opened.map(Arc::new).map_err(|error| self.with_length(there, error))
    }

    /// Adds a note to the text of `error` if the file is longer than the manifest states. `there`
    /// is the size of the file.
    fn with_length(&self, there: u64, error: Error) -> Error {
        match error {
            Error::Corrupt { what, object, offset, detail } if there > self.meta.bytes && self.meta.bytes > 0 => {
                let detail = format!("{there} bytes long, where the manifest says {} ({detail})", self.meta.bytes);
                Error::Corrupt { what, object, offset, detail }
            }
            error => error,
        }
    }

    /// Closes the table unless it is in use. With `only_whole`, closes it only if it would take
    /// less memory after the next open. Returns true if the table is closed afterwards. Cursors
    /// have their own reference to the reader, so they can continue.
    fn close(&self, only_whole: bool) -> bool {
        let Some(mut open) = self.reader.try_write() else { return false };
        if only_whole && open.as_ref().is_some_and(|reader| !reader.can_shrink()) {
            return false;
        }
        if open.take().is_some() {
            self.tables.open.fetch_sub(1, Relaxed);
        }
        true
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        if self.reader.get_mut().is_some() {
            self.tables.open.fetch_sub(1, Relaxed);
        }
    }
}

impl Table for FileTable {
    fn get(&self, lookup: &[u8], how: TableReadOptions) -> Result<Option<Found>> {
        self.with(|reader| reader.get(lookup, how))
    }

    fn may_have(&self, lookup: &[u8]) -> Result<bool> {
        self.with(|reader| reader.may_have(lookup))
    }

    fn expect(&self, lookup: &[u8], how: TableReadOptions) -> Result<bool> {
        self.with(|reader| reader.expect(lookup, how))
    }

    fn cursor(&self, how: TableReadOptions) -> Result<Cursor> {
        self.with(|reader| Ok(reader.clone().cursor(how)))
    }

    fn offset_of(&self, key: &[u8]) -> Result<u64> {
        self.with(|reader| reader.offset_of(key))
    }

    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        self.with(|reader| reader.anchors(count))
    }

    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>> {
        self.with(|reader| Ok(reader.range_tombstones()))
    }

    fn properties(&self) -> Result<Option<TableProperties>> {
        self.with(|reader| Ok(reader.properties()))
    }

    fn verify(&self) -> Result<TableProperties> {
        self.with(|reader| reader.verify())
    }
}
