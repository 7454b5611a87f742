//! A store in a directory of files, with LevelDB's file names.
//!
//! ```text
//! Files (this file) ─┬─ store.rs              shared state: file system, file names, tracker
//!                    ├─ log.rs  segment.rs    WAL, manifest, value-log segments
//!                    ├─ build.rs  bundle.rs   outputs of flush and compaction jobs
//!                    ├─ tables.rs  find.rs    open SSTables
//!                    └─ root.rs  adopt.rs     CURRENT, format file, lost/, files of other stores
//! ```
//! WALs, manifests and the root are synced by their own code. Finished tables are synced by the
//! durability tracker.
use crate::{
    Adopted, Budget, Error, IoStats, Result, StorageConfig, SyncKind, TableFile,
    backends::{
        descriptors,
        shares::{Closes, Share, wait_for_fits},
    },
    durability::{DurabilityTracker, Finished, sync_directory},
    placement::{
        Durability, Hint, Limits, Listed, LogKind, LogReader, LogStore, LogWriter, ObjectId, ObjectStore, OpenMode,
        RootStore, Salvage, SegmentReader, SegmentWriter, StoreInfo, Table, TableMeta, TableSink, TableStore,
        ValueStore,
    },
    tables::sst::SstSalvager,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Instant,
};
use terrace_format::{Layout, LogId, TableId, Values, names::FileName};
use terrace_vfs::{FileSystem, LockHeld, TextLog};

mod adopt;
pub(super) mod build;
mod bundle;
mod bundles;
mod find;
mod input;
mod log;
pub(crate) mod root;
mod segment;
mod store;
pub(super) mod tables;
mod unsettled;

pub(super) use input::Input;

/// The interface of file systems.
pub mod fs {
    pub use terrace_vfs::{DirEntry, FileSystem, FileUse, ReadFile, WriteFile};
}

/// Folders below a directory.
pub mod folders {
    pub use terrace_vfs::{Folders, Inside, Room, inside};
}

/// Directories of the operating system.
pub mod real {
    pub use terrace_vfs::RealFs;
}

pub(super) use find::{find_table, open_input};
pub(super) use store::{Store, lock_error};
use tables::Tables;
use unsettled::Unsettled;

/// A store in a directory of files.
pub struct Files {
    pub(super) store: Arc<Store>,
    tables: Arc<Tables>,
}

impl Files {
    /// Opens the store in `fs`, which has layout `layout`; see [`open`](crate::open).
    pub fn open(
        fs: Arc<dyn FileSystem>,
        mode: OpenMode,
        tracker: Arc<dyn DurabilityTracker>,
        setup: &StorageConfig,
        layout: Layout,
    ) -> Result<Files> {
        let io_stats = IoStats::default();
        let directory = fs.exists().map_err(|e| Error::io("look for", fs.name(), e))?;
        let there = directory && mode != OpenMode::Salvage && root::is_there(&*fs)?;
        match mode {
            OpenMode::Create if !there => root::make_directory(&*fs, &io_stats)?,
            OpenMode::Write | OpenMode::ReadOnly | OpenMode::Follow if !there => {
                let why = if directory { "no file CURRENT" } else { "no such directory" };
                return Err(Error::Missing { what: "store", object: format!("{} ({why})", fs.name()) });
            }
            OpenMode::Salvage if !directory => return Err(Error::Missing { what: "directory", object: fs.name() }),
            _ => {}
        }
        // A follower does not even open the lock file: to close it would release a lock that
        // LevelDB holds in this process.
        let lock = if mode == OpenMode::Follow { Ok(Box::new(()) as _) } else { fs.lock(mode.writes()) };
        let lock = lock.or_else(|refused: std::io::Error| {
            // The lock on the directory may be held by a store of this process that was closed but
            // is not dropped yet, because another store of this process refers to it for a moment
            // (see `shares.rs`). This open waits until no such reference exists and takes the lock
            // again. If a LevelDB in this process holds the lock, there is no second attempt: the
            // first attempt closed the lock file, which released LevelDB's lock, so a second
            // attempt would succeed.
            let held = refused.get_ref().and_then(|reason| reason.downcast_ref::<LockHeld>());
            if !held.is_some_and(|held| held.may_be_here) {
                return Err(refused);
            }
            wait_for_fits();
            fs.lock(mode.writes())
        });
        let lock = lock.map_err(|e| lock_error(fs.name(), e))?;
        let waiting_max = descriptors::for_waiting(setup, descriptors::open_files_max(&*fs));
        let of_process = descriptors::open_files_max(&*fs).filter(|_| fs.directory().is_some());
        let store = Arc::new(Store {
            share: Share::new(setup, layout, of_process),
            fs,
            tracker,
            setup: setup.clone(),
            layout,
            bundles: Default::default(),
            io_stats,
            mode,
            unsettled: Unsettled::default(),
            waiting_max,
            held: AtomicUsize::new(0),
            old_names: Mutex::default(),
            lock,
        });
        let find = {
            let store = store.clone();
            move |meta: &TableMeta| open_input(&store, meta)
        };
        let tables = Tables::new(store.clone(), Budget::new(setup), Box::new(find));
        let tables = Arc::new(tables);
        let holder: Weak<dyn Closes> = Arc::<Tables>::downgrade(&tables);
        store.share.holds(holder);
        Ok(Files { store, tables })
    }
}

impl StoreInfo for Files {
    fn name(&self) -> String {
        self.store.fs.name()
    }

    fn layout(&self) -> Layout {
        self.store.layout
    }

    fn place_of(&self, object: ObjectId) -> String {
        if let ObjectId::Table(id) = object
            && let Some(within) = self.store.bundles.find(id)
        {
            return format!("{} (table {id})", self.store.path(&bundle::name(within.bundle)));
        }
        self.store.path(&self.store.name_on_disk(object))
    }

    fn limits(&self) -> Limits {
        Limits { key_bytes_max: u64::from(u32::MAX) - 16, value_bytes_max: u64::from(u32::MAX) }
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.tables.budget
    }

    fn io_stats(&self) -> &IoStats {
        &self.store.io_stats
    }

    fn text_log(&self) -> Option<TextLog> {
        self.store.fs.directory().filter(|_| self.store.mode.writes()).map(TextLog::start)
    }
}

impl LogStore for Files {
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>> {
        log::create(self.store.clone(), &self.store.log_name(id, kind), kind, first)
    }

    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>> {
        log::open(&self.store, &self.store.log_name(id, kind), kind)
    }

    fn prepare_replay(&self, log: LogId) -> Result<()> {
        // Tables point into WALs only in a store with a value log, so only such a store must make
        // the WAL durable here. Any other store replays WALs into new tables.
        let points = self.store.layout.values == Values::Log && self.store.mode.writes();
        if points { segment::settle(&self.store, ObjectId::Wal(log)) } else { Ok(()) }
    }

    fn closed_wals_max(&self) -> usize {
        self.store.waiting_max
    }
}

impl ValueStore for Files {
    fn create_segment(&self, log: LogId) -> Result<Box<dyn SegmentWriter>> {
        segment::create(self.store.clone(), log)
    }

    fn wal_flushed(&self, log: LogId) {
        self.store.unsettled.release(ObjectId::Wal(log));
    }

    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        segment::open(&self.store, object)
    }
}

impl TableStore for Files {
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>> {
        build::begin(self.store.clone(), hint)
    }

    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>> {
        Ok(self.tables.open(meta)?)
    }

    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>> {
        let mut input = find_table(&self.store, table)?;
        input.end_at(table.bytes);
        Ok(Box::new(SstSalvager::new(Box::new(input), &self.store.setup, table)))
    }

    fn tables_in(&self, bundle: TableId) -> Result<Vec<TableMeta>> {
        bundle::tables_in(&self.store, bundle)
    }

    fn trim(&self, tables: &[TableMeta]) -> Result<()> {
        self.store.writable("trim")?;
        bundle::trim(&self.store, tables)
    }
}

impl RootStore for Files {
    fn publish_root(&self, manifest: LogId) -> Result<()> {
        root::publish(&self.store, manifest)
    }

    fn load_root(&self) -> Result<Option<LogId>> {
        root::load(&self.store)
    }

    fn publish_format_file(&self, text: &str) -> Result<()> {
        root::publish_format_file(&self.store, text)
    }

    fn load_format_file(&self) -> Result<Option<String>> {
        root::read_marker_of(&*self.store.fs)
    }
}

impl ObjectStore for Files {
    fn list(&self) -> Result<Vec<Listed>> {
        let (mut found, mut old_names) = (BTreeMap::new(), BTreeSet::new());
        for entry in self.store.fs.list().map_err(|e| Error::io("list", self.name(), e))? {
            let Some(name) = FileName::parse(&entry.name) else { continue };
            let ours = name.to_string() == entry.name;
            let object = match name {
                FileName::Table(id) => ObjectId::Table(id),
                FileName::Bundle(id) => ObjectId::Bundle(id),
                FileName::ValueLog(id) if self.store.layout.values == Values::Log => ObjectId::Wal(id),
                FileName::Log(id) if self.store.layout.values != Values::Log => ObjectId::Wal(id),
                FileName::Values(id) => ObjectId::Segment(id),
                FileName::Manifest(id) => ObjectId::Manifest(id),
                FileName::Temporary(number) => ObjectId::Temporary(number),
                FileName::WalSidecar(id) if self.store.layout.values == Values::Log => ObjectId::WalSidecar(id),
                // Logs and sidecars with these names belong to stores with another layout, so the
                // list of this store does not include them.
                FileName::Log(_) | FileName::ValueLog(_) | FileName::WalSidecar(_) => continue,
                FileName::Current
                | FileName::Lock
                | FileName::InfoLog
                | FileName::FormatFile
                | FileName::Reserve
                | FileName::Unsynced => continue,
            };
            // A table may exist under two file names. `open_table` first tries the name that
            // Terrace gives to new files. Therefore the list takes the file with that name if both
            // exist.
            if ours || !found.contains_key(&object) {
                found.insert(object, entry.bytes);
                if let ObjectId::Table(id) = object {
                    old_names.remove(&id);
                    old_names.extend((!ours).then_some(id));
                }
            }
        }
        *self.store.old_names.lock() = old_names;
        Ok(found.into_iter().map(|(object, bytes)| Listed { object, bytes }).collect())
    }

    fn remove(&self, object: ObjectId) -> Result<()> {
        self.store.writable("remove")?;
        if let ObjectId::Table(id) = object
            && bundle::remove(&self.store, id)?
        {
            return Ok(());
        }
        self.store.unsettled.forget(object);
        self.store.names(object).iter().try_for_each(|name| self.store.remove_name(name))
    }

    fn set_aside(&self, object: ObjectId) -> Result<()> {
        root::set_aside(&self.store, object)
    }

    fn lost(&self) -> Result<Vec<String>> {
        root::lost(&self.store)
    }

    fn file_of(&self, object: ObjectId) -> Result<TableFile> {
        let there = self.store.name_there(object);
        Ok(TableFile::new(self.store.fs.clone(), there.unwrap_or_else(|| self.store.name_of(object))))
    }

    fn adopt(&self, files: &[(TableFile, ObjectId)]) -> Result<Adopted> {
        adopt::adopt(&self.store, files)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.store.fs.capacity()?.free_bytes()
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.store.writable("reserve")?;
        let name = FileName::Reserve.to_string();
        let capacity = self.store.fs.capacity();
        capacity.map_or(Ok(()), |capacity| capacity.reserve(&name, bytes)).map_err(self.store.io("reserve", &name))
    }
}

impl Durability for Files {
    fn durability_mode(&self) -> &'static str {
        self.store.tracker.durability_mode()
    }

    fn promises(&self) -> bool {
        self.store.tracker.promises()
    }

    fn settle(&self, tables: &[TableMeta]) -> Result<()> {
        root::settle(&self.store, tables)
    }

    fn sync_manifest(&self, id: LogId) -> Result<()> {
        let name = self.store.log_name(id, LogKind::Manifest);
        let start = Instant::now();
        self.store.fs.sync_file(&name).map_err(self.store.io("sync", &name))?;
        self.store.io_stats.synced(SyncKind::Manifest, 0, start.elapsed());
        sync_directory(&*self.store.fs, &self.store.io_stats)
    }

    fn unsynced(&self) -> bool {
        self.store.fs.open(&FileName::Unsynced.to_string()).is_ok()
    }

    fn waits_for_fs_commit(&self) -> bool {
        self.store.tracker.waits_for_fs_commit()
    }

    /// Never cancels the sync of a table in a bundle, because the other tables of the bundle need
    /// the file.
    fn cancel_sync(&self, table: &TableMeta) -> Option<Finished> {
        if table.within.is_some() {
            return None;
        }
        self.store.tracker.cancel_sync(&self.store.path(&FileName::Table(table.id).to_string()))
    }

    fn advance(&self) -> Result<bool> {
        self.store.tracker.advance(&*self.store.fs, &self.store.io_stats)
    }

    fn commit(&self) -> Result<()> {
        self.store.tracker.commit(&*self.store.fs, &self.store.io_stats)
    }
}
