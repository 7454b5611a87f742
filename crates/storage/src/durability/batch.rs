//! Tiers `group` and `background`: builds are made durable many at a time, by whoever drives the tracker and not by those
//! who write, unless descriptors run out (docs/durability.md, "Tiers").
//!
//! ```text
//! group       write back the bytes of each file   no commit of the file system's journal, no device flush
//!             one commit for all of them          makes what finds those bytes durable, and their names
//! background  sync each file, then the directory  on any file system
//! ```
//! Files that one sync saves together with everything else (directory tables) need no second step.
//!
//! Both steps of `group` are needed. With delayed allocation a file's inode commits at size 0 before its bytes are written
//! back, and space that is allocated but not yet written reads as zeros, whatever has been committed.
use super::{DurabilityTracker, Finished, sync_directory, waiting::Queue};
use crate::{DurabilityHandle, Error, IoStats, Result, SyncKind};
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use terrace_vfs::{FileSystem, JournalCommit};

/// How a batch becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Writeback of each file, and one commit of the file system's journal.
    Group,
    /// A sync of each file, and one of the directory.
    Background,
}

/// Tickets mature in batches. The error of a file fails its own build, that of the last step the whole batch.
pub struct BatchTracker {
    way: Way,
    interval: Duration,
    waiting: Queue,               // so that builds do not wait for a batch, unless too many files do
    last: Mutex<Option<Instant>>, // when the last batch ended; held while one is made durable; taken before `waiting`
}

impl BatchTracker {
    /// Unless somebody asks for one, or too many files wait, `interval` passes between a batch and the next.
    pub fn new(way: Way, interval: Duration) -> BatchTracker {
        BatchTracker { way, interval, waiting: Queue::new(usize::MAX), last: Mutex::default() }
    }

    /// With descriptors for `files_max` files that wait: at half as many a batch begins whatever the interval says, and who fills the queue
    /// waits for one.
    pub fn with_files_max(self, files_max: usize) -> BatchTracker {
        BatchTracker { waiting: Queue::new(files_max), ..self }
    }

    /// Decides every ticket there is. The first failure is the answer.
    fn settle(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        let (mut saved, mut bytes, mut outcome) = (Vec::new(), 0, Ok(()));
        for build in self.waiting.take() {
            match build.files.iter().try_for_each(|file| self.save(file, traffic)) {
                Ok(()) if build.is_saved() => build.maturity.keep(),
                Ok(()) => {
                    bytes += build.unsaved();
                    saved.push(build.maturity);
                }
                Err(error) => {
                    build.maturity.fail(error.clone());
                    outcome = outcome.and(Err(error));
                }
            }
        }
        if saved.is_empty() {
            return outcome;
        }
        let finished = self.finish(fs, bytes, traffic);
        for maturity in saved {
            match &finished {
                Ok(()) => maturity.keep(),
                Err(error) => maturity.fail(error.clone()),
            }
        }
        outcome.and(finished)
    }

    fn save(&self, file: &Finished, traffic: &IoStats) -> Result<()> {
        if file.is_saved() {
            return Ok(());
        }
        match self.way {
            Way::Group => file.write_back(traffic),
            Way::Background => {
                let start = Instant::now();
                file.file.sync().map_err(|e| Error::io("sync", &file.name, e))?;
                traffic.synced(SyncKind::Tables(file.purpose), file.bytes, start.elapsed());
                Ok(())
            }
        }
    }

    /// The last step, for files of so many bytes.
    fn finish(&self, fs: &dyn FileSystem, bytes: u64, traffic: &IoStats) -> Result<()> {
        match self.way {
            Way::Group => {
                let start = Instant::now();
                super::journal_of(fs)
                    .and_then(JournalCommit::commit)
                    .map_err(|e| Error::io("commit the journal of", fs.name(), e))?;
                traffic.synced(SyncKind::FileSystem, bytes, start.elapsed());
                Ok(())
            }
            Way::Background => sync_directory(fs, traffic),
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

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, traffic: &IoStats) -> Result<DurabilityHandle> {
        Ok(self.waiting.watch(files, traffic, || self.advance(fs, traffic)))
    }

    fn give_up(&self, name: &str) -> Option<Finished> {
        self.waiting.give_up(name)
    }

    fn advance(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<bool> {
        let mut last = self.last.lock();
        if self.waiting.is_empty() {
            return Ok(false);
        }
        if last.is_none_or(|last| last.elapsed() >= self.interval) || self.waiting.is_crowded() {
            let _ = self.settle(fs, traffic); // a failure is its tickets' to tell
            *last = Some(Instant::now());
        }
        Ok(true)
    }

    fn commit(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        let mut last = self.last.lock();
        let outcome = self.settle(fs, traffic);
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
    fn a_crowd_does_not_wait_for_the_interval() {
        let directory = tempfile::tempdir().unwrap();
        let (fs, traffic) = (RealFs::new(directory.path()), IoStats::default());
        let tracker = BatchTracker::new(Way::Background, HOUR).with_files_max(4);
        tracker.commit(&fs, &traffic).unwrap(); // from here on an hour passes until the next
        let watch = |names: &[&str]| {
            let finished = |name: &&str| {
                let mut file = fs.create(name).unwrap();
                file.append(name.as_bytes()).unwrap();
                Finished { name: name.to_string(), file, bytes: name.len() as u64, purpose: Purpose::Flush }
            };
            tracker.watch(&fs, names.iter().map(finished).collect(), &traffic).unwrap()
        };
        let looked = |ticket: &DurabilityHandle| {
            tracker.advance(&fs, &traffic).unwrap();
            ticket.is_durable().unwrap()
        };
        let first = watch(&["a"]);
        assert!(!looked(&first), "one of four may wait");
        let second = watch(&["b"]);
        assert!(!first.is_durable().unwrap(), "nobody waits who brings the second");
        assert!(looked(&first) && looked(&second), "half of them have a batch begin");
        assert!(!looked(&watch(&["c"])));
        let full = watch(&["d", "e", "f"]);
        assert!(full.is_durable().unwrap(), "who brings the fourth makes the batch");
        let syncs = traffic.syncs(SyncKind::Directory);
        assert_eq!((syncs.count, syncs.blocking), (2, 1), "and the flush waited for that one");
    }
}
