//! The destination of replayed entries. Replay either keeps them in memtables, writes them to
//! tables of level 0, or only counts them.
//!
//! Replay fills one memtable of each column family at a time. [`ReplayTarget`] decides whether
//! full memtables are kept, written as tables, or counted and dropped. If they are written or
//! counted, replay has only the memtables that it fills in memory, whatever the size of the WALs.
//!
//! No manifest names a table that replay writes until the open publishes a new manifest. If a
//! crash happens before that, the table is an obsolete file: the next open removes it and replays
//! the same WALs again. If an open is refused, the drop of [`WrittenTables`] removes the tables of
//! that open.
use super::manifest::ManifestState;
use crate::{Error, Options, Result, jobs::flush, mem::MemTable, version::objects_written_with};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use terrace_format::{FamilyId, LogId, TableId, batch::Batch};
use terrace_storage::{
    DurabilityHandle,
    placement::{ObjectId, Storage, TableMeta},
};

/// The maximum number of tables that wait for durability at the same time. Each of them may hold a
/// file descriptor until it is durable.
const UNSYNCED_TABLES_MAX: usize = 64;

/// The way in which replay handles a full memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTarget {
    /// Keeps the memtable. A read-only open can write no table and serves reads from memtables.
    Memtables,
    /// Writes the memtable as a table of level 0. The number is the first free file number.
    Tables(u64),
    /// Counts the memtable's entries and drops it.
    Count,
}

/// The column families to which replayed writes may belong.
pub struct Families {
    /// The families that exist.
    alive: BTreeSet<FamilyId>,
    /// A number above those of all column families that the store ever had.
    next: FamilyId,
}

impl Families {
    /// Returns the column families of `manifest`.
    pub fn of(manifest: &ManifestState) -> Families {
        Families { alive: manifest.version.families().keys().copied().collect(), next: manifest.next_family }
    }

    /// Returns whether writes to `family` are replayed. Writes to a dropped family are not.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the family never existed. A family is created in the manifest before
    /// the first write to it.
    fn replays(&self, storage: &dyn Storage, log: LogId, family: FamilyId) -> Result<bool> {
        if family >= self.next {
            let detail = format!("a write names column family {family}, which the manifest does not know");
            return Err(Error::corrupt("log", storage.place_of(ObjectId::Wal(log)), 0, detail));
        }
        Ok(self.alive.contains(&family))
    }
}

/// Collects the entries of the history, oldest first.
pub struct ReplaySink<'a> {
    options: &'a Options,
    storage: &'a dyn Storage,
    target: ReplayTarget,
    families: Families,
    /// The memtables that are being filled, by column family.
    active: BTreeMap<FamilyId, Arc<MemTable>>,
    /// Full memtables, oldest first; only with [`ReplayTarget::Memtables`].
    pub memtables: Vec<(FamilyId, Arc<MemTable>)>,
    /// Entries counted so far; only with [`ReplayTarget::Count`].
    pub entries: u64,
    /// Tables written so far; only with [`ReplayTarget::Tables`].
    pub tables: WrittenTables<'a>,
}

impl<'a> ReplaySink<'a> {
    /// Makes an empty sink. The memory budget of `storage` counts the memory of its memtables.
    pub fn new(
        storage: &'a dyn Storage,
        options: &'a Options,
        families: Families,
        target: ReplayTarget,
    ) -> ReplaySink<'a> {
        let next_file = if let ReplayTarget::Tables(next_file) = target { next_file } else { 0 };
        let tables = WrittenTables { storage, next_file, metas: Vec::new(), unsynced: Vec::new() };
        let (active, memtables) = (BTreeMap::new(), Vec::new());
        ReplaySink { options, storage, target, families, active, memtables, entries: 0, tables }
    }

    /// Returns the target for a second replay that replaces this one. The second replay uses no
    /// file number that this replay has used.
    pub fn target_for_retry(&self) -> ReplayTarget {
        match self.target {
            ReplayTarget::Tables(_) => ReplayTarget::Tables(self.tables.next_file),
            other => other,
        }
    }

    /// Inserts `batch` of WAL `log`. `batch` must not be empty. If the memtables are full, they are
    /// first handled as [`ReplayTarget`] states.
    pub fn insert(&mut self, log: LogId, batch: &Batch) -> Result<()> {
        if self.active.values().map(|mem| mem.charged_bytes()).sum::<u64>() > self.options.write_buffer_size {
            self.finish()?;
        }
        let Some(families) = self.families_of(log, batch)? else {
            self.memtable(log, FamilyId::DEFAULT).insert(batch);
            return Ok(());
        };
        families.into_iter().for_each(|family| self.memtable(log, family).insert_family(family, &[], batch));
        Ok(())
    }

    /// Returns those column families of `batch` to which writes are replayed; `None` if the batch
    /// has operations on the default family only.
    fn families_of(&self, log: LogId, batch: &Batch) -> Result<Option<BTreeSet<FamilyId>>> {
        if !batch.has_families() {
            return Ok(None);
        }
        let mut families: BTreeSet<FamilyId> = batch.ops().map(|op| op.split().0).collect();
        for family in families.clone().into_iter().filter(|family| *family != FamilyId::DEFAULT) {
            if !self.families.replays(self.storage, log, family)? {
                families.remove(&family);
            }
        }
        Ok(Some(families))
    }

    fn memtable(&mut self, log: LogId, family: FamilyId) -> &Arc<MemTable> {
        let new = || Arc::new(MemTable::new(self.options.order().clone(), log, 0, self.storage.budget()));
        self.active.entry(family).or_insert_with(new)
    }

    /// Handles the memtables that are being filled as if they were full.
    pub fn finish(&mut self) -> Result<()> {
        for (family, mem) in std::mem::take(&mut self.active) {
            match self.target {
                ReplayTarget::Memtables => self.memtables.push((family, mem)),
                ReplayTarget::Tables(_) if mem.is_empty() => {}
                ReplayTarget::Tables(_) => self.tables.write(self.options, family, &mem)?,
                ReplayTarget::Count => self.entries += mem.len(),
            }
        }
        Ok(())
    }
}

/// Tables that replay has written and that no manifest names yet. They are removed when this value
/// is dropped.
pub struct WrittenTables<'a> {
    storage: &'a dyn Storage,
    /// The first free file number.
    next_file: u64,
    /// Descriptions of the tables, oldest first, each with its column family.
    metas: Vec<(FamilyId, TableMeta)>,
    /// Durability handles of the tables that may not be durable yet.
    unsynced: Vec<DurabilityHandle>,
}

impl WrittenTables<'_> {
    fn write(&mut self, options: &Options, family: FamilyId, mem: &Arc<MemTable>) -> Result<()> {
        let id = TableId(self.next_file);
        self.next_file += 1;
        let (meta, _, handle) = flush::write_table(self.storage, options.order(), std::slice::from_ref(mem), id, None)?;
        self.metas.push((family, meta));
        self.unsynced.push(handle);
        if self.unsynced.len() >= UNSYNCED_TABLES_MAX { self.wait_durable() } else { Ok(()) }
    }

    /// Waits until every table written so far is durable.
    fn wait_durable(&mut self) -> Result<()> {
        self.storage.commit()?;
        self.unsynced.drain(..).try_for_each(|handle| handle.wait_durable())?;
        Ok(())
    }

    /// Returns the tables, oldest first and durable, and the next free file number. Afterwards the
    /// caller owns the tables: the drop of this value no longer removes them.
    pub fn into_durable(mut self) -> Result<(Vec<(FamilyId, TableMeta)>, u64)> {
        self.wait_durable()?;
        Ok((std::mem::take(&mut self.metas), self.next_file))
    }
}

impl Drop for WrittenTables<'_> {
    fn drop(&mut self) {
        let metas: Vec<_> = self.metas.drain(..).map(|(_, meta)| meta).collect();
        let objects = objects_written_with(&metas);
        metas.iter().for_each(|meta| drop(self.storage.cancel_sync(meta)));
        // An error of a removal is ignored, because the next open for writing removes the remaining
        // files.
        objects.into_iter().for_each(|object| drop(self.storage.remove(object)));
    }
}
