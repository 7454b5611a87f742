//! Tiers `journal` and `journal-bpf`: builds become durable by the commits that the file system's journal makes anyway. None is
//! forced.
//!
//! ```text
//! 1  write back the bytes of each file           without that, a commit is worth nothing (see `batch.rs`)
//! 2  count the commits that are over: c0         by now every inode is in a transaction that commits as c0 + 2 or before
//! 3  beat                                        an idle journal commits nothing
//! 4  ask now and then, and beat whenever the count has moved, until it is c0 + 2
//! 5  beat once more                              an aborted journal goes on counting, but refuses a beat
//! ```
//! Why + 2: a commit is counted as its last act, and commits come one by one. So at any moment at most two transactions are
//! not counted: one that is being committed, and behind it the one that runs, of which the inodes written back so far are
//! part at the latest. With + 1 it might be the first of them that was waited for.
//!
//! Where the kernel tells the transaction of each file (`bpf/`), steps 2 and 4 ask for that one instead, and step 2 first makes
//! sure that the inode takes part in the transaction that runs.
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

/// What tells that a commit has what was written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The journal's public count.
    Count,
    /// The transactions that files wait for.
    Transactions,
}

/// Commits that must follow a count for all that was written back before it to be durable.
const COMMITS: u64 = 2;
/// A journal that makes no progress for so many of its intervals, each a second longer, is not waited for any longer.
const INTERVALS_MAX: u32 = 3;

/// Tickets mature in batches: what was written back before one count.
pub struct JournalTracker {
    evidence: Evidence,
    poll: Duration,
    patience: Duration,
    waiting: Queue,            // so that builds do not wait for a batch, unless too many files do
    progress: Mutex<Progress>, // held while files are written back and the journal is asked; taken before `waiting`
}

/// How far the journal is, and who waits for it.
struct Progress {
    /// In the order in which they are due.
    batches: VecDeque<Batch>,
    /// The last count; of transactions the number, as if it did not wrap.
    commits: u64,
    /// When it moved last, or when somebody began to wait for it to move.
    moved: Option<Instant>,
    asked: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Progress {
        // Any number that was never near a wrap: the first transaction seen may be one of either half.
        Progress { batches: VecDeque::new(), commits: 1 << 32, moved: None, asked: None }
    }
}

/// Builds whose files were written back.
struct Batch {
    /// The count that makes them durable.
    due: u64,
    /// Of those files.
    bytes: u64,
    maturities: Vec<Completer>,
}

impl Batch {
    fn of(builds: Vec<Waiting>, due: u64) -> Batch {
        let bytes = builds.iter().map(Waiting::unsaved).sum();
        Batch { due, bytes, maturities: builds.into_iter().map(|build| build.maturity).collect() }
    }
}

impl JournalTracker {
    /// Asks once in `poll` at most, unless too many files wait, and relies on a journal that commits every `interval`.
    pub fn new(evidence: Evidence, poll: Duration, interval: Duration) -> JournalTracker {
        let patience = (interval + Duration::from_secs(1)) * INTERVALS_MAX;
        JournalTracker { evidence, poll, patience, waiting: Queue::new(usize::MAX), progress: Mutex::default() }
    }

    /// With descriptors for `files_max` files that wait: at half as many they are written back whatever `poll` says, and who fills the queue
    /// waits for that.
    pub fn with_files_max(self, files_max: usize) -> JournalTracker {
        JournalTracker { waiting: Queue::new(files_max), ..self }
    }

    /// As [`new`](JournalTracker::new), with a limit of its own to how long the journal may stand still.
    pub fn with_patience(evidence: Evidence, poll: Duration, patience: Duration) -> JournalTracker {
        JournalTracker { patience, ..JournalTracker::new(evidence, poll, Duration::ZERO) }
    }

    /// Looks after new builds, then after old ones. Whatever cannot be told by asking is decided by force.
    fn ask(&self, progress: &mut Progress, fs: &dyn FileSystem, traffic: &IoStats) {
        let (saved, _) = self.write_back(traffic); // here and below, a failure is its tickets' to tell
        let entered = if saved.is_empty() { Ok(()) } else { progress.enter(saved, fs, self.evidence) };
        if entered.and_then(|()| progress.look(fs, self.evidence)).is_err() || progress.is_stuck(self.patience) {
            let _ = progress.force(fs, traffic);
        }
    }

    /// Writes back what waits. The builds that a commit will make durable now, and the first failure: it is its own build's alone.
    fn write_back(&self, traffic: &IoStats) -> (Vec<Waiting>, Result<()>) {
        let (mut saved, mut outcome) = (Vec::new(), Ok(()));
        for build in self.waiting.take() {
            match build.files.iter().try_for_each(|file| file.write_back(traffic)) {
                Ok(()) if build.is_saved() => build.maturity.keep(),
                Ok(()) => saved.push(build),
                Err(error) => {
                    build.maturity.fail(error.clone());
                    outcome = outcome.and(Err(error));
                }
            }
        }
        (saved, outcome)
    }
}

impl Progress {
    /// These builds were just written back. They wait from now on, whatever this returns.
    fn enter(&mut self, builds: Vec<Waiting>, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        let due = self.due(&builds, fs, evidence);
        if self.batches.is_empty() {
            self.moved = Some(Instant::now());
        }
        self.batches.push_back(Batch::of(builds, *due.as_ref().unwrap_or(&u64::MAX)));
        due.and_then(|_| journal_of(fs)?.join_transaction())
    }

    /// The count, or the transaction, by which `builds` are durable.
    fn due(&self, builds: &[Waiting], fs: &dyn FileSystem, evidence: Evidence) -> io::Result<u64> {
        if evidence == Evidence::Count {
            return Ok(journal_of(fs)?.commit_count()? + COMMITS);
        }
        let (journal, now) = (journal_of(fs)?, self.count(fs, evidence)?);
        // No file is left that would tell when the names of that moment are committed.
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

    /// Asks how far the journal is.
    fn look(&mut self, fs: &dyn FileSystem, evidence: Evidence) -> io::Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let commits = self.count(fs, evidence)?;
        if commits == self.commits && self.batches[0].due > commits {
            return Ok(());
        }
        (self.commits, self.moved) = (commits, Some(Instant::now()));
        journal_of(fs)?.join_transaction()?; // behind the count: what was counted before the journal was aborted has been committed
        let due = self.batches.partition_point(|batch| batch.due <= commits);
        self.batches.drain(..due).flat_map(|batch| batch.maturities).for_each(Completer::keep);
        Ok(())
    }

    fn is_stuck(&self, patience: Duration) -> bool {
        !self.batches.is_empty() && self.moved.is_some_and(|moved| moved.elapsed() > patience)
    }

    /// Commits now, as tier `group` does. Decides every ticket.
    fn force(&mut self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let committed = journal_of(fs)
            .and_then(JournalCommit::commit)
            .map_err(|e| Error::io("commit the journal of", fs.name(), e));
        if committed.is_ok() {
            let bytes = self.batches.iter().map(|batch| batch.bytes).sum();
            traffic.synced(SyncKind::FileSystem, bytes, start.elapsed());
        }
        for maturity in self.batches.drain(..).flat_map(|batch| batch.maturities) {
            match &committed {
                Ok(()) => maturity.keep(),
                Err(error) => maturity.fail(error.clone()),
            }
        }
        committed
    }
}

/// The number nearest to `near` whose lower half is `number`. Transactions are numbered with 32 bits, and never stand that far
/// apart.
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

    fn is_patient(&self) -> bool {
        true
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, traffic: &IoStats) -> Result<DurabilityHandle> {
        Ok(self.waiting.watch(files, traffic, || self.advance(fs, traffic)))
    }

    fn give_up(&self, name: &str) -> Option<Finished> {
        self.waiting.give_up(name)
    }

    fn advance(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<bool> {
        let mut progress = self.progress.lock();
        if progress.batches.is_empty() && self.waiting.is_empty() {
            return Ok(false);
        }
        if progress.asked.is_none_or(|asked| asked.elapsed() >= self.poll) || self.waiting.is_crowded() {
            self.ask(&mut progress, fs, traffic);
            progress.asked = Some(Instant::now());
        }
        Ok(true)
    }

    fn commit(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        let mut progress = self.progress.lock();
        let (saved, outcome) = self.write_back(traffic);
        if !saved.is_empty() {
            progress.batches.push_back(Batch::of(saved, u64::MAX));
        }
        outcome.and(progress.force(fs, traffic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_transactions_go_on_where_they_wrap() {
        assert_eq!(unwrapped(u64::from(u32::MAX), 2), (1 << 32) + 2);
        assert_eq!(unwrapped((1 << 32) + 2, u32::MAX - 1), (1 << 32) - 2);
        assert_eq!((unwrapped(7, 7), unwrapped(7, 9)), (7, 9));
    }
}
