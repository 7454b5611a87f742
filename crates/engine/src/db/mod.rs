//! The face. Opens and closes a store here; the calls on it are `write`, `read` and `report`, each of which checks its
//! arguments and hands them to the part that does the work.
mod by_hand;
mod copy;
mod durable;
mod ingest;
mod property;
mod read;
mod report;
mod ticks;
mod updates;
mod upkeep;
mod write;

use crate::{
    Collection, Error, Options, Result,
    clock::Clock,
    closed_logs::ClosedLogs,
    compact::leveled::Leveled,
    jobs::{compact, flush, release},
    mem::MemTable,
    read::view::View,
    recover,
    reserve::Reserve,
    state::{Control, Jobs, Shared},
    stats::Counters,
    work::{Executor, Lane, Work},
    write::{Own, Writes},
};
use arc_swap::ArcSwap;
pub use copy::Copied;
pub use durable::Durable;
pub use ingest::Ingested;
use parking_lot::{Condvar, Mutex};
pub use report::{LevelInfo, TableInfo};
use std::{
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use terrace_format::{Values, batch::Batch, range_deletes};
use terrace_storage::{
    Location, Memory,
    placement::{Mode, ObjectId, Placement},
};
use ticks::{Ticks, Waiting};
pub use upkeep::Checkpoint;

/// An open store. Clones are handles on the same one; use it from any thread.
///
/// # Errors
/// Every writing call answers [`Error::ReadOnly`] in a store opened for reading only, [`Error::Closed`] after a close, and
/// [`Error::FailStopped`] after a failed write, sync or background job, whose own error went to whoever waited for it.
/// Reads go on in all three cases. Opening answers [`Error::InUse`] while somebody else writes, [`Error::Missing`] where a
/// store, or a file that it names, is not there, and [`Error::Corrupt`] where bytes cannot be what was written.
///
/// Dropping the last handle without [`close`](Db::close) is as killing the process: nothing acknowledged is lost, but
/// what was not synced would not survive a power cut.
///
/// ```
/// # use terrace::{Db, Options};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "value")?;
/// let same = db.clone();
/// std::thread::spawn(move || same.put("other", "value")).join().unwrap()?;
/// assert_eq!(db.get("other")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// `None` in a store opened for reading only.
    writes: Option<Arc<Writes>>,
}

impl Inner {
    /// Ends background work. Whoever still waits for some of it hears that the store is closed.
    fn end(&self) {
        let mut control = self.shared.control.lock();
        control.closed = true;
        self.shared.tell_writers(&control);
        drop(control);
        self.shared.changed.notify_all();
        self.shared.work.stop();
        self.shared.waiters.wake(u64::MAX);
        self.shared.placement.budget().empty();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes every visible write durable, unless nothing is promised here.
fn make_durable(shared: &Arc<Shared>, writes: &Writes) -> Result<()> {
    let durable = shared.durable.load(Ordering::Acquire) >= shared.visible().0;
    if durable || !shared.placement.promises() {
        return Ok(());
    }
    writes.write(shared, Own::Many(Batch::new()), true).map(drop)
}

/// What `path` is, once it is sure that `options` allow it.
fn locate(path: &Path, options: &Options) -> Result<Location> {
    let location = Location::at(path);
    let wanted = match location {
        Location::Split(_) => None,
        _ if options.split => Some((
            "split=true asks for a directory that goes with a device",
            "terrace raw format DEVICE --meta DIRECTORY` makes",
        )),
        Location::Directory(_) if options.device => {
            Some(("device=true asks for a device, or a file in its place", "terrace raw format` prepares"))
        }
        _ => None,
    };
    match wanted {
        Some((asked, how)) => Err(Error::Invalid(format!("{asked}, and {} is none; `{how} one", path.display()))),
        None => Ok(location),
    }
}

impl Db {
    /// Opens the store in directory `path` for reading and writing; makes it if `options` say so. A path of a block device, or of a
    /// regular file, that was prepared for a store is one, too.
    ///
    /// # Errors
    /// As of [opening](Db#errors); [`Error::Invalid`] names every option that is out of bounds, [`Error::Unsupported`] what the store has and
    /// this version, or these options, do not.
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
        let mode = if options.create_if_missing { Mode::Create } else { Mode::Write };
        let placement = terrace_storage::open(&location, mode, options.durability, &options.setup())?;
        Db::open_on(placement, options)
    }

    /// Opens the store in directory, or on device, `path` for reading only, together with other readers but no writer. Replays logs in
    /// memory; creates, changes and removes nothing, and works on a read-only file system.
    ///
    /// # Errors
    /// As of [`open`](Db::open).
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
        let placement = terrace_storage::open(&location, Mode::ReadOnly, options.durability, &options.setup())?;
        Db::build(placement.into(), options, Executor::Threads, true)
    }

    /// A new store in memory; it ends with its last handle.
    ///
    /// # Errors
    /// [`Error::Invalid`] names every option that is out of bounds; [`Error::Unsupported`] for options that need a device.
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
        Db::open_on(terrace_storage::open(&location, Mode::Create, options.durability, &options.setup())?, options)
    }

    /// Opens the store that `placement`, which is open for writing, holds. `options.durability` is the placement's matter.
    ///
    /// # Errors
    /// As of [`open`](Db::open).
    ///
    /// ```
    /// # use terrace::{Db, Options, Tier};
    /// use terrace_storage::{Location, Memory, placement::Mode};
    /// let options = Options::default();
    /// let place = Location::Memory(Memory::new()); // clones show the same files
    /// for _ in 0..2 {
    ///     let placement = terrace_storage::open(&place, Mode::Create, Tier::Sync, &options.setup())?;
    ///     Db::open_on(placement, options.clone())?.put("key", "value")?;
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_on(placement: Box<dyn Placement>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(placement.into(), options, Executor::Threads, false)
    }

    /// As [`open_on`](Db::open_on), but nothing happens in the background: the caller runs it by [`step`](Db::step).
    /// For tests that need to know what happens when.
    ///
    /// # Errors
    /// As of [`open`](Db::open).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// use terrace_storage::{Location, Memory, placement::Mode};
    /// let mut options = Options::default();
    /// options.memtable_bytes = 64 << 10;
    /// let place = Location::Memory(Memory::new());
    /// let placement = terrace_storage::open(&place, Mode::Create, options.durability, &options.setup())?;
    /// let db = Db::open_manual(placement, options)?;
    /// db.put("key", vec![0; 64 << 10])?;
    /// db.put("another", "")?; // the first filled the memtable, which waits now
    /// assert_eq!(db.statistics().sealed_memtables, 1);
    /// assert_eq!(db.step(0), Some("flush"));
    /// assert_eq!(db.statistics().sealed_memtables, 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_manual(placement: Box<dyn Placement>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(placement.into(), options, Executor::Manual, false)
    }

    fn build(placement: Arc<dyn Placement>, options: Options, executor: Executor, read_only: bool) -> Result<Db> {
        let mut found = match recover::open(&*placement, &options, read_only) {
            Err(full) if full.is_no_space() && !read_only => {
                recover::make_space(&*placement, &options)?;
                recover::open(&*placement, &options, read_only)?
            }
            found => found?,
        };
        let order = options.order().clone();
        let values_apart = placement.shape().values == Values::Log;
        let (mem, manifest, writes, orphans) = match found.writer {
            Some(w) => {
                let filter_bytes = options.memtable_filter_bytes();
                let mem = Arc::new(MemTable::new(order.clone(), w.log, filter_bytes, placement.budget()));
                if values_apart {
                    found.versions.retire.pin_log(&mem);
                }
                let writes = Writes::new(w.wal, found.last, mem.clone());
                (Some(mem), Some(w.manifest), Some(Arc::new(writes)), w.orphans)
            }
            None => (None, None, None, Vec::new()),
        };
        // Weak, as with ticks: a job must not keep what it is a part of.
        let weak = writes.as_ref().map(Arc::downgrade);
        let put_again = move |shared: &Arc<Shared>| match weak.as_ref().and_then(Weak::upgrade) {
            Some(writes) => match writes.put_again(shared) {
                Err(Error::Closed) => {
                    shared.control.lock().collecting.putting = false; // it will be begun anew
                    Ok(())
                }
                outcome => outcome,
            },
            None => Ok(()), // closed
        };
        let view = View { mem, sealed: found.memtables, version: found.versions.live().clone() };
        let control = Control {
            versions: found.versions,
            busy: Default::default(),
            flushing: false,
            releasing: false,
            copies: Arc::default(),
            calm_since: None,
            seek_hint: None,
            collecting: Default::default(),
            failed: None,
            closing: false,
            closed: false,
        };
        let shared = Arc::new(Shared {
            order,
            deletes_ranges: found.requires.iter().any(|feature| feature == range_deletes::FEATURE),
            requires: found.requires,
            values_apart,
            torn_logs: found.set_aside.len() as u64,
            clock: Clock::start(),
            work: Work::new(executor),
            jobs: Jobs {
                flush: flush::run,
                compact: compact::run,
                release: release::run,
                release_now: release::now,
                put_again: Box::new(put_again),
            },
            reserve: Reserve::new(options.reserve_bytes),
            rate: Mutex::default(),
            policy: Box::new(Leveled),
            stats: Counters::default(),
            snapshots: Arc::default(),
            closed_logs: ClosedLogs::default(),
            view: ArcSwap::from_pointee(view),
            news: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            starving: AtomicUsize::new(0),
            visible: AtomicU64::new(found.last.0),
            durable: AtomicU64::new(0),
            waiters: Default::default(),
            manifest: Mutex::new(manifest),
            control: Mutex::new(control),
            changed: Condvar::new(),
            placement,
            options,
        });
        let db = Db { inner: Arc::new(Inner { shared, writes }) };
        if !read_only {
            db.start(&orphans)?;
        }
        Ok(db)
    }

    fn start(&self, orphans: &[ObjectId]) -> Result<()> {
        let shared = self.shared();
        release::remove(shared, orphans);
        let tables: Vec<_> = shared.view.load().version.tables().map(|(_, table)| table.meta.clone()).collect();
        if shared.placement.trim(&tables).is_err() {
            shared.stats.removal_failed();
        }
        match shared.reserve.take(&*shared.placement) {
            Err(full) if full.is_no_space() => {} // a release will take it
            taken => taken?,
        }
        shared.durable_up_to(shared.visible()); // recovery made the whole history durable
        let ticks = Ticks::new(shared, self.inner.writes.as_ref());
        let (period, tick) = (ticks.period(), move || ticks.tick());
        let collects = shared.values_apart && shared.options.collection == Collection::Tail;
        let started = shared.work.start(shared.options.compactions_max as usize, collects, period, tick);
        started.map_err(|source| Error::Io {
            op: "start threads for",
            object: shared.placement.name(),
            source: source.into(),
        })?;
        shared.schedule(&mut shared.control.lock());
        Ok(())
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    fn writes(&self) -> Result<&Writes> {
        match &self.inner.writes {
            Some(writes) => Ok(writes),
            None => Err(Error::ReadOnly),
        }
    }

    /// Makes everything written durable and ends background work. Other handles then refuse to write; the directory stays
    /// locked until they, and cursors and scans that are still alive, are dropped.
    ///
    /// # Errors
    /// What kept the last writes from becoming durable; the store is closed all the same.
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.put("key", "value"), Err(Error::Closed)));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        let settled = self.inner.writes.as_ref().map_or(Ok(()), |writes| self.settle(writes));
        self.inner.end();
        if self.inner.writes.is_some() {
            self.remove_unneeded();
        }
        settled
    }

    /// Jobs and readers may have let go of something since the last release.
    fn remove_unneeded(&self) {
        let shared = self.shared();
        let removable = shared.control.lock().versions.removable();
        release::remove(shared, &removable);
    }

    fn settle(&self, writes: &Writes) -> Result<()> {
        let shared = self.shared();
        shared.control.lock().closing = true;
        let released = self.release_all(); // first, so that logs whose entries are in tables need no sync
        let synced = writes.write(shared, Own::Many(Batch::new()), true);
        released?;
        synced?;
        self.release_all()
    }

    fn release_all(&self) -> Result<()> {
        let shared = self.shared();
        shared.placement.commit()?;
        shared.wait_until(|control| control.versions.pending() == 0)
    }

    /// Removes the store in directory, or on device, `path`: its own files and nothing else. Fine if there is none; refused while it is
    /// open.
    ///
    /// # Errors
    /// [`Error::InUse`] while it is open; [`Error::Io`] for what could not be removed.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// Db::open(&path, Options::default())?.close()?;
    /// Db::destroy(&path)?;
    /// assert!(!path.exists());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Ok(terrace_storage::destroy(&Location::at(path.as_ref()))?)
    }

    /// Returns when no background work is left: nothing to flush, nothing due for compaction or collection, no edit unreleased.
    ///
    /// # Errors
    /// As of [every write](Db#errors).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// db.wait_idle()?;
    /// assert_eq!(db.statistics().pending_edits, 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn wait_idle(&self) -> Result<()> {
        let shared = self.shared();
        self.writes()?;
        let waiting = Waiting::begin(shared); // also, readers may have let go of what a collection waits for
        loop {
            shared.wait_until(|control| {
                let putting = control.collecting.putting && !shared.work.is_manual();
                let quiet = !control.flushing && !control.releasing && control.busy.is_empty() && !putting;
                quiet && control.versions.pending() == 0 && shared.view.load().sealed.is_empty()
            })?;
            if shared.work.step_in(Lane::Collect).is_none() {
                break;
            }
        }
        drop(waiting);
        self.remove_unneeded();
        Ok(())
    }

    /// Runs one waiting background job of a store opened by [`open_manual`](Db::open_manual), the `pick`-th modulo their
    /// number, and tells its name; `None` if none waits.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// use terrace_storage::{Location, Memory, placement::Mode};
    /// let options = Options::default();
    /// let place = Location::Memory(Memory::new());
    /// let placement = terrace_storage::open(&place, Mode::Create, options.durability, &options.setup())?;
    /// let db = Db::open_manual(placement, options)?;
    /// while let Some(job) = db.step(0) {
    ///     println!("{job}");
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn step(&self, pick: u64) -> Option<&'static str> {
        self.shared().work.step(pick)
    }
}
