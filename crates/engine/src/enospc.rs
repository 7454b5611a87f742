//! Out of space (ENOSPC): frees the space that is kept for safety only, waits for jobs and
//! readers that may free some, and retries.
//!
//! ```text
//!  attempt ──ENOSPC──► commit pending edits, release the reserve ──► attempt again
//!                                                                   │        ▲
//!                                                                 ENOSPC     │ space was freed
//!                                                                   ▼        │
//!  the error of the attempt ◄── retry budget spent ──────────── wait for space
//! ```
use crate::{Options, Result, reserve::ReserveGuard, state::DbInner};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::BlockingScope;

/// How long a job without space waits for other jobs to free some.
const RETRY_BUDGET: Duration = Duration::from_secs(1);
/// How long it waits for readers alone. Most of them need a moment; a long scan may keep its
/// files for hours.
const READER_RETRY_BUDGET: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl DbInner {
    /// Runs `attempt`, which takes space, as `own_jobs` of the running jobs. On ENOSPC it retries
    /// after it has committed all pending edits, deleted the files that this makes obsolete and
    /// released the reserve; then, within the retry budget, whenever space was freed.
    pub fn retry_on_no_space<T>(
        self: &Arc<Self>,
        own_jobs: usize,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.retry_with_reserve(own_jobs, |_reserve| attempt())
    }

    /// As [`retry_on_no_space`](Self::retry_on_no_space), for an attempt that ends the release of
    /// the reserve itself by dropping the guard.
    pub fn retry_with_reserve<T>(
        self: &Arc<Self>,
        own_jobs: usize,
        mut attempt: impl FnMut(Option<ReserveGuard<'_>>) -> Result<T>,
    ) -> Result<T> {
        match attempt(None) {
            Err(full) if full.is_no_space() => {}
            outcome => return outcome,
        }
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

    /// Returns whether the disk has space for `bytes` of optional work, and after that for all
    /// writes until the next flush: a memtable, or with value separation a segment. A writer that
    /// meets ENOSPC during an append stops the store, so optional work must leave that much. I/O:
    /// not to be called under a lock.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Options { write_buffer_size, value_log_segment_size, .. } = self.options;
        let room =
            if self.separates_values { write_buffer_size.max(value_log_segment_size) } else { write_buffer_size };
        self.storage.free_bytes().is_none_or(|free| free >= bytes.saturating_add(room))
    }

    /// Frees the space that is kept for safety only. The reserve stays released while the returned
    /// guard is alive.
    fn reclaim_space(self: &Arc<Self>) -> Result<ReserveGuard<'_>> {
        let _awaited = BlockingScope::new();
        {
            let _for_file_systems_that_allocate_late = self.reserve.release(&*self.storage);
            let _ = self.storage.commit(); // a failure reaches the durability handles of the files
        }
        // The manifest may need the reserve, and concurrent jobs would take it.
        self.commit_edits_for_space()?;
        Ok(self.reserve.release(&*self.storage))
    }

    /// Waits until space was freed more often than `before` times. Returns false if no job and no
    /// reader is going to free any, or not within the retry budget.
    fn wait_for_space(self: &Arc<Self>, own_jobs: usize, before: u64, waited: &mut Duration) -> bool {
        self.jobs_out_of_space.fetch_add(own_jobs, Ordering::AcqRel);
        let comes = loop {
            // Sleep first: files that the failed attempt itself deleted do not count.
            thread::sleep(RETRY_INTERVAL);
            *waited += RETRY_INTERVAL;
            let _ = self.storage.commit();
            if self.commit_edits_for_space().is_err() {
                break false;
            }
            if self.space_freed.load(Ordering::Acquire) != before {
                break *waited <= RETRY_BUDGET; // repeated small gains do not extend the budget
            }
            if *waited > self.retry_budget() {
                break false;
            }
        };
        self.jobs_out_of_space.fetch_sub(own_jobs, Ordering::AcqRel);
        comes
    }

    /// Returns whether space may be freed: by pending edits, by readers of obsolete files, or by a
    /// job.
    pub fn may_free_space(&self) -> bool {
        let state = self.state.lock();
        let waits = state.versions.retained_bytes() > 0 || state.versions.obsolete_files.waiting() > 0;
        waits || state.flush_scheduled || !state.compactions.is_empty()
    }

    /// Returns how long to wait: for a job that has space to proceed, or for a reader of obsolete
    /// files.
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

    /// Commits pending edits. Whether that frees enough space is left to the next attempt.
    fn commit_edits_for_space(self: &Arc<Self>) -> Result<()> {
        match (self.jobs.commit_edits_now)(self) {
            Err(full) if full.is_no_space() => Ok(()),
            released => released,
        }
    }
}
