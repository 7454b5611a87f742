//! The durability modes `journal` and `journal-bpf`. Outputs become durable by commits that the
//! file system's journal makes anyway. The engine forces no commit.
//!
//! ```text
//! 1  write back the bytes of each file   a commit does not include other bytes (see `batch.rs`)
//! 2  read the number of commits, c0      each inode is in commit number c0 + 2 or an earlier one
//! 3  join the running transaction        otherwise an idle journal makes no commit
//! 4  poll the number until it is c0 + 2, and join a transaction whenever the number has changed
//! 5  join a transaction once more        detects an aborted journal, which still counts commits
//! ```
//! The reason why step 4 waits for `c0 + 2` and not for `c0 + 1`: the file system counts a commit
//! at its very end, and makes one commit after the other. At any moment at most two transactions
//! are not counted yet: the one that is being committed, and the running one, which collects new
//! changes. The inodes of the files that were written back before step 2 are in one of these two
//! transactions. With `c0 + 1` the poll might end after the commit of the first transaction, while
//! an inode is in the second.
//!
//! In mode `journal-bpf` the kernel reports the transaction of each file (`bpf/`). Steps 2 and 4
//! then use the transaction number of the file instead of the number of commits. Step 2 first
//! makes the inode part of the running transaction.
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

/// The kind of number by which a tracker recognizes that a journal commit has made the
/// written-back bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The number of commits, which the kernel publishes.
    Count,
    /// The numbers of the transactions that contain the files.
    Transactions,
}

/// Number of further commits after which every byte that was written back before them is durable.
const COMMITS: u64 = 2;
/// If the journal makes no progress during this number of commit intervals, the tracker considers
/// it stuck. For this limit, the tracker counts each interval as one second longer than the file
/// system's commit interval.
const INTERVALS_MAX: u32 = 3;

/// Completes durability handles in batches. A batch contains the outputs of jobs that were written
/// back before one read of the commit count. The same commit makes all outputs of a batch durable.
pub struct JournalTracker {
    evidence: Evidence,
    poll: Duration,
    stall_limit: Duration,
    waiting: Queue, // jobs do not wait, unless too many files wait
    // The progress of the journal. A thread holds this lock while it writes back files and while it
    // reads the journal. Lock order: this lock before `waiting`.
    progress: Mutex<Progress>,
}

/// The progress of the file system's journal, and the batches of outputs that wait for its
/// commits.
struct Progress {
    /// The batches of outputs, in the order in which they become durable.
    batches: VecDeque<Batch>,
    /// The number of commits when the journal was last read. In mode `journal-bpf` it is the number
    /// of the last committed transaction, extended to 64 bits so that it does not wrap around.
    commits: u64,
    /// The time when `commits` last changed, or when the tracker began to wait for a change.
    moved: Option<Instant>,
    asked: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Progress {
        // The kernel's transaction numbers have 32 bits. The tracker extends the first number to
        // the 64-bit value that is nearest to this start value, above or below it. The start value
        // must therefore be far from zero.
        Progress { batches: VecDeque::new(), commits: 1 << 32, moved: None, asked: None }
    }
}

/// A batch: outputs that were written back together and become durable by the same commit.
struct Batch {
    /// The commit count or transaction number at which the batch is durable.
    due: u64,
    /// Total size in bytes of the batch's files.
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
    /// Makes a tracker that reads the journal at most once in each period `poll`, unless the queue
    /// of waiting files is half full. The tracker expects a journal commit in every `interval`.
    pub fn new(evidence: Evidence, poll: Duration, interval: Duration) -> JournalTracker {
        let stall_limit = (interval + Duration::from_secs(1)) * INTERVALS_MAX;
        JournalTracker { evidence, poll, stall_limit, waiting: Queue::new(usize::MAX), progress: Mutex::default() }
    }

    /// Limits the files that wait for their write-back to `files_max` descriptors. When half of
    /// this number wait, they are written back even if `poll` has not passed. A job that reaches
    /// the limit waits for the write-back.
    pub fn with_files_max(self, files_max: usize) -> JournalTracker {
        JournalTracker { waiting: Queue::new(files_max), ..self }
    }

    /// Makes a tracker as [`new`](JournalTracker::new) does, with an explicit time after which a
    /// journal without progress is considered stuck.
    pub fn with_patience(evidence: Evidence, poll: Duration, stall_limit: Duration) -> JournalTracker {
        JournalTracker { stall_limit, ..JournalTracker::new(evidence, poll, Duration::ZERO) }
    }

    /// Does the work that is due: writes back new outputs, then checks whether older outputs are
    /// durable. Forces a commit if the journal cannot be read, or made no progress for
    /// `stall_limit`.
    fn ask(&self, progress: &mut Progress, fs: &dyn FileSystem, io_stats: &IoStats) {
        let (saved, _) = self.write_back(io_stats); // here and below, the handles report the error
        let entered = if saved.is_empty() { Ok(()) } else { progress.enter(saved, fs, self.evidence) };
        if entered.and_then(|()| progress.look(fs, self.evidence)).is_err() || progress.is_stuck(self.stall_limit) {
            let _ = progress.force(fs, io_stats);
        }
    }

    /// Writes back the waiting outputs. Returns the outputs that still need a commit to become
    /// durable, and the first error. An error of a file fails only the handle of the file's job.
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
    /// Adds outputs of jobs that were just written back to the batches. The outputs wait for a
    /// commit even if this call returns an error.
    fn enter(&mut self, builds: Vec<Waiting>, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        let due = self.due(&builds, fs, evidence);
        if self.batches.is_empty() {
            self.moved = Some(Instant::now());
        }
        self.batches.push_back(Batch::of(builds, *due.as_ref().unwrap_or(&u64::MAX)));
        due.and_then(|_| journal_of(fs)?.join_transaction())
    }

    /// Returns the commit count, or the transaction number, at which `builds` are durable.
    fn due(&self, builds: &[Waiting], fs: &dyn FileSystem, evidence: Evidence) -> io::Result<u64> {
        if evidence == Evidence::Count {
            return Ok(journal_of(fs)?.commit_count()? + COMMITS);
        }
        let (journal, now) = (journal_of(fs)?, self.count(fs, evidence)?);
        // The names of the job's files become durable with the transaction that changes the
        // directory. If the sync of one of the files was cancelled, possibly no remaining file
        // reports that transaction. The job then waits for two more commits.
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

    /// Reads the progress of the journal and completes the batches that are durable.
    fn look(&mut self, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let commits = self.count(fs, evidence)?;
        if commits == self.commits && self.batches[0].due > commits {
            return Ok(());
        }
        (self.commits, self.moved) = (commits, Some(Instant::now()));
        // The tracker joins a transaction after it has read the commit count. If the journal was
        // aborted, the join fails. If the join succeeds, all counted commits were made before any
        // abort.
        journal_of(fs)?.join_transaction()?;
        let due = self.batches.partition_point(|batch| batch.due <= commits);
        self.batches.drain(..due).flat_map(|batch| batch.completers).for_each(Completer::keep);
        Ok(())
    }

    fn is_stuck(&self, stall_limit: Duration) -> bool {
        !self.batches.is_empty() && self.moved.is_some_and(|moved| moved.elapsed() > stall_limit)
    }

    /// Forces a commit, as the mode `group` does. Every handle is then durable or failed.
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
