//! Sorted tables in and out: a store takes over tables that were built elsewhere, and hands out a range of its keys as such.
use super::Db;
use crate::{Error, Options, ReadOptions, Result, SortedTable, SortedTableWriter, read::view::View, version::add_to};
use std::{path::Path, sync::Arc};
use terrace_format::{
    LogId, SeqNo, TableId,
    edit::Edit,
    key::{self, user_key},
};
use terrace_storage::{
    TableFile, Ticket,
    placement::{Cursor, EntryRef, Hint, Lifetime, ObjectId, Origin, ReadHow, Table, TableMeta},
};

/// Writes that may come while tables are prepared, before the sequence under which they are to appear is passed and they must
/// be prepared again.
const SEQUENCES_AHEAD: u64 = 1 << 24;

/// What an ingest brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Puts and deletes.
    pub entries: u64,
    /// Tables that they are in now.
    pub tables: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The sequence that all of them have.
    pub sequence: u64,
    /// The level that the tables entered.
    pub level: usize,
}

/// Tables of this store that hold what was ingested, and are in no version yet.
struct Prepared {
    metas: Vec<TableMeta>,
    entries: u64,
}

impl Db {
    /// Takes over what is in the tables at `paths`, which stay as they are: all of it becomes visible at once, newer than
    /// everything written before, and survives a power cut when this returns (under tier `none`: no promise). Tables of
    /// [`SortedTableWriter`], of [`export`](Db::export) or of LevelDB will do; of several versions of a key the newest counts.
    /// The keys of no two of them may overlap.
    ///
    /// Costs one reading and one writing of the tables, without log or memtable. Writers wait while what they wrote before is
    /// flushed, not while tables are read and written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a table with any damage, [`Error::Invalid`] for tables that overlap: then nothing was changed.
    pub fn ingest<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Ingested> {
        let (shared, writes) = (self.shared(), self.writes()?);
        let mut ahead = SEQUENCES_AHEAD;
        loop {
            let seq = SeqNo(self.last_sequence() + ahead);
            if seq >= SeqNo::MAX {
                return Err(Error::Unsupported(
                    "all sequence numbers are used up; copy the store into a new one".into(),
                ));
            }
            let mut prepared = self.prepare(paths, seq)?;
            let mut level = 0;
            let done = writes.jump(shared, seq, |log| {
                level = self.install(&mut prepared, seq, log)?;
                Ok(())
            });
            match done {
                Ok(true) => {
                    let Prepared { metas, entries } = prepared;
                    let bytes = metas.iter().map(|meta| meta.bytes).sum();
                    return Ok(Ingested { entries, tables: metas.len() as u64, bytes, sequence: seq.0, level });
                }
                // Writers have passed it: a larger step next time.
                Ok(false) => ahead *= 16,
                Err(error) => return Err(error), // what was prepared goes at the next opening: it may have been installed
            }
            prepared.metas.iter().for_each(|meta| drop(shared.placement.remove(ObjectId::Table(meta.id))));
        }
    }

    /// Reads the tables at `paths` and writes them anew, every entry under `seq`.
    fn prepare<P: AsRef<Path>>(&self, paths: &[P], seq: SeqNo) -> Result<Prepared> {
        let mut foreign = Vec::new();
        let opened: Result<()> = paths.iter().try_for_each(|path| {
            foreign.push(Foreign::open(self, path.as_ref())?);
            Ok(())
        });
        let prepared = opened.and_then(|()| self.rewrite(&mut foreign, seq));
        foreign.iter().for_each(|table| drop(self.shared().placement.remove(ObjectId::Table(table.id))));
        prepared
    }

    fn rewrite(&self, foreign: &mut [Foreign], seq: SeqNo) -> Result<Prepared> {
        let (order, placement) = (self.shared().options.order(), &self.shared().placement);
        foreign.sort_by(|a, b| order.user(&a.smallest, &b.smallest));
        if let Some([a, b]) = foreign.array_windows().find(|[a, b]| order.user(&a.largest, &b.smallest).is_ge()) {
            return Err(Error::Invalid(format!("the keys of {} and {} overlap", a.path, b.path)));
        }
        let expected_bytes = foreign.iter().map(|table| table.bytes).sum();
        let mut build = placement.begin(Hint { level: 1, expected_bytes, lifetime: Lifetime::Compaction })?;
        let (mut open, mut entries) = (false, 0);
        for table in foreign {
            let mut last: Option<Vec<u8>> = None;
            while table.cursor.valid() {
                let found = key::apart(table.cursor.key());
                if last.as_ref().is_none_or(|last| order.user(last, found.user).is_ne()) {
                    if open && build.table_bytes() >= self.shared().options.table_bytes {
                        build.end_table()?;
                        open = false;
                    }
                    if !open {
                        build.begin_table(TableId(self.shared().control.lock().versions.new_number()))?;
                        open = true;
                    }
                    let key = key::encode(found.user, seq, found.kind);
                    build.keep(EntryRef { key: &key, stored: table.cursor.value(), origin: Origin::Memory })?;
                    (last, entries) = (Some(found.user.to_vec()), entries + 1);
                }
                table.cursor.next()?;
            }
        }
        if entries == 0 {
            return Err(Error::Invalid("there is no table to ingest".into()));
        }
        build.end_table()?;
        let (metas, ticket) = build.finish()?;
        placement.commit()?;
        ticket.wait_durable()?;
        Ok(Prepared { metas, entries })
    }

    /// Puts the tables into the version, as deep as what is there and what is going on allow. Nobody writes, and no memtable
    /// waits. The level.
    fn install(&self, prepared: &mut Prepared, seq: SeqNo, log: LogId) -> Result<usize> {
        let shared = self.shared();
        let [Some(first), Some(last)] = [prepared.metas.first(), prepared.metas.last()] else { return Ok(0) };
        let (smallest, largest) = (user_key(&first.smallest).to_vec(), user_key(&last.largest).to_vec());
        let mut control = shared.control.lock();
        let mut level = shared.flush_level(&control, &smallest, &largest);
        if level == 0 {
            // Level 0 is ordered by number, and flushes may have drawn theirs since these did.
            let numbers = prepared.metas.iter().map(|_| TableId(control.versions.new_number())).collect::<Vec<_>>();
            drop(control);
            let renamed = prepared.metas.iter().zip(&numbers);
            let renamed = renamed.map(|(meta, id)| Ok((shared.placement.table_file(meta.id)?, *id)));
            shared.placement.adopt(&renamed.collect::<Result<Vec<_>>>()?)?;
            for (meta, id) in prepared.metas.iter_mut().zip(numbers) {
                let _ = shared.placement.remove(ObjectId::Table(meta.id)); // else at the next opening
                meta.id = id;
            }
            level = 0;
            control = shared.control.lock();
        }
        let mut edit = Edit::default();
        prepared.metas.iter().for_each(|meta| add_to(&mut edit, level, meta));
        let version = control.versions.install_flush(edit, seq, log, 0, Ticket::mature())?;
        shared.set_view(&control, |view| View { mem: view.mem.clone(), sealed: view.sealed.clone(), version });
        shared.schedule(&mut control);
        Ok(level)
    }

    /// Writes the pairs that `options` ask for as sorted tables of about `table_bytes` each into directory `to`, which must be
    /// there: `000001.ldb` and so on, in key order. No file is replaced. As of one moment; writers go on.
    pub fn export(&self, to: impl AsRef<Path>, options: ReadOptions) -> Result<Vec<SortedTable>> {
        let own: &Options = &self.shared().options;
        let (mut tables, mut open) = (Vec::new(), None::<SortedTableWriter>);
        for pair in self.scan(options.verify_checksums(true).fill_cache(false)) {
            let (key, value) = pair?;
            if open.as_ref().is_some_and(|table| table.bytes() >= own.table_bytes) {
                tables.extend(open.take().map(SortedTableWriter::finish).transpose()?);
            }
            let table = match &mut open {
                Some(table) => table,
                none => none.insert(SortedTableWriter::create(
                    to.as_ref().join(format!("{}.ldb", TableId(tables.len() as u64 + 1))),
                    own,
                )?),
            };
            table.put(key, value)?;
        }
        tables.extend(open.map(SortedTableWriter::finish).transpose()?);
        Ok(tables)
    }
}

/// A table from outside, under a number of this store while it is read.
struct Foreign {
    id: TableId,
    path: String,
    bytes: u64,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// On the first entry.
    cursor: Cursor,
}

impl Foreign {
    /// Takes the table at `path` over and verifies all of it.
    fn open(db: &Db, path: &Path) -> Result<Foreign> {
        let shared = db.shared();
        let shown = path.display().to_string();
        let file = TableFile::at(path).ok_or_else(|| Error::Invalid(format!("{shown} is no file")))?;
        let id = TableId(shared.control.lock().versions.new_number());
        let bytes = shared.placement.adopt(&[(file, id)])?.bytes;
        let read = || {
            let meta = TableMeta { id, bytes, entries: 0, smallest: Vec::new(), largest: Vec::new(), refs: Vec::new() };
            let table: Arc<dyn Table> = shared.placement.open_table(&meta)?;
            table.verify()?;
            if table.range_deletes()?.is_some() {
                return Err(Error::Unsupported(format!(
                    "{shown} deletes ranges, which cannot be taken over; export its store"
                )));
            }
            let mut cursor = table.cursor(ReadHow { verify: true, fill_cache: false })?;
            cursor.seek_last()?;
            let largest = if cursor.valid() { user_key(cursor.key()).to_vec() } else { Vec::new() };
            cursor.seek_first()?;
            let smallest = if cursor.valid() { user_key(cursor.key()).to_vec() } else { Vec::new() };
            Ok(Foreign { id, path: shown.clone(), bytes, smallest, largest, cursor })
        };
        let named = |error: Error| match error {
            Error::Corrupt { what, offset, detail, .. } => {
                Error::Corrupt { what, object: shown.clone(), offset, detail }
            }
            other => other,
        };
        read().map_err(|error| {
            let _ = shared.placement.remove(ObjectId::Table(id)); // else at the next opening
            named(error)
        })
    }
}
