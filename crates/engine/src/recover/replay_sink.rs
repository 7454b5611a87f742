//! The destination of replayed entries. Replay either keeps them in memtables, writes them to
//! tables of level 0, or only counts them.
//!
//! Replay fills one memtable at a time. [`ReplayTarget`] decides whether a full memtable is kept,
//! written as a table, or counted and dropped. With the last two targets, replay has only one
//! memtable in memory, whatever the size of the WALs.
//!
//! No manifest names a table that replay writes until the open publishes a new manifest. If a
//! crash happens before that, the table is an obsolete file. The next open removes it and replays
//! the same WALs again. If an open is refused, dropping [`WrittenTables`] removes the tables of
//! that open.
use crate::{Options, Result, jobs::flush, mem::MemTable, version::objects_written_with};
use std::sync::Arc;
use terrace_format::{LogId, TableId, batch::Batch};
use terrace_storage::{
    DurabilityHandle,
    placement::{Storage, TableMeta},
};

/// Most tables that wait for durability at the same time. Each may hold a file descriptor until it
/// is durable.
const UNSYNCED_TABLES_MAX: usize = 64;

/// The way in which replay handles a full memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTarget {
    /// Keeps the memtable. A read-only open can write no table and serves reads from memtables.
    Memtables,
    /// Writes the memtable as a table of level 0. File numbers from this one on are free.
    Tables(u64),
    /// Counts the memtable's entries and drops it.
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
    /// Makes an empty sink. The memory budget of `storage` counts the memory of its memtables.
    pub fn new(storage: &'a dyn Storage, options: &'a Options, target: ReplayTarget) -> ReplaySink<'a> {
        let next_file = if let ReplayTarget::Tables(next_file) = target { next_file } else { 0 };
        let tables = WrittenTables { storage, next_file, metas: Vec::new(), unsynced: Vec::new() };
        ReplaySink { options, storage, target, active: None, memtables: Vec::new(), entries: 0, tables }
    }

    /// Returns the target for a second replay that replaces this one. No file number is used twice.
    pub fn target_for_retry(&self) -> ReplayTarget {
        match self.target {
            ReplayTarget::Tables(_) => ReplayTarget::Tables(self.tables.next_file),
            other => other,
        }
    }

    /// Inserts `batch` of WAL `log`. `batch` must not be empty. If the memtable is full, it is
    /// ended first.
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

/// Tables that replay has written and that no manifest names yet. They are removed when this value
/// is dropped.
pub struct WrittenTables<'a> {
    storage: &'a dyn Storage,
    /// File numbers from this one on are free.
    next_file: u64,
    /// Descriptions of the tables, oldest first.
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

    /// Returns the tables, oldest first and durable, and the next free file number. Afterwards the
    /// caller owns the tables: dropping this value no longer removes them.
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
