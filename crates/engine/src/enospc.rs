//! Handling of a full disk (ENOSPC): frees the space that the engine keeps only for safety, waits
//! for jobs and readers that may free more space, and retries the failed operation.
//!
//! ```text
//!  attempt ──ENOSPC──► commit pending edits, release the reserve ──► attempt again
//!                                                                   │        ▲
//!                                                                 ENOSPC     │ space was freed
//!                                                                   ▼        │
//!  the error of the attempt ◄── retry budget spent ──────────── wait for space
//! ```
use crate::{
    Options, Result,
    reserve::{ReserveGuard, ReserveUser},
    state::DbInner,
};
use parking_lot::MutexGuard;
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::BlockingScope;

/// The time for which a job without space waits if other running jobs may free space.
const RETRY_BUDGET: Duration = Duration::from_secs(1);
/// The time for which a job without space waits if space can become free only when readers stop
/// using obsolete files. Most readers finish soon, but a long scan may keep its files for hours.
const READER_RETRY_BUDGET: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl DbInner {
    /// Runs `attempt`, an operation that needs disk space. On ENOSPC the function commits all
    /// pending edits, deletes the files that become obsolete, releases the reserve, and retries.
    /// After that it retries whenever space has been freed, within the retry budget. `own_jobs` is
    /// 1 if a flush or compaction job makes the call, and 0 otherwise: while this job waits for
    /// space, it is not counted as a job that may free space.
    pub fn retry_on_no_space<T>(
        self: &Arc<Self>,
        own_jobs: usize,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.retry_with_reserve(own_jobs, |_reserve| attempt())
    }

    /// Works like [`retry_on_no_space`](Self::retry_on_no_space), for an attempt that decides
    /// itself when the engine allocates the reserve again. The attempt gets the guard of the
    /// reserve and drops it at the right moment.
    pub fn retry_with_reserve<T>(
        self: &Arc<Self>,
        own_jobs: usize,
        mut attempt: impl FnMut(Option<ReserveGuard<'_>>) -> Result<T>,
    ) -> Result<T> {
        match attempt(None) {
            Err(full) if full.is_no_space() => {}
            outcome => return outcome,
        }
        let _turn = (own_jobs > 0 && !self.work.is_manual()).then(|| self.wait_for_turn());
        let mut waited = Duration::ZERO;
        loop {
            let guard = self.reclaim_space()?;
            let before = self.space_freed.load(Ordering::Acquire);
            match attempt(Some(guard)) {
                Err(full) if full.is_no_space() => {
                    if !self.wait_for_space(own_jobs, before, &mut waited) {
                        return Err(full);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Returns whether the disk has space for `bytes` bytes of optional work, and in addition for
    /// all writes until the next flush (a memtable, or with key-value separation a segment).
    /// Optional work must leave the space for these writes, because a writer that gets ENOSPC
    /// during an append stops the store. The call does I/O, so the caller must hold no lock.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Options { write_buffer_size, value_log_segment_size, .. } = self.options;
        let room =
            if self.separates_values { write_buffer_size.max(value_log_segment_size) } else { write_buffer_size };
        self.storage.free_bytes().is_none_or(|free| free >= bytes.saturating_add(room))
    }

    /// Frees the space that the engine keeps for the case of a full disk: the reserve, and the
    /// obsolete files of pending edits. The reserve stays released as long as the returned guard
    /// exists.
    fn reclaim_space(self: &Arc<Self>) -> Result<ReserveGuard<'_>> {
        let _awaited = BlockingScope::new();
        {
            let _for_file_systems_that_allocate_late = self.reserve.release(&*self.storage, ReserveUser::Job);
            let _ = self.storage.commit(); // a failure reaches the durability handles of the files
        }
        // Pending edits are committed before the reserve is released for the next attempt. The
        // manifest may need the space of the reserve, and concurrent jobs would otherwise take that
        // space.
        self.commit_edits_for_space()?;
        Ok(self.reserve.release(&*self.storage, ReserveUser::Job))
    }

    /// Waits until no other job retries, even if that job is a long compaction: two jobs that take
    /// the last space from each other would both fail, and stop the store. During the wait, this
    /// job counts as a job without space.
    fn wait_for_turn(&self) -> MutexGuard<'_, ()> {
        self.jobs_out_of_space.fetch_add(1, Ordering::AcqRel);
        let turn = self.space_turn.lock();
        self.jobs_out_of_space.fetch_sub(1, Ordering::AcqRel);
        turn
    }

    /// Waits until the counter of freed space is above `before`. Returns false if no job and no
    /// reader can free space, or if none was freed within the retry budget. `waited` is the total
    /// time of all waits for one operation.
    fn wait_for_space(self: &Arc<Self>, own_jobs: usize, before: u64, waited: &mut Duration) -> bool {
        self.jobs_out_of_space.fetch_add(own_jobs, Ordering::AcqRel);
        let comes = loop {
            // The loop sleeps before it checks the counter of freed space. The failed attempt has
            // deleted its own files, but the space of these files alone does not justify a retry.
            thread::sleep(RETRY_INTERVAL);
            *waited += RETRY_INTERVAL;
            let _ = self.storage.commit();
            if self.commit_edits_for_space().is_err() {
                break false;
            }
            if self.space_freed.load(Ordering::Acquire) != before {
                break *waited <= RETRY_BUDGET; // small gains do not extend the budget
            }
            if *waited > self.retry_budget() {
                break false;
            }
        };
        self.jobs_out_of_space.fetch_sub(own_jobs, Ordering::AcqRel);
        comes
    }

    /// Returns whether disk space may become free: by a commit of pending edits, by readers that
    /// stop using obsolete files, or by a running job.
    pub fn may_free_space(&self) -> bool {
        let state = self.state.lock();
        let waits = state.versions.retained_bytes() > 0 || state.versions.obsolete_files.waiting() > 0;
        waits || state.flush_scheduled || !state.compactions.is_empty()
    }

    /// Returns the time for which a job without space may wait. The time is longer if another job
    /// still has space and makes progress. It is shorter if only readers of obsolete files may free
    /// space.
    fn retry_budget(&self) -> Duration {
        let state = self.state.lock();
        let jobs = state.compactions.len() + usize::from(state.flush_scheduled);
        let over = state.failed.is_some() || state.closing || self.work.is_manual();
        match state.versions.obsolete_files.waiting() {
            _ if over => Duration::ZERO,
            _ if jobs > self.jobs_out_of_space.load(Ordering::Acquire) => RETRY_BUDGET,
            0 => Duration::ZERO,
            _ => READER_RETRY_BUDGET,
        }
    }

    /// Commits pending edits, so that obsolete files can be deleted. ENOSPC during the commit is
    /// not an error here, because the next attempt of the caller shows whether there is enough
    /// space.
    fn commit_edits_for_space(self: &Arc<Self>) -> Result<()> {
        match (self.jobs.commit_edits_now)(self) {
            Err(full) if full.is_no_space() => Ok(()),
            released => released,
        }
    }
}
