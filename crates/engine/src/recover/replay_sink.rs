//! The destination of replayed entries: memtables that stay in memory, tables of level 0, or a
//! count alone.
//!
//! One memtable is filled at a time. When it is full it is kept, written as a table or counted, as
//! [`ReplayTarget`] says. With the last two, replay holds one memtable whatever the WALs contain.
//!
//! A table that replay writes is named by no manifest until the open publishes its own. A crash
//! before that leaves an obsolete file; the next open replays the same WALs again and removes it.
//! An open that is refused removes its tables when [`WrittenTables`] is dropped.
use crate::{Options, Result, jobs::flush, mem::MemTable, version::objects_written_with};
use std::sync::Arc;
use terrace_format::{LogId, TableId, batch::Batch};
use terrace_storage::{
    DurabilityHandle,
    placement::{Storage, TableMeta},
};

/// Tables that may wait for durability at once. Each may hold a descriptor until it is durable.
const UNSYNCED_TABLES_MAX: usize = 64;

/// What replay does with a memtable that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTarget {
    /// Keeps it: a read-only open can write no table and serves reads from memtables.
    Memtables,
    /// Writes it as a table of level 0. File numbers from this one on are free.
    Tables(u64),
    /// Counts its entries and drops it.
    Count,
}

/// Collects the entries of the history, oldest first.
pub struct ReplaySink<'a> {
    options: &'a Options,
    storage: &'a dyn Storage,
    target: ReplayTarget,
    active: Option<Arc<MemTable>>,
    /// Full memtables, oldest first; only with [`ReplayTarget::Memtables`].
    pub memtables: Vec<Arc<MemTable>>,
    /// Entries counted so far; only with [`ReplayTarget::Count`].
    pub entries: u64,
    /// Tables written so far; only with [`ReplayTarget::Tables`].
    pub tables: WrittenTables<'a>,
}

impl<'a> ReplaySink<'a> {
    /// An empty sink. Memory of its memtables is charged to the budget of `storage`.
    pub fn new(storage: &'a dyn Storage, options: &'a Options, target: ReplayTarget) -> ReplaySink<'a> {
        let next_file = if let ReplayTarget::Tables(next_file) = target { next_file } else { 0 };
        let tables = WrittenTables { storage, next_file, metas: Vec::new(), unsynced: Vec::new() };
        ReplaySink { options, storage, target, active: None, memtables: Vec::new(), entries: 0, tables }
    }

    /// The target for a second replay in place of this one. No file number is used twice.
    pub fn target_for_retry(&self) -> ReplayTarget {
        match self.target {
            ReplayTarget::Tables(_) => ReplayTarget::Tables(self.tables.next_file),
            other => other,
        }
    }

    /// Inserts `batch` of WAL `log`. It is not empty. Writes a table first if the memtable is full.
    pub fn insert(&mut self, log: LogId, batch: &Batch) -> Result<()> {
        let full = |mem: &Arc<MemTable>| mem.charged_bytes() > self.options.write_buffer_size;
        if self.active.as_ref().is_some_and(full) {
            self.finish()?;
        }
        let new = || Arc::new(MemTable::new(self.options.order().clone(), log, 0, self.storage.budget()));
        self.active.get_or_insert_with(new).insert(batch);
        Ok(())
    }

    /// Ends the active memtable, if there is one.
    pub fn finish(&mut self) -> Result<()> {
        let Some(mem) = self.active.take() else { return Ok(()) };
        match self.target {
            ReplayTarget::Memtables => self.memtables.push(mem),
            ReplayTarget::Tables(_) if mem.is_empty() => {}
            ReplayTarget::Tables(_) => self.tables.write(self.options, &mem)?,
            ReplayTarget::Count => self.entries += mem.len(),
        }
        Ok(())
    }
}

/// Tables that replay has written and no manifest names yet. Removes them when dropped.
pub struct WrittenTables<'a> {
    storage: &'a dyn Storage,
    /// File numbers from this one on are free.
    next_file: u64,
    /// Oldest first.
    metas: Vec<TableMeta>,
    /// Handles of tables that may not be durable yet.
    unsynced: Vec<DurabilityHandle>,
}

impl WrittenTables<'_> {
    fn write(&mut self, options: &Options, mem: &Arc<MemTable>) -> Result<()> {
        let id = TableId(self.next_file);
        self.next_file += 1;
        let (meta, _, handle) = flush::write_table(self.storage, options.order(), std::slice::from_ref(mem), id, None)?;
        self.metas.push(meta);
        self.unsynced.push(handle);
        if self.unsynced.len() >= UNSYNCED_TABLES_MAX { self.wait_durable() } else { Ok(()) }
    }

    /// Waits until every table written so far is durable.
    fn wait_durable(&mut self) -> Result<()> {
        self.storage.commit()?;
        self.unsynced.drain(..).try_for_each(|handle| handle.wait_durable())?;
        Ok(())
    }

    /// Returns the tables, oldest first and durable, and the next free file number. They are the
    /// caller's from now on.
    pub fn into_durable(mut self) -> Result<(Vec<TableMeta>, u64)> {
        self.wait_durable()?;
        Ok((std::mem::take(&mut self.metas), self.next_file))
    }
}

impl Drop for WrittenTables<'_> {
    fn drop(&mut self) {
        let objects = objects_written_with(&self.metas);
        self.metas.iter().for_each(|meta| drop(self.storage.cancel_sync(meta)));
        // Best effort: the next writing open removes the rest.
        objects.into_iter().for_each(|object| drop(self.storage.remove(object)));
    }
}
