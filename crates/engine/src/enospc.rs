//! What is done where there is no space: what is kept for safety only is given up, and whoever may give some back is waited for.
use crate::{Options, Result, reserve::ReserveGuard, state::DbInner};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::BlockingScope;

/// How long one who finds no space hopes that other jobs give some back, and how often it looks.
const RETRY_BUDGET: Duration = Duration::from_secs(1);
/// How long it hopes for readers alone. Most of them need a moment; one may stay for hours.
const READER_RETRY_BUDGET: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl DbInner {
    /// Does something that takes space, as `own` of the jobs that run. If there is none, once more after everything was given up that is
    /// kept for safety only: tables and logs whose replacement can be made durable at once, and the reserve. And then, for a while,
    /// whenever somebody has given space back.
    pub fn retry_on_no_space<T>(
        self: &Arc<Self>,
        own_jobs: usize,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.retry_with_reserve(own_jobs, |_reserve| attempt())
    }

    /// As [`with_relief`](Self::with_relief), where the reserve is free for the taking only until the attempt drops what it is given.
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

    /// Whether the disk has space for so many bytes that nothing depends on, and then for what writers put until the next flush, which with values in
    /// the log is a segment. Who finds it full in the midst of an append stops everybody. I/O, so not to be called under a lock.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Options { write_buffer_size, value_log_segment_size, .. } = self.options;
        let room =
            if self.separates_values { write_buffer_size.max(value_log_segment_size) } else { write_buffer_size };
        self.storage.free_bytes().is_none_or(|free| free >= bytes.saturating_add(room))
    }

    /// Gives up what is kept for safety only. The reserve is free for the taking for as long as what this returns lives.
    fn reclaim_space(self: &Arc<Self>) -> Result<ReserveGuard<'_>> {
        let _awaited = BlockingScope::new();
        {
            let _for_file_systems_that_allocate_late = self.reserve.release(&*self.storage);
            let _ = self.storage.commit(); // a failure is its tickets' to tell
        }
        self.commit_edits_for_space()?; // with the reserve for the manifest, if that needs it: whoever runs beside would have taken it
        Ok(self.reserve.release(&*self.storage))
    }

    /// Waits until space was given back more often than `before`. False if nobody will, or not soon enough.
    fn wait_for_space(self: &Arc<Self>, own_jobs: usize, before: u64, waited: &mut Duration) -> bool {
        self.jobs_out_of_space.fetch_add(own_jobs, Ordering::AcqRel);
        let comes = loop {
            thread::sleep(RETRY_INTERVAL); // first: what the attempt itself gave back, such as a log that it left, is not what it hopes for
            *waited += RETRY_INTERVAL;
            let _ = self.storage.commit();
            if self.commit_edits_for_space().is_err() {
                break false;
            }
            if self.space_freed.load(Ordering::Acquire) != before {
                break *waited <= RETRY_BUDGET; // whoever comes again and again is refused in the end
            }
            if *waited > self.retry_budget() {
                break false;
            }
        };
        self.jobs_out_of_space.fetch_sub(own_jobs, Ordering::AcqRel);
        comes
    }

    /// Whether somebody may give space back: what waits to be durable or for its readers, or a job.
    pub fn may_free_space(&self) -> bool {
        let state = self.state.lock();
        let waits = state.versions.retained_bytes() > 0 || state.versions.retire.waiting() > 0;
        waits || state.flush_scheduled || !state.compactions.is_empty()
    }

    /// How long to wait for a job that has space to go on, or a reader who keeps what nobody else needs.
    fn retry_budget(&self) -> Duration {
        let state = self.state.lock();
        let jobs = state.compactions.len() + usize::from(state.flush_scheduled);
        let over = state.failed.is_some() || state.closing || self.work.is_manual();
        match state.versions.retire.waiting() {
            _ if over => Duration::ZERO,
            _ if jobs > self.jobs_out_of_space.load(Ordering::Acquire) => RETRY_BUDGET,
            0 => Duration::ZERO,
            _ => READER_RETRY_BUDGET,
        }
    }

    /// Releases what can be. Whether that makes enough space, whoever needs it finds out.
    fn commit_edits_for_space(self: &Arc<Self>) -> Result<()> {
        match (self.jobs.commit_edits_now)(self) {
            Err(full) if full.is_no_space() => Ok(()),
            released => released,
        }
    }
}
