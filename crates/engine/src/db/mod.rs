//! The face. A store is closed here and opened in `open`; the calls on it are `write`, `read` and `report`, each of which checks its
//! arguments and hands them to the part that does the work.
mod checkpoint;
mod copy;
mod delete_range;
mod durable;
mod idle_timer;
mod ingest;
mod manual_compaction;
mod open;
mod property;
mod read;
mod report;
mod updates;
mod write;

use crate::{
    Error, Result,
    jobs::commit_edits,
    state::DbInner,
    work::Lane,
    write::{WritePath, WriteRequest},
};
pub use checkpoint::Checkpoint;
pub use copy::Copied;
pub use durable::Durable;
use idle_timer::IdleWait;
pub use ingest::Ingested;
pub use report::{LevelInfo, TableInfo};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};
use terrace_format::batch::Batch;
use terrace_storage::Location;

/// An open store. Clones are handles on the same one; use it from any thread.
///
/// # Errors
/// Every writing call answers [`Error::ReadOnly`] in a store opened for reading only, [`Error::Closed`] after a close, and
/// [`Error::FailStopped`] after a failed write, sync or background job, whose own error went to whoever waited for it.
/// Reads go on in all three cases. Every call answers [`Error::Forked`] in a child of the process that opened the store. Opening answers [`Error::InUse`] while somebody else writes, [`Error::Missing`] where a
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
    shared: Arc<DbInner>,
    /// `None` in a store opened for reading only.
    writes: Option<Arc<WritePath>>,
}

impl Inner {
    /// Ends background work. Whoever still waits for some of it hears that the store is closed.
    fn shut_down(&self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        self.shared.bump_stall_epoch(&state);
        drop(state);
        self.shared.changed.notify_all();
        self.shared.work.stop();
        self.shared.waiters.wake(u64::MAX);
        self.shared.storage.budget().empty();
    }
}

impl Drop for Inner {
    /// A forked child forgets what it has a copy of: to end it would wait for threads that it has not got, and cut the
    /// log that its parent goes on writing.
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            std::mem::forget((self.shared.clone(), self.writes.clone()));
            return;
        }
        self.shut_down();
    }
}

/// Makes every visible write durable, unless nothing is promised here.
fn make_durable(shared: &Arc<DbInner>, writes: &WritePath) -> Result<()> {
    let durable = shared.durable.load(Ordering::Acquire) >= shared.visible().0;
    if durable || !shared.storage.promises() {
        return Ok(());
    }
    writes.write(shared, WriteRequest::Batch(Batch::new()), true).map(drop)
}

impl Db {
    fn shared(&self) -> &Arc<DbInner> {
        &self.inner.shared
    }

    #[inline]
    fn writes(&self) -> Result<&WritePath> {
        self.shared().check_process()?;
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
        self.shared().check_process()?;
        let synced = self.inner.writes.as_ref().map_or(Ok(()), |writes| self.sync_for_close(writes));
        self.inner.shut_down();
        if self.inner.writes.is_some() {
            self.delete_obsolete_files();
        }
        synced
    }

    /// Jobs and readers may have let go of something since the last release.
    fn delete_obsolete_files(&self) {
        let shared = self.shared();
        let removable = shared.state.lock().versions.removable();
        commit_edits::delete_files(shared, &removable);
    }

    fn sync_for_close(&self, writes: &WritePath) -> Result<()> {
        let shared = self.shared();
        shared.state.lock().closing = true;
        let released = self.commit_all_edits(); // first, so that logs whose entries are in tables need no sync
        let synced = writes.write(shared, WriteRequest::Batch(Batch::new()), true);
        released?;
        synced?;
        self.commit_all_edits()
    }

    fn commit_all_edits(&self) -> Result<()> {
        let shared = self.shared();
        shared.storage.commit()?;
        shared.wait_until(|state| state.versions.pending() == 0)
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
        let waiting = IdleWait::begin(shared); // also, readers may have let go of what a collection waits for
        loop {
            shared.wait_until(|state| {
                let putting = state.gc.putting && !shared.work.is_manual();
                let quiet =
                    !state.flush_scheduled && !state.commit_scheduled && state.compactions.is_empty() && !putting;
                quiet && state.versions.pending() == 0 && shared.view.load().sealed.is_empty()
            })?;
            if shared.work.step_in(Lane::Relocate).is_none() {
                break;
            }
        }
        drop(waiting);
        self.delete_obsolete_files();
        Ok(())
    }

    /// Runs one waiting background job of a store opened by [`open_manual`](Db::open_manual), the `pick`-th modulo their
    /// number, and tells its name; `None` if none waits.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// use terrace_storage::{Location, Memory, placement::OpenMode};
    /// let options = Options::default();
    /// let place = Location::Memory(Memory::new());
    /// let placement = terrace_storage::open(&place, OpenMode::Create, options.durability, &options.setup())?;
    /// let db = Db::open_manual(placement, options)?;
    /// while let Some(job) = db.step(0) {
    ///     println!("{job}");
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn step(&self, pick: u64) -> Option<&'static str> {
        self.shared().check_process().ok()?;
        self.shared().work.step(pick)
    }
}
