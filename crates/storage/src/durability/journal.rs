//! The durability modes `journal` and `journal-bpf`: outputs become durable by the commits that
//! the file system's journal makes anyway. None is forced.
//!
//! ```text
//! 1  write back the bytes of each file   without that, a commit is worth nothing (see `batch.rs`)
//! 2  read the number of commits, c0      every inode is in a transaction that commits as c0 + 2
//!                                        or earlier
//! 3  join the running transaction        an idle journal commits nothing
//! 4  poll the number until it is c0 + 2, and join a transaction whenever it has changed
//! 5  join a transaction once more        an aborted journal still counts, but cannot be joined
//! ```
//! Why + 2: a commit is counted as its last act, and commits come one by one. So at any moment at
//! most two transactions are uncounted: the one being committed, and the running one after it, to
//! which the inodes written back so far belong at the latest. With + 1 the poll might wait for the
//! first of the two only.
//!
//! Where the kernel reports the transaction of each file (`bpf/`), steps 2 and 4 use that number
//! instead, and step 2 first makes the inode part of the running transaction.
use super::{
    DurabilityTracker, Finished, journal_of,
    waiting::{Queue, Waiting},
};
use crate::{Completer, DurabilityHandle, Error, IoStats, Result, SyncKind};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};
use terrace_vfs::{FileSystem, JournalCommit};

/// The evidence that a commit covers the bytes written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The number of commits, which the kernel publishes.
    Count,
    /// The transactions of the files.
    Transactions,
}

/// Commits after a count that make everything written back before it durable.
const COMMITS: u64 = 2;
/// After this many commit intervals without progress, each a second longer, the journal is
/// considered stuck.
const INTERVALS_MAX: u32 = 3;

/// Completes durability handles in batches: the outputs written back before one count.
pub struct JournalTracker {
    evidence: Evidence,
    poll: Duration,
    stall_limit: Duration,
    waiting: Queue, // jobs do not wait for a batch, unless too many files do
    // Held while files are written back and while the journal is read. Taken before `waiting`.
    progress: Mutex<Progress>,
}

/// The progress of the journal, and the batches that wait for it.
struct Progress {
    /// In the order in which they are due.
    batches: VecDeque<Batch>,
    /// The last count; for transactions the last number, extended so that it does not wrap.
    commits: u64,
    /// The time of its last change, or the begin of the wait for one.
    moved: Option<Instant>,
    asked: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Progress {
        // Any number that was never near a wrap: the first transaction may be one of either half.
        Progress { batches: VecDeque::new(), commits: 1 << 32, moved: None, asked: None }
    }
}

/// Outputs that were written back together.
struct Batch {
    /// The count at which they are durable.
    due: u64,
    /// The bytes of their files.
    bytes: u64,
    completers: Vec<Completer>,
}

impl Batch {
    fn of(builds: Vec<Waiting>, due: u64) -> Batch {
        let bytes = builds.iter().map(Waiting::unsaved).sum();
        Batch { due, bytes, completers: builds.into_iter().map(|build| build.completer).collect() }
    }
}

impl JournalTracker {
    /// A tracker that reads the journal at most once in `poll`, unless too many files wait, and
    /// expects a commit in every `interval`.
    pub fn new(evidence: Evidence, poll: Duration, interval: Duration) -> JournalTracker {
        let stall_limit = (interval + Duration::from_secs(1)) * INTERVALS_MAX;
        JournalTracker { evidence, poll, stall_limit, waiting: Queue::new(usize::MAX), progress: Mutex::default() }
    }

    /// Limits the waiting files to `files_max` descriptors. At half as many they are written back
    /// regardless of `poll`; a job that reaches the limit waits for that.
    pub fn with_files_max(self, files_max: usize) -> JournalTracker {
        JournalTracker { waiting: Queue::new(files_max), ..self }
    }

    /// As [`new`](JournalTracker::new), with an explicit limit for the time without progress of
    /// the journal.
    pub fn with_patience(evidence: Evidence, poll: Duration, stall_limit: Duration) -> JournalTracker {
        JournalTracker { stall_limit, ..JournalTracker::new(evidence, poll, Duration::ZERO) }
    }

    /// Processes new outputs, then old ones. Forces a commit where the journal cannot be read or
    /// is stuck.
    fn ask(&self, progress: &mut Progress, fs: &dyn FileSystem, io_stats: &IoStats) {
        let (saved, _) = self.write_back(io_stats); // here and below, the handles report the error
        let entered = if saved.is_empty() { Ok(()) } else { progress.enter(saved, fs, self.evidence) };
        if entered.and_then(|()| progress.look(fs, self.evidence)).is_err() || progress.is_stuck(self.stall_limit) {
            let _ = progress.force(fs, io_stats);
        }
    }

    /// Writes back the waiting outputs. Returns those that a commit will make durable, and the
    /// first error, which fails its own job only.
    fn write_back(&self, io_stats: &IoStats) -> (Vec<Waiting>, Result<()>) {
        let (mut saved, mut outcome) = (Vec::new(), Ok(()));
        for build in self.waiting.take() {
            match build.files.iter().try_for_each(|file| file.write_back(io_stats)) {
                Ok(()) if build.is_saved() => build.completer.keep(),
                Ok(()) => saved.push(build),
                Err(error) => {
                    build.completer.fail(error.clone());
                    outcome = outcome.and(Err(error));
                }
            }
        }
        (saved, outcome)
    }
}

impl Progress {
    /// Adds outputs that were just written back. They wait from now on, whatever this returns.
    fn enter(&mut self, builds: Vec<Waiting>, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        let due = self.due(&builds, fs, evidence);
        if self.batches.is_empty() {
            self.moved = Some(Instant::now());
        }
        self.batches.push_back(Batch::of(builds, *due.as_ref().unwrap_or(&u64::MAX)));
        due.and_then(|_| journal_of(fs)?.join_transaction())
    }

    /// The count, or the transaction, at which `builds` are durable.
    fn due(&self, builds: &[Waiting], fs: &dyn FileSystem, evidence: Evidence) -> io::Result<u64> {
        if evidence == Evidence::Count {
            return Ok(journal_of(fs)?.commit_count()? + COMMITS);
        }
        let (journal, now) = (journal_of(fs)?, self.count(fs, evidence)?);
        // No file is left that reports when its name is committed.
        let least = if builds.iter().any(|build| build.lacks_some) { now + COMMITS } else { now };
        let files = builds.iter().flat_map(|build| &build.files);
        files
            .map(|file| journal.transaction_of(&*file.file).map(|number| unwrapped(now, number)))
            .try_fold(least, |due, next| next.map(|next| due.max(next)))
    }

    fn count(&self, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<u64> {
        match evidence {
            Evidence::Count => journal_of(fs)?.commit_count(),
            Evidence::Transactions => Ok(unwrapped(self.commits, journal_of(fs)?.committed_transaction()?)),
        }
    }

    /// Reads the progress of the journal and completes batches.
    fn look(&mut self, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let commits = self.count(fs, evidence)?;
        if commits == self.commits && self.batches[0].due > commits {
            return Ok(());
        }
        (self.commits, self.moved) = (commits, Some(Instant::now()));
        // After the count was read: everything counted before the journal was aborted has been
        // committed.
        journal_of(fs)?.join_transaction()?;
        let due = self.batches.partition_point(|batch| batch.due <= commits);
        self.batches.drain(..due).flat_map(|batch| batch.completers).for_each(Completer::keep);
        Ok(())
    }

    fn is_stuck(&self, stall_limit: Duration) -> bool {
        !self.batches.is_empty() && self.moved.is_some_and(|moved| moved.elapsed() > stall_limit)
    }

    /// Commits now, as the mode `group` does, and decides every handle.
    fn force(&mut self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let committed = journal_of(fs)
            .and_then(JournalCommit::commit)
            .map_err(|e| Error::io("commit the journal of", fs.name(), e));
        if committed.is_ok() {
            let bytes = self.batches.iter().map(|batch| batch.bytes).sum();
            io_stats.synced(SyncKind::FileSystem, bytes, start.elapsed());
        }
        for completer in self.batches.drain(..).flat_map(|batch| batch.completers) {
            match &committed {
                Ok(()) => completer.keep(),
                Err(error) => completer.fail(error.clone()),
            }
        }
        committed
    }
}

/// Extends the 32-bit transaction number `number` to 64 bits. Returns the value nearest to `near`
/// whose lower 32 bits are `number`. Transactions of interest are less than 2^31 apart, so the
/// nearest value is the right one.
fn unwrapped(near: u64, number: u32) -> u64 {
    near.wrapping_add_signed(i64::from(number.wrapping_sub(near as u32) as i32))
}

impl DurabilityTracker for JournalTracker {
    fn durability_mode(&self) -> &'static str {
        match self.evidence {
            Evidence::Count => "journal",
            Evidence::Transactions => "journal-bpf",
        }
    }

    fn waits_for_fs_commit(&self) -> bool {
        true
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle> {
        Ok(self.waiting.watch(files, io_stats, || self.advance(fs, io_stats)))
    }

    fn cancel_sync(&self, name: &str) -> Option<Finished> {
        self.waiting.cancel_sync(name)
    }

    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool> {
        let mut progress = self.progress.lock();
        if progress.batches.is_empty() && self.waiting.is_empty() {
            return Ok(false);
        }
        if progress.asked.is_none_or(|asked| asked.elapsed() >= self.poll) || self.waiting.is_crowded() {
            self.ask(&mut progress, fs, io_stats);
            progress.asked = Some(Instant::now());
        }
        Ok(true)
    }

    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        let mut progress = self.progress.lock();
        let (saved, outcome) = self.write_back(io_stats);
        if !saved.is_empty() {
            progress.batches.push_back(Batch::of(saved, u64::MAX));
        }
        outcome.and(progress.force(fs, io_stats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_numbers_continue_after_a_wrap() {
        assert_eq!(unwrapped(u64::from(u32::MAX), 2), (1 << 32) + 2);
        assert_eq!(unwrapped((1 << 32) + 2, u32::MAX - 1), (1 << 32) - 2);
        assert_eq!((unwrapped(7, 7), unwrapped(7, 9)), (7, 9));
    }
}
