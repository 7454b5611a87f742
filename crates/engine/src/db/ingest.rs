//! Ingest adds SSTables to a store that were built outside of it. Export writes a key range of a
//! store as SSTables.
use super::Db;
use crate::{
    Error, Options, ReadOptions, Result, Scan, SortedTable, SortedTableWriter,
    bulk::{BulkTableWriter, SEQUENCES_AHEAD},
    jobs::commit_edits,
    read::view::View,
    state::{DbInner, DbState},
    version::add_to,
};
use std::path::Path;
use terrace_format::{
    FamilyId, LogId, SeqNo, TableId,
    edit::Edit,
    key::{self, user_key},
};
use terrace_storage::{
    TableFile,
    placement::{Cursor, ObjectId, TableMeta, TableReadOptions},
};

/// The result of an ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Number of puts and deletes.
    pub entries: u64,
    /// Number of new SSTables in the store that hold the ingested entries.
    pub tables: u64,
    /// Total size of the new SSTables, in bytes.
    pub bytes: u64,
    /// The sequence number of all ingested entries.
    pub sequence: u64,
    /// The level to which the tables were added.
    pub level: usize,
}

/// An ingest into level 0 writes tables of up to this size in bytes, so usually only one. Each
/// table of level 0 is a sorted run that reads have to search, so an ingest into level 0 should
/// have few tables.
const LEVEL_0_TABLE_BYTES: u64 = 1 << 30;

/// The SSTables into which an ingest has rewritten its entries. They are in this store, but no
/// version names them yet.
struct Prepared {
    metas: Vec<TableMeta>,
    entries: u64,
    /// Whether the entries are in as few tables as possible, so that the tables may be added to
    /// level 0.
    few: bool,
}

/// The result of an attempt to add the prepared tables to the version.
enum Installed {
    At(usize),
    /// Nothing was added: only level 0 can take the tables, and they are too many for level 0.
    TooMany,
}

impl Db {
    /// Adds the entries of the SSTables at `paths` to the store. The files are not changed. All
    /// entries become visible together and are newer than all earlier writes. The tables may be
    /// written by [`SortedTableWriter`], [`export`](Db::export) or LevelDB. If a table has several
    /// versions of a key, only the newest is added. The key ranges of the tables must not overlap.
    ///
    /// Cost: one read and one write of the tables, without WAL and memtable. If concurrent writes
    /// leave only level 0 for the tables, the call reads and writes them twice. Writers wait while
    /// earlier writes are flushed, but not while the tables are read and written.
    ///
    /// Durability: when this call returns, the entries survive a power cut, except in durability
    /// mode `none`, which promises nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged table; [`Error::Invalid`] for tables that overlap. The call
    /// has then changed nothing.
    ///
    /// ```
    /// # use terrace::{Db, Options, SortedTableWriter};
    /// let db = Db::open_in_memory(Options::default())?;
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("built.ldb");
    /// let mut table = SortedTableWriter::create(&path, &Options::default())?;
    /// table.put("a", "1")?;
    /// table.put("b", "2")?;
    /// table.finish()?;
    /// assert_eq!(db.ingest(&[&path])?.entries, 2);
    /// assert_eq!(db.get("b")?, Some(b"2".to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn ingest<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Ingested> {
        self.ingest_in(FamilyId::DEFAULT, paths)
    }

    /// Adds the entries of SSTables to column family `family`; see [`ingest`](Db::ingest).
    pub(super) fn ingest_in<P: AsRef<Path>>(&self, family: FamilyId, paths: &[P]) -> Result<Ingested> {
        let (shared, writes) = (self.shared(), self.writes()?);
        let (mut ahead, mut few) = (SEQUENCES_AHEAD, false);
        loop {
            let seq = SeqNo(self.last_sequence() + ahead);
            if seq >= SeqNo::MAX {
                return Err(Error::Unsupported(
                    "all sequence numbers are used up; copy the store into a new one".into(),
                ));
            }
            let mut prepared = self.prepare(family, paths, seq, few)?;
            let mut installed = None;
            let passed = writes.advance_sequence(shared, seq, |log| {
                let outcome = self.install(family, &mut prepared, seq, log)?;
                Ok(matches!(installed.insert(outcome), Installed::At(_)))
            });
            passed?; // they may be installed, so the next open decides which to delete
            match installed {
                Some(Installed::At(level)) => {
                    let Prepared { metas, entries, .. } = prepared;
                    let bytes = metas.iter().map(|meta| meta.bytes).sum();
                    return Ok(Ingested { entries, tables: metas.len() as u64, bytes, sequence: seq.0, level });
                }
                Some(Installed::TooMany) => few = true,
                None => ahead *= 16, // writers used `seq` meanwhile: try a larger one
            }
            commit_edits::delete_outputs(shared, &prepared.metas);
        }
    }

    /// Reads the external tables at `paths` and writes their entries, with the sequence number
    /// `seq`, to new tables of this store. With `few`, or for level 0, it writes as few tables as
    /// possible, otherwise tables of the target size.
    fn prepare<P: AsRef<Path>>(&self, family: FamilyId, paths: &[P], seq: SeqNo, few: bool) -> Result<Prepared> {
        let mut foreign = Vec::new();
        let opened: Result<()> = paths.iter().try_for_each(|path| {
            foreign.push(ForeignTable::open(self, path.as_ref())?);
            Ok(())
        });
        let prepared = opened.and_then(|()| self.rewrite(family, &mut foreign, seq, few));
        foreign.iter().for_each(|table| drop(self.shared().storage.remove(ObjectId::Table(table.meta.id))));
        prepared
    }

    fn rewrite(&self, family: FamilyId, foreign: &mut [ForeignTable], seq: SeqNo, few: bool) -> Result<Prepared> {
        let (order, shared) = (self.shared().options.order(), self.shared());
        foreign.sort_by(|a, b| order.user(&a.smallest, &b.smallest));
        if let Some([a, b]) = foreign.array_windows().find(|[a, b]| order.user(&a.largest, &b.smallest).is_ge()) {
            return Err(Error::Invalid(format!("the keys of {} and {} overlap", a.path, b.path)));
        }
        let [Some(first), Some(last)] = [foreign.first(), foreign.last()] else {
            return Err(Error::Invalid("no table to ingest was given".into()));
        };
        let few = few || level_of(shared, &shared.state.lock(), family, (&first.smallest, &last.largest))? == 0;
        let target_file_size = shared.options.target_file_size;
        let target_file_size = if few { target_file_size.max(LEVEL_0_TABLE_BYTES) } else { target_file_size };
        let number = || TableId(shared.state.lock().versions.new_number());
        let (mut out, mut entries) = (BulkTableWriter::new(&*shared.storage, target_file_size, number), 0);
        for table in foreign {
            let mut cursor = table.cursor(self)?;
            let mut last: Option<Vec<u8>> = None;
            while cursor.valid() {
                let found = key::apart(cursor.key());
                if last.as_ref().is_none_or(|last| order.user(last, found.user).is_ne()) {
                    let key = key::encode(found.user, seq, found.kind);
                    out.add(&key, cursor.value())?;
                    (last, entries) = (Some(found.user.to_vec()), entries + 1);
                }
                cursor.next()?;
            }
        }
        if entries == 0 {
            return Err(Error::Invalid("the tables to ingest have no entries".into()));
        }
        Ok(Prepared { metas: out.finish()?, entries, few })
    }

    /// Adds the prepared tables to the version, in the deepest level that existing tables and
    /// running compactions allow. The caller ensures that no write runs and that no memtable waits
    /// for its flush.
    fn install(&self, family: FamilyId, prepared: &mut Prepared, seq: SeqNo, log: LogId) -> Result<Installed> {
        let shared = self.shared();
        let [Some(first), Some(last)] = [prepared.metas.first(), prepared.metas.last()] else {
            return Err(Error::Bug("an ingest without tables".into()));
        };
        let (smallest, largest) = (user_key(&first.smallest).to_vec(), user_key(&last.largest).to_vec());
        let mut state = shared.state.lock();
        let level = level_of(shared, &state, family, (&smallest, &largest))?;
        if level == 0 && prepared.metas.len() > 1 && !prepared.few {
            return Ok(Installed::TooMany);
        }
        if level == 0 {
            // Level 0 is ordered by table number, and the ingested tables must be the newest.
            // Flushes may have drawn larger numbers since the tables were prepared, so the tables
            // get new numbers.
            let numbers = prepared.metas.iter().map(|_| TableId(state.versions.new_number())).collect::<Vec<_>>();
            drop(state);
            let renamed = prepared.metas.iter().zip(&numbers);
            let renamed =
                renamed.map(|(meta, id)| Ok((shared.storage.file_of(ObjectId::Table(meta.id))?, ObjectId::Table(*id))));
            shared.storage.adopt(&renamed.collect::<Result<Vec<_>>>()?)?;
            for (meta, id) in prepared.metas.iter_mut().zip(numbers) {
                // If the file with the old number cannot be removed, the next open of the store
                // deletes it.
                let _ = shared.storage.remove(ObjectId::Table(meta.id));
                meta.id = id;
            }
            state = shared.state.lock();
        }
        let mut edit = Edit::default();
        prepared.metas.iter().for_each(|meta| add_to(&mut edit, family.level(level), meta));
        let version = state.versions.install_flush(edit, seq, log, 0, Vec::new())?;
        shared.set_view(&state, |view| View { version, ..view.clone() });
        state.gc.shadow_stats.record_new_bytes(prepared.metas.iter().map(|meta| meta.bytes).sum());
        shared.schedule(&mut state);
        Ok(Installed::At(level))
    }

    /// Writes the pairs that `options` select as SSTables of about `target_file_size` bytes each
    /// into the existing directory `to`. The files are `000001.ldb` and so on, in key order. The
    /// call replaces no file. The tables show the store at one moment; writes continue during the
    /// call.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get); [`Error::Io`] or [`Error::NoSpace`] if a file cannot be
    /// written or exists already.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// # let place = tempfile::tempdir().unwrap();
    /// # let folder = place.path();
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let tables = db.export(folder, ReadOptions::new().from("b"))?;
    /// assert_eq!((tables.len(), tables[0].entries), (1, 2));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn export(&self, to: impl AsRef<Path>, options: ReadOptions) -> Result<Vec<SortedTable>> {
        self.export_in(FamilyId::DEFAULT, to.as_ref(), options)
    }

    /// Writes pairs of column family `family` as SSTables; see [`export`](Db::export).
    pub(super) fn export_in(&self, family: FamilyId, to: &Path, options: ReadOptions) -> Result<Vec<SortedTable>> {
        let store_options: &Options = &self.shared().options;
        let (mut tables, mut open) = (Vec::new(), None::<SortedTableWriter>);
        for pair in Scan::new(self.cursor_in(family, options.verify_checksums(true).fill_cache(false)), false) {
            let (key, value) = pair?;
            if open.as_ref().is_some_and(|table| table.bytes() >= store_options.target_file_size) {
                tables.extend(open.take().map(SortedTableWriter::finish).transpose()?);
            }
            let table = match &mut open {
                Some(table) => table,
                none => none.insert(SortedTableWriter::create(
                    to.join(format!("{}.ldb", TableId(tables.len() as u64 + 1))),
                    store_options,
                )?),
            };
            table.put(key, value)?;
        }
        tables.extend(open.map(SortedTableWriter::finish).transpose()?);
        Ok(tables)
    }
}

/// Returns the level of `family` in which an ingest of the keys from `keys.0` to `keys.1` may
/// place its tables.
fn level_of(shared: &DbInner, state: &DbState, family: FamilyId, keys: (&[u8], &[u8])) -> Result<usize> {
    shared.flush_level(state, family, keys.0, keys.1).ok_or_else(|| Error::family_dropped(family))
}

/// An external SSTable, which has a table number of this store while the ingest reads it. The
/// ingest does not keep the table open between reads, because there may be many such tables.
struct ForeignTable {
    meta: TableMeta,
    path: String,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl ForeignTable {
    /// Links or copies the table at `path` into the store and verifies all of it.
    fn open(db: &Db, path: &Path) -> Result<ForeignTable> {
        let shared = db.shared();
        let shown = path.display().to_string();
        let file = TableFile::at(path).ok_or_else(|| Error::Invalid(format!("{shown} is no file")))?;
        let id = TableId(shared.state.lock().versions.new_number());
        let bytes = shared.storage.adopt(&[(file, ObjectId::Table(id))])?.bytes;
        let meta = TableMeta::unbounded(id, bytes);
        let mut table = ForeignTable { meta, path: shown, smallest: Vec::new(), largest: Vec::new() };
        match table.verify(db) {
            Ok(()) => Ok(table),
            Err(error) => {
                // If the linked or copied table cannot be removed, the next open of the store
                // deletes it.
                let _ = shared.storage.remove(ObjectId::Table(id));
                Err(match error {
                    Error::Corrupt { what, offset, detail, .. } => {
                        Error::Corrupt { what, object: table.path, offset, detail }
                    }
                    other => other,
                })
            }
        }
    }

    fn verify(&mut self, db: &Db) -> Result<()> {
        let table = db.shared().storage.open_table(&self.meta)?;
        table.verify()?;
        if table.range_tombstones()?.is_some() {
            let text = format!(
                "{} has range tombstones, which an ingest does not support; ingest an export of its store",
                self.path
            );
            return Err(Error::Unsupported(text));
        }
        let mut cursor = self.cursor(db)?;
        self.smallest = if cursor.valid() { user_key(cursor.key()).to_vec() } else { Vec::new() };
        cursor.seek_last()?;
        self.largest = if cursor.valid() { user_key(cursor.key()).to_vec() } else { Vec::new() };
        Ok(())
    }

    /// Opens the table and returns a cursor at its first entry.
    fn cursor(&self, db: &Db) -> Result<Cursor> {
        let table = db.shared().storage.open_table(&self.meta)?;
        let mut cursor = table.cursor(TableReadOptions { verify: true, fill_cache: false })?;
        cursor.seek_first()?;
        Ok(cursor)
    }
}
