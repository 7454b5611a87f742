//! The durability modes `group` and `background`. The output files of many jobs become durable
//! together, in one batch sync. The thread that calls the durability tracker, usually the commit
//! job, makes the batch sync. Flush and compaction jobs do not wait for it, unless file
//! descriptors run out (docs/durability.md, "Durability modes").
//!
//! ```text
//! group       1. write back the bytes of each file   without a journal commit or device flush
//!             2. commit the journal once             makes these bytes and all names durable
//! background  1. sync each file                      works on any file system
//!             2. sync the directory
//! ```
//! Directory tables need no second step: one sync makes all files of a table directory durable.
//!
//! Mode `group` needs both of its steps, because a journal commit alone does not make bytes
//! durable that were not written back. With delayed allocation, a commit before the write-back
//! makes the inode durable with size 0. Space that is allocated but not yet written reads as zeros
//! after a power cut, even if the allocation was committed.
use super::{DurabilityTracker, Finished, sync_directory, waiting::Queue};
use crate::{DurabilityHandle, Error, IoStats, Result, SyncKind};
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use terrace_vfs::{FileSystem, JournalCommit};

/// The two kinds of batch sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Write back each file, then commit the file system's journal once.
    Group,
    /// Sync each file, then the directory.
    Background,
}

/// Makes the waiting files of all jobs durable in batch syncs, and completes the jobs' durability
/// handles. If a file cannot be synced, only the handle of its job fails. If the last step of a
/// batch sync fails (the commit of the journal or the sync of the directory), the handles of all
/// jobs in the batch fail.
pub struct BatchTracker {
    way: Way,
    interval: Duration,
    waiting: Queue, // jobs do not wait, unless too many files wait
    // The time of the last batch sync. A thread that makes a batch sync holds this lock. Lock
    // order: this lock before `waiting`.
    last: Mutex<Option<Instant>>,
}

impl BatchTracker {
    /// Makes a tracker that waits for `interval` between two batch syncs, unless a batch sync is
    /// forced or the queue of waiting files is half full.
    pub fn new(way: Way, interval: Duration) -> BatchTracker {
        BatchTracker { way, interval, waiting: Queue::new(usize::MAX), last: Mutex::default() }
    }

    /// Limits the files that wait for a batch sync to `files_max` descriptors. When half of this
    /// number wait, a batch sync begins even if the interval has not passed. A job that reaches the
    /// limit waits for a batch sync.
    pub fn with_files_max(self, files_max: usize) -> BatchTracker {
        BatchTracker { waiting: Queue::new(files_max), ..self }
    }

    /// Makes a batch sync, after which every pending handle is durable or failed. Returns the first
    /// error.
    fn settle(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        let (mut saved, mut bytes, mut outcome) = (Vec::new(), 0, Ok(()));
        for build in self.waiting.take() {
            match build.files.iter().try_for_each(|file| self.save(file, io_stats)) {
                Ok(()) if build.is_saved() => build.completer.keep(),
                Ok(()) => {
                    bytes += build.unsaved();
                    saved.push(build.completer);
                }
                Err(error) => {
                    build.completer.fail(error.clone());
                    outcome = outcome.and(Err(error));
                }
            }
        }
        if saved.is_empty() {
            return outcome;
        }
        let finished = self.finish(fs, bytes, io_stats);
        for completer in saved {
            match &finished {
                Ok(()) => completer.keep(),
                Err(error) => completer.fail(error.clone()),
            }
        }
        outcome.and(finished)
    }

    fn save(&self, file: &Finished, io_stats: &IoStats) -> Result<()> {
        if file.is_saved() {
            return Ok(());
        }
        match self.way {
            Way::Group => file.write_back(io_stats),
            Way::Background => {
                let start = Instant::now();
                file.file.sync().map_err(|e| Error::io("sync", &file.name, e))?;
                io_stats.synced(SyncKind::Tables(file.purpose), file.bytes, start.elapsed());
                Ok(())
            }
        }
    }

    /// Does the last step of a batch sync: commits the journal or syncs the directory. The files of
    /// the batch sync have `bytes` bytes in total.
    fn finish(&self, fs: &dyn FileSystem, bytes: u64, io_stats: &IoStats) -> Result<()> {
        match self.way {
            Way::Group => {
                let start = Instant::now();
                super::journal_of(fs)
                    .and_then(JournalCommit::commit)
                    .map_err(|e| Error::io("commit the journal of", fs.name(), e))?;
                io_stats.synced(SyncKind::FileSystem, bytes, start.elapsed());
                Ok(())
            }
            Way::Background => sync_directory(fs, io_stats),
        }
    }
}

impl DurabilityTracker for BatchTracker {
    fn durability_mode(&self) -> &'static str {
        match self.way {
            Way::Group => "group",
            Way::Background => "background",
        }
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle> {
        Ok(self.waiting.watch(files, io_stats, || self.advance(fs, io_stats)))
    }

    fn cancel_sync(&self, name: &str) -> Option<Finished> {
        self.waiting.cancel_sync(name)
    }

    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool> {
        let mut last = self.last.lock();
        if self.waiting.is_empty() {
            return Ok(false);
        }
        if last.is_none_or(|last| last.elapsed() >= self.interval) || self.waiting.is_crowded() {
            let _ = self.settle(fs, io_stats); // the handles report the error
            *last = Some(Instant::now());
        }
        Ok(true)
    }

    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        let mut last = self.last.lock();
        let outcome = self.settle(fs, io_stats);
        *last = Some(Instant::now());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use terrace_vfs::RealFs;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn many_waiting_files_begin_a_batch_before_the_interval() {
        let directory = tempfile::tempdir().unwrap();
        let (fs, io_stats) = (RealFs::new(directory.path()), IoStats::default());
        let tracker = BatchTracker::new(Way::Background, HOUR).with_files_max(4);
        tracker.commit(&fs, &io_stats).unwrap(); // the next batch sync is due only in an hour
        let watch = |names: &[&str]| {
            let finished = |name: &&str| {
                let mut file = fs.create(name).unwrap();
                file.append(name.as_bytes()).unwrap();
                Finished { name: name.to_string(), file, bytes: name.len() as u64, purpose: Purpose::Flush }
            };
            tracker.watch(&fs, names.iter().map(finished).collect(), &io_stats).unwrap()
        };
        let looked = |handle: &DurabilityHandle| {
            tracker.advance(&fs, &io_stats).unwrap();
            handle.is_durable().unwrap()
        };
        let first = watch(&["a"]);
        assert!(!looked(&first), "one of four may wait");
        let second = watch(&["b"]);
        assert!(!first.is_durable().unwrap(), "the second job does not wait");
        assert!(looked(&first) && looked(&second), "half of them have a batch begin");
        assert!(!looked(&watch(&["c"])));
        let full = watch(&["d", "e", "f"]);
        assert!(full.is_durable().unwrap(), "the job with the fourth file makes the batch");
        let syncs = io_stats.syncs(SyncKind::Directory);
        assert_eq!((syncs.count, syncs.blocking), (2, 1), "and the flush waited for that one");
    }
}
