//! What is done where there is no space: what is kept for safety only is given up, and whoever may give some back is waited for.
use crate::{Options, Result, reserve::Relief, state::DbInner};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_storage::BlockingScope;

/// How long one who finds no space hopes that other jobs give some back, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it hopes for readers alone. Most of them need a moment; one may stay for hours.
const PATIENCE_WITH_READERS: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(10);

impl DbInner {
    /// Does something that takes space, as `own` of the jobs that run. If there is none, once more after everything was given up that is
    /// kept for safety only: tables and logs whose replacement can be made durable at once, and the reserve. And then, for a while,
    /// whenever somebody has given space back.
    pub fn with_relief<T>(self: &Arc<Self>, own: usize, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        self.relieved(own, |_reserve| attempt())
    }

    /// As [`with_relief`](Self::with_relief), where the reserve is free for the taking only until the attempt drops what it is given.
    pub fn relieved<T>(
        self: &Arc<Self>,
        own: usize,
        mut attempt: impl FnMut(Option<Relief<'_>>) -> Result<T>,
    ) -> Result<T> {
        match attempt(None) {
            Err(full) if full.is_no_space() => {}
            outcome => return outcome,
        }
        let mut waited = Duration::ZERO;
        loop {
            let relief = self.relieve()?;
            let before = self.given_back.load(Ordering::Acquire);
            match attempt(Some(relief)) {
                Err(full) if full.is_no_space() => {
                    if !self.space_comes(own, before, &mut waited) {
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
        let room = if self.values_apart { write_buffer_size.max(value_log_segment_size) } else { write_buffer_size };
        self.storage.free_bytes().is_none_or(|free| free >= bytes.saturating_add(room))
    }

    /// Gives up what is kept for safety only. The reserve is free for the taking for as long as what this returns lives.
    fn relieve(self: &Arc<Self>) -> Result<Relief<'_>> {
        let _awaited = BlockingScope::new();
        {
            let _for_file_systems_that_allocate_late = self.reserve.give_up(&*self.storage);
            let _ = self.storage.commit(); // a failure is its tickets' to tell
        }
        self.release_for_space()?; // with the reserve for the manifest, if that needs it: whoever runs beside would have taken it
        Ok(self.reserve.give_up(&*self.storage))
    }

    /// Waits until space was given back more often than `before`. False if nobody will, or not soon enough.
    fn space_comes(self: &Arc<Self>, own: usize, before: u64, waited: &mut Duration) -> bool {
        self.starving.fetch_add(own, Ordering::AcqRel);
        let comes = loop {
            thread::sleep(LOOK); // first: what the attempt itself gave back, such as a log that it left, is not what it hopes for
            *waited += LOOK;
            let _ = self.storage.commit();
            if self.release_for_space().is_err() {
                break false;
            }
            if self.given_back.load(Ordering::Acquire) != before {
                break *waited <= PATIENCE; // whoever comes again and again is refused in the end
            }
            if *waited > self.hope() {
                break false;
            }
        };
        self.starving.fetch_sub(own, Ordering::AcqRel);
        comes
    }

    /// Whether somebody may give space back: what waits to be durable or for its readers, or a job.
    pub fn may_be_relieved(&self) -> bool {
        let control = self.control.lock();
        let waits = control.versions.retained_bytes() > 0 || control.versions.retire.waiting() > 0;
        waits || control.flushing || !control.busy.is_empty()
    }

    /// How long to wait for a job that has space to go on, or a reader who keeps what nobody else needs.
    fn hope(&self) -> Duration {
        let control = self.control.lock();
        let jobs = control.busy.len() + usize::from(control.flushing);
        let over = control.failed.is_some() || control.closing || self.work.is_manual();
        match control.versions.retire.waiting() {
            _ if over => Duration::ZERO,
            _ if jobs > self.starving.load(Ordering::Acquire) => PATIENCE,
            0 => Duration::ZERO,
            _ => PATIENCE_WITH_READERS,
        }
    }

    /// Releases what can be. Whether that makes enough space, whoever needs it finds out.
    fn release_for_space(self: &Arc<Self>) -> Result<()> {
        match (self.jobs.release_now)(self) {
            Err(full) if full.is_no_space() => Ok(()),
            released => released,
        }
    }
}
