//! Reports on the state of a store: levels and statistics.
use super::Db;
use crate::{
    state::DbInner,
    stats::{LevelStatistics, MemoryStatistics, ReadStatistics, Statistics, ValueLogStatistics},
    version::{
        TableRef, Version,
        segments::{Segment, Segments},
    },
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use terrace_format::{LEVELS, SeqNo, key};
use terrace_storage::Budget;

fn memory(budget: &Budget) -> MemoryStatistics {
    let ([memtables, tails, cursors], blocks) = budget.held();
    MemoryStatistics { memtables, tails, cursors, blocks, limit: budget.limit() }
}

fn value_log(segments: &Segments, spared: usize) -> ValueLogStatistics {
    let (count, Segment { bytes, live }) = (segments.referenced().count() as u64, segments.sum());
    ValueLogStatistics { segments: count, bytes, live_bytes: live, spared: spared as u64, relocated_bytes: 0 }
}

/// Returns the state of the store, and counters since the store was opened.
pub(super) fn statistics(shared: &DbInner) -> Statistics {
    let view = shared.view.load_full();
    let level = |number: usize| LevelStatistics {
        tables: view.version.trees().map(|(_, tree)| tree.levels[number].tables().count() as u64).sum(),
        bytes: view.version.trees().map(|(_, tree)| tree.levels[number].bytes()).sum(),
        ..LevelStatistics::default()
    };
    let (pending_edits, retained, pending_deletions, value_log) = {
        let state = shared.state.lock();
        let versions = &state.versions;
        let value_log = value_log(&versions.segments, state.gc.quarantined.len());
        (versions.pending() as u64, versions.retained(), versions.obsolete_files.waiting() as u64, value_log)
    };
    let statistics = Statistics {
        place: shared.storage.name(),
        layout: shared.storage.layout(),
        durability: shared.storage.durability_mode(),
        preset: shared.options.preset_name(),
        last_sequence: shared.visible().0,
        durable_sequence: shared.durable.load(Ordering::Acquire),
        levels: (0..LEVELS).map(level).collect(),
        free_bytes: shared.storage.free_bytes(),
        memtable_bytes: view.all_memtables().map(|mem| mem.charged_bytes()).sum(),
        memory: memory(shared.storage.budget()),
        sealed_memtables: view.sealed().map(|(_, memtables)| memtables.len() as u64).sum(),
        snapshots: shared.snapshots.len() as u64,
        pending_edits,
        retained_wal_bytes: retained.log_bytes,
        shadow_bytes: retained.shadow_bytes,
        value_log,
        pending_deletions,
        torn_wals: shared.torn_wals,
        lost_files: shared.lost_files,
        unsynced: shared.storage.unsynced(),
        reads: ReadStatistics { storage_reads: shared.storage.budget().storage_reads(), ..ReadStatistics::default() },
        uptime: shared.clock.now(),
        ..Statistics::default()
    };
    statistics.counted(&shared.stats, shared.storage.io_stats())
}

/// One level of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelInfo {
    /// The number of the level. Level 0 has the newest entries.
    pub level: usize,
    /// The tables: in level 0 the newest first, in deeper levels in key order.
    pub tables: Vec<TableInfo>,
}

/// One SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The file number of the table.
    pub number: u64,
    /// The size of the table in bytes.
    pub bytes: u64,
    /// The first user key of the table.
    pub smallest: Vec<u8>,
    /// The last user key of the table.
    pub largest: Vec<u8>,
    /// Whether `largest` is an exclusive bound, because it is the end of a range tombstone of the
    /// table.
    pub largest_excluded: bool,
    /// The number of the table's sorted run in a level below level 0. Tables of one run do not
    /// overlap, and a run with a larger number has newer entries. The number is 0 in a leveled
    /// tree.
    pub run: u64,
}

/// Returns the levels of one column family.
pub(super) fn layout(tree: &Version) -> Vec<LevelInfo> {
    let info = |table: &Arc<TableRef>| TableInfo {
        number: table.meta.id.0,
        bytes: table.meta.bytes,
        smallest: table.smallest().to_vec(),
        largest: table.largest().to_vec(),
        largest_excluded: key::apart(&table.meta.largest).seq == SeqNo::MAX,
        run: table.meta.run,
    };
    let levels = tree.levels.iter().enumerate();
    levels.map(|(level, l)| LevelInfo { level, tables: l.tables().map(info).collect() }).collect()
}

impl Db {
    /// Returns the levels and their SSTables, of the default column family;
    /// [`ColumnFamily::layout`](crate::ColumnFamily::layout) returns those of another family.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// for level in db.layout() {
    ///     println!("level {}: {} tables", level.level, level.tables.len());
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn layout(&self) -> Vec<LevelInfo> {
        layout(&self.shared().view.load().version)
    }

    /// Returns the absolute path of the store's directory, if [`open`](Db::open) has opened the
    /// store. Returns `None` for a store without a directory of its own (in memory, on a device, or
    /// split), and after any other kind of open.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// assert_eq!(Db::open(&path, Options::default())?.directory(), Some(&*path));
    /// assert_eq!(Db::open_in_memory(Options::default())?.directory(), None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn directory(&self) -> Option<&Path> {
        self.shared().directory.get().map(PathBuf::as_path)
    }

    /// Returns the state of the store, and counters since the store was opened. In a forked child
    /// process the call returns only the path, the preset and the sequence numbers.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// assert!(db.statistics().memtable_bytes > 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        let shared = self.shared();
        if !shared.process.is_current() {
            return self.inherited_statistics();
        }
        statistics(shared)
    }

    /// Returns the values that a forked child can read without a lock. A thread of the parent
    /// process may have held any lock at the fork, so the child must not take one.
    fn inherited_statistics(&self) -> Statistics {
        Statistics {
            place: self.shared().storage.name(),
            preset: self.shared().options.preset_name(),
            last_sequence: self.last_sequence(),
            durable_sequence: self.durable_sequence(),
            ..Statistics::default()
        }
    }
}
