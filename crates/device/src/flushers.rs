//! Concurrent flushes of one file. Each flush reports every write failure that happened before the
//! flush or during it.
//!
//! The kernel reports a write failure once per open file description (`errseq_t`). If two flushes
//! shared a description, only one of them would see the failure. Therefore each running flush uses
//! its own description. The descriptions of all flushes are opened when the device is opened,
//! because a description that is opened later does not report earlier failures.
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

/// Maximum number of concurrent flushes. Further flushes wait.
const COUNT: usize = 4;

pub struct Flushers {
    idle: Mutex<Vec<Flusher>>,
    returned: Condvar,
    /// Whether a flush failed. After a failure the device's contents are unknown.
    failed: AtomicBool,
}

struct Flusher {
    file: File,
    /// The mapping that flushes of a range use. `None` if the device can only be flushed as a
    /// whole.
    whole: Option<Whole>,
}

impl Flushers {
    /// Opens several file descriptions of `file`, which has `bytes` bytes.
    pub fn new(file: &File, bytes: u64, is_node: bool) -> Result<Flushers> {
        // The descriptions are opened for writing although nothing is written through them: `msync`
        // ignores mappings of read-only descriptions.
        let mut writing = File::options();
        let writing = writing.read(true).write(true);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut files: Vec<File> = (0..COUNT).filter_map(|_| writing.open(&path).ok()).collect();
        if files.is_empty() {
            // The file cannot be opened again, so one clone of its descriptor serves all flushes.
            // This has a disadvantage: the clone shares the file's lock, so a forked child process
            // keeps the file locked.
            files.push(file.try_clone()?);
        }
        let flusher = |file| Flusher { whole: if is_node { Whole::map(&file, bytes).ok() } else { None }, file };
        let idle = Mutex::new(files.into_iter().map(flusher).collect());
        Ok(Flushers { idle, returned: Condvar::new(), failed: AtomicBool::new(false) })
    }

    /// Makes all completed writes durable.
    pub fn flush(&self) -> Result<()> {
        self.run(|flusher| flusher.file.sync_data())
    }

    /// Makes all completed writes to `ranges`, which lie within the device, durable.
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
            // The kernel does not report this failure again through the same open file description.
            // So `failed` is set before another flush uses the description.
            self.failed.store(true, Ordering::SeqCst);
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
    fn a_failure_reported_to_one_flush_fails_the_others() {
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
            let told = flushers.run(|_| Err(Error::other("the drive failed"))).unwrap_err();
            assert_eq!(told.to_string(), "the drive failed");
            failed.wait();
            assert!(beside.join().unwrap().is_err(), "a concurrent flush succeeded");
        });
        for _ in 0..2 * COUNT {
            assert!(flushers.flush().is_err(), "a later one was promised");
        }
    }
}
