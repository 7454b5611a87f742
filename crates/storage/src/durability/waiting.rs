//! The queue of finished outputs of jobs that wait for the next batch sync.
use super::Finished;
use crate::{Completer, DurabilityHandle, IoStats, Result};
use parking_lot::Mutex;

/// The output files of a job whose durability handle is pending.
pub(super) struct Waiting {
    pub files: Vec<Finished>,
    pub completer: Completer,
    /// Whether the sync of some of the job's files was cancelled.
    pub lacks_some: bool,
}

impl Waiting {
    /// Returns whether the job has nothing left to sync. If the sync of some of its files was
    /// cancelled, the result is false: the directory with the names of these files must still be
    /// synced. The commit of the job's version edit may depend on a sync of the directory that
    /// follows the end of the job.
    pub fn is_saved(&self) -> bool {
        !self.lacks_some && self.files.iter().all(Finished::is_saved)
    }

    /// Returns the number of the job's bytes that are not durable yet.
    pub fn unsaved(&self) -> u64 {
        self.files.iter().filter(|file| !file.is_saved()).map(|file| file.bytes).sum()
    }
}

/// The outputs of all jobs that wait for a batch sync, oldest first. Each file keeps the
/// descriptor that wrote it, so the number of waiting files is limited.
pub(super) struct Queue {
    builds: Mutex<Vec<Waiting>>, // leaf lock; no I/O under it
    files_max: usize,
}

impl Queue {
    /// Makes a queue for about `files_max` descriptors.
    pub fn new(files_max: usize) -> Queue {
        Queue { builds: Mutex::default(), files_max }
    }

    /// Queues the files of a job. If the queue is then full, calls `begin`, which syncs or writes
    /// back all queued files. The job waits for this call.
    pub fn watch(
        &self,
        files: Vec<Finished>,
        io_stats: &IoStats,
        begin: impl FnOnce() -> Result<bool>,
    ) -> DurabilityHandle {
        let handle = self.add(files);
        if self.is_full() {
            let _awaits = io_stats.wait_for_syncs(); // another batch sync may be running
            let _ = begin(); // the handles report the error
        }
        handle
    }

    fn add(&self, files: Vec<Finished>) -> DurabilityHandle {
        let (handle, completer) = DurabilityHandle::pending();
        self.builds.lock().push(Waiting { files, completer, lacks_some: false });
        handle
    }

    /// Removes all queued outputs and returns them.
    pub fn take(&self) -> Vec<Waiting> {
        std::mem::take(&mut *self.builds.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.builds.lock().is_empty()
    }

    /// Returns whether so many files wait that a batch sync should begin early.
    pub fn is_crowded(&self) -> bool {
        self.descriptors() >= self.files_max / 2
    }

    /// Returns whether the queue is full. If so, the job that filled it must begin a batch sync.
    fn is_full(&self) -> bool {
        self.descriptors() >= self.files_max
    }

    /// Returns the number of descriptors that the waiting files keep open. Files on raw devices and
    /// directory tables have no descriptor.
    fn descriptors(&self) -> usize {
        let builds = self.builds.lock();
        builds.iter().flat_map(|build| &build.files).filter(|file| file.file.descriptor().is_some()).count()
    }

    /// Removes the file `name` from the outputs of its job and returns it. The caller must hold no
    /// lock when it drops the result, because the drop closes the file.
    pub fn cancel_sync(&self, name: &str) -> Option<Finished> {
        self.builds.lock().iter_mut().find_map(|build| {
            let at = build.files.iter().position(|file| file.name == name)?;
            build.lacks_some = true;
            Some(build.files.swap_remove(at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use terrace_vfs::{FileSystem, MemFs, RealFs};

    #[test]
    fn only_files_with_a_descriptor_fill_the_queue() {
        let directory = tempfile::tempdir().unwrap();
        let (real, memory) = (RealFs::new(directory.path()), MemFs::new());
        memory.make_directory().unwrap();
        let finished = |fs: &dyn FileSystem, name: &str| {
            let file = fs.create(name).unwrap();
            Finished { name: name.into(), file, bytes: 0, purpose: Purpose::Other }
        };
        let queue = Queue::new(4);
        let state = || (queue.is_crowded(), queue.is_full());
        (0..9).for_each(|n| drop(queue.add(vec![finished(&memory, &n.to_string())])));
        drop(queue.add(vec![finished(&real, "a")]));
        assert_eq!(state(), (false, false));
        drop(queue.add(vec![finished(&real, "b"), finished(&real, "c"), finished(&real, "d")]));
        assert_eq!(state(), (true, true));
        assert!(queue.cancel_sync("c").is_some() && queue.cancel_sync("c").is_none());
        assert_eq!(state(), (true, false));
        assert_eq!(queue.take().len(), 11);
        assert_eq!((state(), queue.is_empty()), ((false, false), true));
    }
}
