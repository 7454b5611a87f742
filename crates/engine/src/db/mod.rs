//! The public interface: [`Db`]. Its methods check their arguments and call the part of the engine
//! that does the work.
//!
//! - `open`: opens a store in a directory, in memory, or on a storage
//! - `follow`: opens a store that another process writes
//! - `write`, `delete_range`: writes and batches; flush and resume; sequence numbers and
//!   durability
//! - `durable`: a wait for durability in asynchronous code
//! - `read`: point lookups, scans, cursors, snapshots, approximate sizes
//! - `pairs`: ranges from both ends, counts, deletes of prefixes
//! - `column_family`: the families of a store, and reads and writes in them
//! - `manual_compaction`: compaction of a key range
//! - `ingest`, `copy`, `checkpoint`, `updates`: import and export of SSTables, copies, repair, and
//!   the feed of changes
//! - `report`, `property`: levels, statistics, LevelDB's properties
//! - this file: close, destroy, and the wait for background work
mod checkpoint;
mod column_family;
mod copy;
mod delete_range;
mod durable;
mod follow;
mod idle_timer;
mod ingest;
mod manual_compaction;
mod open;
mod pairs;
mod property;
mod read;
mod report;
#[cfg(test)]
mod tests;
mod updates;
mod write;

use crate::{
    Error, Result, info_log,
    jobs::commit_edits,
    state::DbInner,
    work::Lane,
    write::{WritePath, WriteRequest},
};
pub use checkpoint::Checkpoint;
pub use column_family::ColumnFamily;
pub use copy::Copied;
pub use durable::Durable;
use idle_timer::IdleWait;
pub use ingest::Ingested;
pub use report::{LevelInfo, TableInfo};
use std::{path::Path, sync::Arc};
use terrace_format::batch::Batch;
use terrace_storage::Location;

/// An open store. A clone is a handle to the same store. Handles may be used from any thread.
///
/// - Open: [`open`](Db::open), [`open_read_only`](Db::open_read_only),
///   [`open_in_memory`](Db::open_in_memory)
/// - Write: [`put`](Db::put), [`delete`](Db::delete), [`delete_range`](Db::delete_range),
///   [`write`](Db::write)
/// - Read: [`get`](Db::get), [`multi_get`](Db::multi_get), [`scan`](Db::scan),
///   [`cursor`](Db::cursor), [`snapshot`](Db::snapshot)
/// - Column families: [`open_cf`](Db::open_cf), [`create_cf`](Db::create_cf), [`cf`](Db::cf),
///   [`cf_names`](Db::cf_names), [`drop_cf`](Db::drop_cf)
/// - Transactions: [`begin`](Db::begin), [`transact`](Db::transact)
/// - Make durable: [`wait_durable`](Db::wait_durable), [`when_durable`](Db::when_durable),
///   [`durable_sequence`](Db::durable_sequence)
/// - Maintain: [`flush`](Db::flush), [`compact_range`](Db::compact_range),
///   [`wait_idle`](Db::wait_idle), [`resume`](Db::resume)
/// - Move data: [`ingest`](Db::ingest), [`export`](Db::export), [`copy_into`](Db::copy_into),
///   [`checkpoint`](Db::checkpoint), [`repair`](Db::repair),
///   [`updates_since`](Db::updates_since)
/// - Inspect: [`statistics`](Db::statistics), [`layout`](Db::layout),
///   [`property`](Db::property), [`approximate_sizes`](Db::approximate_sizes)
/// - End: [`close`](Db::close), [`destroy`](Db::destroy)
///
/// A drop of the last handle without [`close`](Db::close) has the effect of a killed process: no
/// acknowledged write is lost, but unsynced writes do not survive a power cut.
///
/// # Errors
/// - Every write returns [`Error::ReadOnly`] in a store opened for reading only, and
///   [`Error::Closed`] after a close. After a failed write, sync or background job, every write
///   returns [`Error::FailStopped`]; the caller that waited for the failed operation gets its
///   original error. Reads still work in all three cases.
/// - Every call returns [`Error::Forked`] in a child of the process that opened the store.
/// - An open returns [`Error::InUse`] while another process or handle has the store open for
///   writing. It returns [`Error::Missing`] if the store or a file that it names does not exist,
///   and [`Error::Corrupt`] if bytes cannot be those that were written.
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
    /// The write path; `None` in a store opened for reading only.
    writes: Option<Arc<WritePath>>,
}

impl Inner {
    /// Ends background work. Callers that still wait for background work get [`Error::Closed`].
    fn shut_down(&self) {
        let mut state = self.shared.state.lock();
        let was_closed = std::mem::replace(&mut state.closed, true);
        self.shared.bump_stall_epoch(&state);
        drop(state);
        if !was_closed && self.writes.is_some() {
            let shared = &self.shared;
            shared.options.log(|| info_log::statistics(&shared.options, &report::statistics(shared)));
        }
        self.shared.changed.notify_all();
        self.shared.work.stop();
        self.shared.waiters.wake(u64::MAX);
        self.shared.storage.budget().empty();
    }
}

impl Drop for Inner {
    /// In a forked child, leaks the copied state instead of dropping it. A drop would wait for
    /// threads that do not exist in the child, and would truncate the WAL, which the parent
    /// process still writes.
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            std::mem::forget((self.shared.clone(), self.writes.clone()));
            return;
        }
        self.shut_down();
    }
}

/// Makes every visible write durable. In durability mode `none` nothing is synced; the call then
/// only ensures that every visible write, even an unlogged one, survives a kill of the process.
fn make_durable(shared: &Arc<DbInner>, writes: &WritePath) -> Result<()> {
    if shared.safe_sequence() >= shared.visible().0 {
        return Ok(());
    }
    writes.write(shared, WriteRequest::Batch(Batch::new()), true).map(drop)
}

impl Db {
    pub(crate) fn shared(&self) -> &Arc<DbInner> {
        &self.inner.shared
    }

    #[inline]
    pub(crate) fn writes(&self) -> Result<&WritePath> {
        self.shared().check_process()?;
        match &self.inner.writes {
            Some(writes) => Ok(writes),
            None => Err(Error::ReadOnly),
        }
    }

    /// Makes all writes durable and ends background work. All other handles then refuse to write.
    /// The directory stays locked until these handles, and all cursors and scans, are dropped.
    ///
    /// # Errors
    /// The error that prevented the last writes from becoming durable. The store is closed even if
    /// the call returns this error.
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
            self.shared().options.log(|| match &synced {
                Ok(()) => "closed".into(),
                Err(error) => format!("closed; the last writes may not be durable: {error}"),
            });
        }
        synced
    }

    /// Deletes files that jobs and readers have stopped using since the last commit of pending
    /// edits.
    fn delete_obsolete_files(&self) {
        let shared = self.shared();
        let removable = shared.state.lock().versions.removable();
        commit_edits::delete_files(shared, &removable);
    }

    fn sync_for_close(&self, writes: &WritePath) -> Result<()> {
        let shared = self.shared();
        shared.state.lock().closing = true;
        // Pending edits are committed before the WALs are synced: a WAL whose entries are in
        // durable SSTables needs no sync.
        let released = self.commit_all_edits();
        let synced = writes.write(shared, WriteRequest::Batch(Batch::new()), true);
        released?;
        synced?;
        self.commit_all_edits()
    }

    fn commit_all_edits(&self) -> Result<()> {
        let shared = self.shared();
        shared.commit_storage()?;
        shared.wait_until(|state| state.versions.pending() == 0)
    }

    /// Removes the store in the directory, or on the device, `path`. Only the store's own files
    /// are removed. If there is no store, the call does nothing.
    ///
    /// # Errors
    /// [`Error::InUse`] while the store is open; [`Error::Io`] for a file that could not be
    /// removed.
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

    /// Waits until no background work is left: nothing to flush, no compaction or value-log GC
    /// that is due, and no pending edit.
    ///
    /// # Errors
    /// The errors of [every write](Db#errors).
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
        // Value-log GC may also wait for the deletion of obsolete files that readers have stopped
        // using.
        let waiting = IdleWait::begin(shared);
        loop {
            shared.wait_until(|state| {
                let putting = state.gc.relocating && !shared.work.is_manual();
                let quiet =
                    !state.flush_scheduled && !state.commit_scheduled && state.compactions.is_empty() && !putting;
                quiet && state.versions.pending() == 0 && state.sealed == 0
            })?;
            if shared.work.step_in(Lane::Relocate).is_none() {
                break;
            }
        }
        drop(waiting);
        self.delete_obsolete_files();
        Ok(())
    }

    /// Runs one waiting background job of a store that was opened by
    /// [`open_manual`](Db::open_manual). It picks the job with the number `pick` modulo the number
    /// of waiting jobs. Returns the name of the job; `None` if no job waits.
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
