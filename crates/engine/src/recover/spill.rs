//! Stores WAL entries during a repair: in memtables up to a bound, and above it in sorted runs in
//! the new store.
//!
//! ```text
//!  scan (first pass)     build (second pass, only if the entries overflowed)
//!  WALs ─► LogEntries    WALs ─► LogEntries ─► sorted runs in the new store ─► SalvageIter
//!          memtables             memtables     removed when the repair ends
//! ```
//!
//! The first pass writes nothing, because a repair may still be refused. If the entries exceed the
//! bound, the first pass drops them and keeps only the range tombstones. The second pass then
//! reads the WALs again and writes (spills) their entries to sorted runs.
use crate::{
    Options, Result,
    bulk::BulkTableWriter,
    mem::{MemCursor, MemTable},
    version::objects_written_with,
};
use std::sync::Arc;
use terrace_format::{FamilyId, KeyOrder, Kind, LogId, RangeTombstones, TableId, batch::Batch, key};
use terrace_storage::{
    Budget,
    placement::{Bytes, Cursor, Storage, TableMeta, TableReadOptions},
};

/// Bytes of WAL entries that a repair keeps in memory, unless the options allow more for one
/// memtable. The value is a compromise: a repair with 4 GiB of WALs writes about 90 sorted runs,
/// and the cursors on them need 50 MiB (about 0.6 MiB each). Merging runs into larger ones would
/// bound this memory.
const ENTRY_BYTES_MIN: u64 = 48 << 20;

/// Collects the WAL entries that the repair uses.
pub struct LogEntries<'a> {
    order: KeyOrder,
    /// The column family whose entries are collected.
    family: FamilyId,
    budget: Arc<Budget>,
    /// Size in bytes of one memtable.
    write_buffer_size: u64,
    /// Memtables in the order of reading. The flag is true if the repair uses all their entries,
    /// and false if it uses only those that tables may lack.
    memtables: Vec<(Arc<MemTable>, bool)>,
    range_tombstones: RangeTombstones,
    /// Whether some entries did not fit into memory and are no longer in `memtables`.
    overflowed: bool,
    /// Writes the entries that do not fit into memory. `None` means that these entries are dropped.
    spill: Option<Spill<'a>>,
}

/// Writes sorted runs into the new store.
struct Spill<'a> {
    spilled: Spilled<'a>,
    target_file_size: u64,
}

/// The entries that [`LogEntries`] has collected in memory.
pub struct Collected {
    /// Memtables in the order of reading; none if the entries overflowed.
    pub memtables: Vec<(Arc<MemTable>, bool)>,
    /// All range tombstones of the WALs.
    pub range_tombstones: RangeTombstones,
    /// Whether the entries exceeded the bound and were dropped.
    pub overflowed: bool,
}

impl<'a> LogEntries<'a> {
    /// Makes a collector of the entries of `family` that keeps them in memory, and drops all of
    /// them if they exceed the bound. `budget` counts the memory.
    pub fn in_memory(options: &Options, family: FamilyId, budget: &Arc<Budget>) -> LogEntries<'a> {
        LogEntries {
            order: options.order().clone(),
            family,
            budget: budget.clone(),
            write_buffer_size: options.write_buffer_size,
            memtables: Vec::new(),
            range_tombstones: RangeTombstones::default(),
            overflowed: false,
            spill: None,
        }
    }

    /// Makes a collector that writes entries above the bound into tables of `to`, numbered from
    /// `next_file` on.
    pub fn spilling(
        options: &Options,
        family: FamilyId,
        budget: &Arc<Budget>,
        (to, next_file): (&'a dyn Storage, u64),
    ) -> LogEntries<'a> {
        let spilled = Spilled { to, order: options.order().clone(), runs: Vec::new(), next_file };
        let spill = Spill { spilled, target_file_size: options.target_file_size };
        LogEntries { spill: Some(spill), ..LogEntries::in_memory(options, family, budget) }
    }

    /// Inserts `batch` of WAL `log`. Returns whether the batch has at least one entry.
    pub fn insert(&mut self, log: LogId, batch: &Batch, named: bool) -> Result<bool> {
        if batch.is_empty() {
            return Ok(false);
        }
        let fits = |(mem, _): &(Arc<MemTable>, bool)| mem.log == log && mem.charged_bytes() <= self.write_buffer_size;
        if !self.memtables.last().is_some_and(fits) {
            let bytes = self.memtables.iter().map(|(mem, _)| mem.charged_bytes()).sum::<u64>();
            if bytes > self.write_buffer_size.max(ENTRY_BYTES_MIN) {
                self.overflow()?;
            }
            self.memtables.push((Arc::new(MemTable::new(self.order.clone(), log, 0, &self.budget)), named));
        }
        self.memtables.last().expect("just pushed").0.insert_family(self.family, &[], batch);
        Ok(true)
    }

    /// Removes all entries from memory: writes them to sorted runs, or drops them if there is no
    /// store to spill to.
    fn overflow(&mut self) -> Result<()> {
        self.overflowed = true;
        let memtables = std::mem::take(&mut self.memtables);
        for (mem, _) in &memtables {
            self.range_tombstones.extend(&self.order, &mem.range_tombstones());
        }
        self.spill.as_mut().map_or(Ok(()), |spill| spill.write(&memtables))
    }

    /// Returns the entries that are in memory.
    pub fn collected(mut self) -> Result<Collected> {
        if self.overflowed {
            self.overflow()?;
        }
        for (mem, _) in &self.memtables {
            self.range_tombstones.extend(&self.order, &mem.range_tombstones());
        }
        let LogEntries { memtables, range_tombstones, overflowed, .. } = self;
        Ok(Collected { memtables, range_tombstones, overflowed })
    }

    /// Writes the remaining entries. Returns the sorted runs and all range tombstones. If there is
    /// no store to spill to, there are no runs.
    pub fn spilled(mut self) -> Result<(Option<Spilled<'a>>, RangeTombstones)> {
        self.overflow()?;
        Ok((self.spill.map(|spill| spill.spilled), self.range_tombstones))
    }
}

impl Spill<'_> {
    /// Writes `memtables` as two sorted runs: one for the entries that the repair uses in any case,
    /// and one for those that it uses only if tables may lack them.
    fn write(&mut self, memtables: &[(Arc<MemTable>, bool)]) -> Result<()> {
        for named in [true, false] {
            let memtables = memtables.iter().filter(|(_, is)| *is == named).map(|(mem, _)| mem);
            let mut sources: Vec<(MemCursor, LogId)> = memtables.map(|mem| (mem.cursor(), mem.log)).collect();
            let Some(log) = sources.iter().map(|(_, log)| *log).max() else { continue };
            sources.iter_mut().for_each(|(cursor, _)| cursor.seek_first());
            let metas = self.write_run(sources)?;
            self.spilled.runs.push(Written { metas, named, log });
        }
        Ok(())
    }

    /// Merges `sources`, which are in the order of reading, into one sorted run. Of two entries
    /// with the same internal key it keeps the entry of the younger WAL, and within one WAL the
    /// later entry.
    fn write_run(&mut self, mut sources: Vec<(MemCursor, LogId)>) -> Result<Vec<TableMeta>> {
        let Spilled { to, order, next_file, .. } = &mut self.spilled;
        let number = || {
            *next_file += 1;
            TableId(*next_file - 1)
        };
        let mut out = BulkTableWriter::new(*to, self.target_file_size, number);
        let mut last: Option<Vec<u8>> = None;
        loop {
            let valid = (0..sources.len()).filter(|at| sources[*at].0.valid());
            let first = valid.min_by(|&at_a, &at_b| {
                let [a, b] = [&sources[at_a], &sources[at_b]];
                let later = (b.1, at_b);
                order.internal(a.0.key(), b.0.key()).then_with(|| later.cmp(&(a.1, at_a)))
            });
            let Some(first) = first else { break };
            let cursor = &mut sources[first].0;
            if last.as_deref() != Some(cursor.key()) {
                out.add(cursor.key(), cursor.value())?;
                last = Some(cursor.key().to_vec());
            }
            cursor.next();
        }
        out.finish()
    }
}

/// A sorted run that was written.
struct Written {
    /// The tables of the run, in key order and without overlap.
    metas: Vec<TableMeta>,
    /// Whether the repair uses the run's entries for all keys.
    named: bool,
    /// The youngest WAL with entries in the run.
    log: LogId,
}

/// Sorted runs of WAL entries in the new store. No version names their tables. The tables are
/// removed when this value is dropped.
pub struct Spilled<'a> {
    to: &'a dyn Storage,
    order: KeyOrder,
    runs: Vec<Written>,
    /// The first free file number.
    next_file: u64,
}

impl<'a> Spilled<'a> {
    /// Makes an empty list of runs.
    pub fn none(to: &'a dyn Storage, options: &Options) -> Spilled<'a> {
        Spilled { to, order: options.order().clone(), runs: Vec::new(), next_file: 0 }
    }

    /// Returns the lowest free file number of `to`; zero if nothing was spilled.
    pub fn next_file(&self) -> u64 {
        self.next_file
    }

    /// Returns a reader for each sorted run, at its first entry. Each reader comes with a flag:
    /// whether the repair uses all entries of the run.
    pub fn runs(&self) -> Result<Vec<(Run<'_>, bool)>> {
        self.runs.iter().map(|run| Ok((Run::open(self.to, run)?, run.named))).collect()
    }
}

impl Drop for Spilled<'_> {
    fn drop(&mut self) {
        for run in &self.runs {
            // An error of a removal is ignored, because the first open of the new store removes the
            // remaining files.
            objects_written_with(&run.metas).into_iter().for_each(|object| drop(self.to.remove(object)));
        }
    }
}

/// Reads a run table by table.
pub struct Run<'a> {
    to: &'a dyn Storage,
    tables: std::slice::Iter<'a, TableMeta>,
    /// A cursor on the open table; `None` after the last entry of the run.
    cursor: Option<Cursor>,
    /// The value of the current entry, in the same form as in a memtable.
    value: Bytes,
    /// The youngest WAL with entries in the run.
    pub log: LogId,
}

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: false };

impl<'a> Run<'a> {
    fn open(to: &'a dyn Storage, run: &'a Written) -> Result<Run<'a>> {
        let mut run = Run { to, tables: run.metas.iter(), cursor: None, value: Bytes::from(Vec::new()), log: run.log };
        run.enter()?;
        Ok(run)
    }

    /// Returns the internal key of the current entry; `None` after the last entry.
    pub fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref().map(|cursor| cursor.key())
    }

    /// Returns the value of the current entry.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Moves to the next entry of the run. After the last entry, [`key`](Run::key) returns `None`.
    pub fn step(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { self.load() } else { self.enter() }
    }

    fn enter(&mut self) -> Result<()> {
        self.cursor = None;
        for meta in self.tables.by_ref() {
            let mut cursor = self.to.open_table(meta)?.cursor(HOW)?;
            cursor.seek_first()?;
            if cursor.valid() {
                self.cursor = Some(cursor);
                return self.load();
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.fetch()?;
        let (entry, stored) = (key::apart(cursor.key()), Bytes::from(cursor.value().to_vec()));
        self.value = if entry.kind == Kind::Put { self.to.value(entry.user, entry.seq, stored)? } else { stored };
        Ok(())
    }
}
