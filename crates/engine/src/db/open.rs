//! Opens a store: recovers its history and starts its background work.
use super::{Db, Inner, idle_timer::IdleTimer};
use crate::{
    CompactionStyle, Error, Event, Options, Result,
    clock::Clock,
    closed_wals::ClosedWals,
    compact::policy_of,
    jobs::{commit_edits, compact, flush},
    mem::MemTable,
    read::view::View,
    recover,
    reserve::Reserve,
    state::{DbInner, DbState, Jobs},
    stats::Counters,
    version::set::VersionSet,
    work::{Executor, Work},
    write::WritePath,
};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::{
    path::{self, Path},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use terrace_format::{Values, range_tombstones};
use terrace_storage::{
    Location, Memory, Process,
    placement::{ObjectId, OpenMode, Storage},
};

/// The minimum number of runs in an intra-L0 compaction of a store with universal compaction, if
/// the option `intra_l0_compaction_trigger` is 0.
const INTRA_L0_RUNS: u64 = 4;

/// The number of stores that were opened in this process.
static INSTANCES: AtomicU64 = AtomicU64::new(0);

impl Db {
    /// Opens the store in the directory `path` for reading and writing. If there is no store, the
    /// call creates one if `options` allow this. `path` may also be a block device, or a regular
    /// file, that was formatted for a store.
    ///
    /// # Errors
    /// The errors of [an open](Db#errors). [`Error::Invalid`] names every option that is out of
    /// bounds. [`Error::Unsupported`] names a feature of the store that this version of Terrace,
    /// or these options, do not support.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// let db = Db::open(&path, Options::default())?;
    /// db.put("key", "value")?;
    /// db.close()?;
    /// assert_eq!(Db::open(&path, Options::default())?.get("key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        let location = locate(path.as_ref(), &options)?;
        let mode = if options.create_if_missing { OpenMode::Create } else { OpenMode::Write };
        let storage = terrace_storage::open(&location, mode, options.durability, &options.setup())?;
        let db = Db::open_on(storage, options)?;
        if let Location::Directory(path) = location
            && let Ok(path) = path::absolute(path)
        {
            let _ = db.shared().directory.set(path);
        }
        Ok(db)
    }

    /// Opens the store in the directory, or on the device, `path` for reading only. Other readers
    /// may have the store open at the same time, but no writer. The open replays WALs in memory.
    /// It creates, changes and removes no file, so it works on a read-only file system.
    ///
    /// # Errors
    /// The errors of [`open`](Db::open).
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// Db::open(&path, Options::default())?.close()?;
    /// let db = Db::open_read_only(&path, Options::default())?;
    /// assert_eq!(db.get("key")?, None);
    /// assert!(matches!(db.put("key", "value"), Err(Error::ReadOnly)));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        let location = locate(path.as_ref(), &options)?;
        let storage = terrace_storage::open(&location, OpenMode::ReadOnly, options.durability, &options.setup())?;
        Db::build(storage.into(), options, Executor::Threads, Access::Read)
    }

    /// Opens a new store in memory. The store is lost when its last handle is dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] names every option that is out of bounds; [`Error::Unsupported`] for
    /// options that need a device.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_in_memory(options: Options) -> Result<Db> {
        options.validate()?;
        let location = Location::Memory(Memory::new());
        Db::open_on(terrace_storage::open(&location, OpenMode::Create, options.durability, &options.setup())?, options)
    }

    /// Opens the store in `storage`, which is open for writing. The storage determines the
    /// durability mode; `options.durability` has no effect.
    ///
    /// # Errors
    /// The errors of [`open`](Db::open).
    ///
    /// ```
    /// # use terrace::{Db, Options, DurabilityMode};
    /// use terrace_storage::{Location, Memory, placement::OpenMode};
    /// let options = Options::default();
    /// let place = Location::Memory(Memory::new()); // clones show the same files
    /// for _ in 0..2 {
    ///     let placement = terrace_storage::open(&place, OpenMode::Create, DurabilityMode::Sync, &options.setup())?;
    ///     Db::open_on(placement, options.clone())?.put("key", "value")?;
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_on(storage: Box<dyn Storage>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(storage.into(), options, Executor::Threads, Access::Write)
    }

    /// Works like [`open_on`](Db::open_on), but starts no background threads: the caller runs
    /// background jobs by [`step`](Db::step). Tests use this to control the order of jobs.
    ///
    /// # Errors
    /// The errors of [`open`](Db::open).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// use terrace_storage::{Location, Memory, placement::OpenMode};
    /// let mut options = Options::default();
    /// options.write_buffer_size = 64 << 10;
    /// let place = Location::Memory(Memory::new());
    /// let placement = terrace_storage::open(&place, OpenMode::Create, options.durability, &options.setup())?;
    /// let db = Db::open_manual(placement, options)?;
    /// db.put("key", vec![0; 64 << 10])?;
    /// db.put("another", "")?; // the first filled the memtable, which waits now
    /// assert_eq!(db.statistics().sealed_memtables, 1);
    /// assert_eq!(db.step(0), Some("flush"));
    /// assert_eq!(db.statistics().sealed_memtables, 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_manual(storage: Box<dyn Storage>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(storage.into(), options, Executor::Manual, Access::Write)
    }

    pub(super) fn build(storage: Arc<dyn Storage>, options: Options, executor: Executor, access: Access) -> Result<Db> {
        let mut options = options.resolved();
        let read_only = access != Access::Write;
        let mut found = match recover::open(&*storage, &options, read_only) {
            Err(full) if full.is_no_space() && !read_only => {
                storage.reserve(0)?;
                // The checks of the history run before any file is changed: if the open refuses a
                // store, it keeps all files, because a repair may need them.
                recover::check_history(&*storage, &options)?;
                recover::make_space(&*storage, &options)?;
                recover::open(&*storage, &options, read_only)?
            }
            found => found?,
        };
        if options.compaction_style == CompactionStyle::Universal && options.intra_l0_compaction_trigger == 0 {
            // A universal store needs intra-L0 compactions: while older runs of level 0 are being
            // compacted, newer runs can only be merged with each other.
            options.intra_l0_compaction_trigger = INTRA_L0_RUNS;
        }
        options.text_log = if options.info_log { storage.text_log().map(Arc::new) } else { None };
        if access == Access::Follow {
            // What looks like damage at the end of a WAL is a write in progress.
            found.damage.clear();
            found.set_aside.clear();
        }
        found.damage.drain(..).for_each(|damage| options.notify(|| Event::Damaged { damage }));
        let order = options.order().clone();
        let separates_values = storage.layout().values == Values::Log;
        let (mem, manifest, writes, orphans) = match found.writer {
            Some(w) => {
                let filter_bytes = options.memtable_filter_bytes();
                let mem = Arc::new(MemTable::new(order.clone(), w.log, filter_bytes, storage.budget()));
                if separates_values {
                    found.versions.obsolete_files.pin_wal(&mem);
                }
                let writes = WritePath::new(w.wal, found.last, mem.clone());
                (Some(mem), Some(w.manifest), Some(Arc::new(writes)), w.orphans)
            }
            None => (None, None, None, Vec::new()),
        };
        let view = View {
            mem,
            sealed: found.memtables,
            version: found.versions.live().clone(),
            families: Arc::new(found.family_memtables),
        };
        let shared = Arc::new(DbInner {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            order,
            has_range_tombstones: found.requires.iter().any(|feature| feature == range_tombstones::FEATURE),
            requires: found.requires,
            separates_values,
            process: Process::current(),
            torn_wals: found.set_aside.len() as u64,
            lost_files: storage.lost()?.len() as u64,
            clock: Clock::start(),
            work: Work::new(executor),
            jobs: jobs(writes.as_ref()),
            reserve: Reserve::new(options.reserve_bytes),
            rate: Mutex::default(),
            policy: policy_of(&options),
            stats: Counters::default(),
            snapshots: Arc::default(),
            closed_wals: ClosedWals::default(),
            view: ArcSwap::from_pointee(view),
            stall_epoch: AtomicU64::new(0),
            space_freed: AtomicU64::new(0),
            directory: OnceLock::new(),
            last_free_bytes: AtomicU64::new(u64::MAX),
            space_turn: Mutex::new(()),
            jobs_out_of_space: AtomicUsize::new(0),
            visible: AtomicU64::new(found.last.0),
            durable: AtomicU64::new(0),
            kill_safe: AtomicU64::new(found.last.0),
            waiters: Default::default(),
            manifest: Mutex::new(manifest),
            state: Mutex::new(initial_state(found.versions)),
            changed: Condvar::new(),
            #[cfg(test)]
            picks: AtomicU64::new(0),
            storage,
            options,
        });
        let db = Db { inner: Arc::new(Inner { shared, writes }) };
        if !read_only {
            db.start(&orphans)?;
            db.log_opened();
        }
        Ok(db)
    }

    /// Writes the properties of the opened store to the information log, the file `LOG`.
    fn log_opened(&self) {
        let shared = self.shared();
        shared.options.log(|| {
            let view = shared.view.load();
            let (preset, tables) = (shared.options.preset_name(), view.version.all_tables().count());
            let (last, version) = (shared.visible(), env!("CARGO_PKG_VERSION"));
            format!("opened by Terrace {version}, preset {preset}: {tables} SSTables, last sequence {last}")
        });
        if shared.lost_files > 0 {
            let text = "kept in lost/, with bytes that are no part of the history; see `terrace lost list`";
            shared.options.log(|| format!("{} WALs are {text}", shared.lost_files));
        }
    }

    fn start(&self, orphans: &[ObjectId]) -> Result<()> {
        let shared = self.shared();
        commit_edits::delete_files(shared, orphans);
        let tables: Vec<_> = shared.view.load().version.all_tables().map(|(_, table)| table.meta.clone()).collect();
        if shared.storage.trim(&tables).is_err() {
            shared.stats.deletion_failed();
        }
        match shared.reserve.allocate(&*shared.storage) {
            Err(full) if full.is_no_space() => {} // a later commit will allocate it
            taken => taken?,
        }
        shared.advance_durable(shared.visible()); // recovery made the whole history durable
        let timer = IdleTimer::new(shared, self.inner.writes.as_ref());
        let (period, tick) = (timer.period(), move || timer.tick());
        let started = shared.work.start(shared.options.max_background_compactions as usize, period, tick);
        started.map_err(|source| Error::Io {
            op: "start threads for",
            object: shared.storage.name(),
            source: source.into(),
        })?;
        shared.free_bytes(); // the compaction policy uses the last measurement
        shared.schedule(&mut shared.state.lock());
        Ok(())
    }
}

/// How a handle uses its store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
    /// Reads while another process writes the store.
    Follow,
}

/// Returns the location of the store at `path`, if `options` allow a store of that kind.
pub(super) fn locate(path: &Path, options: &Options) -> Result<Location> {
    let location = Location::at(path);
    let wanted = match location {
        Location::Split(_) => None,
        _ if options.split => Some((
            "split=true needs a directory that belongs to a device",
            "terrace raw format DEVICE --meta DIRECTORY` creates",
        )),
        Location::Directory(_) if options.device => {
            Some(("device=true needs a device, or a file formatted like one", "terrace raw format` prepares"))
        }
        _ => None,
    };
    match wanted {
        Some((asked, how)) => Err(Error::Invalid(format!("{asked}, and {} is none; `{how} one", path.display()))),
        None => Ok(location),
    }
}

/// Returns the background jobs.
fn jobs(writes: Option<&Arc<WritePath>>) -> Jobs {
    // A job has only weak references to the write path, because a job must not keep its own store
    // open.
    let weak = writes.map(Arc::downgrade);
    let relocate = move |shared: &Arc<DbInner>| match weak.as_ref().and_then(Weak::upgrade) {
        Some(writes) => match writes.relocate(shared) {
            Err(Error::Closed) => {
                shared.state.lock().gc.relocating = false; // the next open starts it again
                Ok(())
            }
            outcome => outcome,
        },
        None => Ok(()), // the store was dropped
    };
    Jobs {
        flush: flush::run,
        compact: compact::run,
        commit_edits: commit_edits::run,
        commit_edits_now: commit_edits::run_now,
        relocate: Box::new(relocate),
    }
}

/// Returns the state of a store after recovery.
fn initial_state(versions: VersionSet) -> DbState {
    DbState {
        versions,
        sealed: 0,
        compactions: Default::default(),
        flush_scheduled: false,
        commit_scheduled: false,
        commit_epoch: 0,
        checkpoints: Arc::default(),
        no_jobs_since: None,
        optional_suspended: false,
        seek_hint: None,
        dropping: None,
        gc: Default::default(),
        failed: None,
        replacing_wal: false,
        closing: false,
        closed: false,
    }
}
