//! Flushes of one file side by side, none of which promises what another was told has failed.
//!
//! The kernel tells of a write that failed once for each description of a file (`errseq_t`). Two flushes by one description could be told
//! different things of one failure, so each has one of its own for as long as it runs. All of them are opened with the device: one that is
//! opened later knows nothing of what was told before.
use super::node::Whole;
use std::{
    fs::File,
    io::{Error, Result},
    ops::Range,
    os::fd::AsRawFd,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// How many flushes run at once; others wait.
const COUNT: usize = 4;

pub struct Flushers {
    idle: Mutex<Vec<Flusher>>,
    returned: Condvar,
    /// One has failed: what the device holds is unknown from then on.
    failed: AtomicBool,
}

struct Flusher {
    file: File,
    /// Without it, all of the device is flushed whenever a part of it is to be.
    whole: Option<Whole>,
}

impl Flushers {
    /// Of `file`, which has `bytes` and is a block device if `is_node`.
    pub fn new(file: &File, bytes: u64, is_node: bool) -> Result<Flushers> {
        // To write, though nothing is written through them: `msync` passes over what was mapped by a description that only reads.
        let mut writing = File::options();
        let writing = writing.read(true).write(true);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut files: Vec<File> = (0..COUNT).filter_map(|_| writing.open(&path).ok()).collect();
        if files.is_empty() {
            files.push(file.try_clone()?); // where this is refused; it shares the lock, so a child that inherits it keeps that
        }
        let flusher = |file| Flusher { whole: if is_node { Whole::map(&file, bytes).ok() } else { None }, file };
        let idle = Mutex::new(files.into_iter().map(flusher).collect());
        Ok(Flushers { idle, returned: Condvar::new(), failed: AtomicBool::new(false) })
    }

    /// All that was written so far is durable at return.
    pub fn flush(&self) -> Result<()> {
        self.run(|flusher| flusher.file.sync_data())
    }

    /// What was written to `ranges` so far, which lie within the device, is durable at return.
    pub fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.run(|Flusher { file, whole }| match whole {
            Some(whole) => whole.flush(file, ranges),
            None => file.sync_data(),
        })
    }

    fn run(&self, flush: impl FnOnce(&Flusher) -> Result<()>) -> Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut idle = self.returned.wait_while(idle, |idle| idle.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let flusher = idle.pop().expect("there is one");
        drop(idle);
        let outcome = flush(&flusher);
        if outcome.is_err() {
            self.failed.store(true, Ordering::SeqCst); // before anybody else has this description, which will not tell again
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(flusher);
        self.returned.notify_one();
        match outcome {
            Ok(()) if self.failed.load(Ordering::SeqCst) => Err(Error::other("another flush failed")),
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Barrier, thread};

    #[test]
    fn nobody_is_promised_what_another_was_told_has_failed() {
        let file = tempfile::tempfile().unwrap();
        let flushers = Flushers::new(&file, 4096, false).unwrap();
        flushers.flush().unwrap();
        let (begun, failed) = (Barrier::new(2), Barrier::new(2));
        let beside = |_: &Flusher| {
            begun.wait();
            failed.wait();
            Ok(())
        };
        thread::scope(|scope| {
            let beside = scope.spawn(|| flushers.run(beside));
            begun.wait();
            let told = flushers.run(|_| Err(Error::other("the drive is gone"))).unwrap_err();
            assert_eq!(told.to_string(), "the drive is gone");
            failed.wait();
            assert!(beside.join().unwrap().is_err(), "the one beside it was promised");
        });
        for _ in 0..2 * COUNT {
            assert!(flushers.flush().is_err(), "a later one was promised");
        }
    }
}
