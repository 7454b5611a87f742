//! Builds that are finished and that their tier has done nothing for yet.
use super::Finished;
use crate::{Completer, DurabilityHandle, IoStats, Result};
use parking_lot::Mutex;

/// A build whose ticket is pending.
pub(super) struct Waiting {
    pub files: Vec<Finished>,
    pub maturity: Completer,
    /// Some of its files were given up.
    pub lacks_some: bool,
}

impl Waiting {
    /// Whether nothing is due any more. Of a build without some of its files something is, names: whoever releases its edit may rely on
    /// the directory having been saved since it was finished.
    pub fn is_saved(&self) -> bool {
        !self.lacks_some && self.files.iter().all(Finished::is_saved)
    }

    /// Bytes that wait for a commit.
    pub fn unsaved(&self) -> u64 {
        self.files.iter().filter(|file| !file.is_saved()).map(|file| file.bytes).sum()
    }
}

/// All of them, oldest first. Each of their files has the descriptor that wrote it, and a process has not many.
pub(super) struct Queue {
    builds: Mutex<Vec<Waiting>>, // leaf lock; no I/O under it
    files_max: usize,
}

impl Queue {
    /// With descriptors for about `files_max` files.
    pub fn new(files_max: usize) -> Queue {
        Queue { builds: Mutex::default(), files_max }
    }

    /// Queues files of a build. If that fills the queue, `begin` has the tier do what is due for all of them, and is waited for.
    pub fn watch(
        &self,
        files: Vec<Finished>,
        traffic: &IoStats,
        begin: impl FnOnce() -> Result<bool>,
    ) -> DurabilityHandle {
        let ticket = self.add(files);
        if self.is_full() {
            let _awaits = traffic.await_others(); // as another batch may be under way
            let _ = begin(); // a failure is its tickets' to tell
        }
        ticket
    }

    fn add(&self, files: Vec<Finished>) -> DurabilityHandle {
        let (ticket, maturity) = DurabilityHandle::pending();
        self.builds.lock().push(Waiting { files, maturity, lacks_some: false });
        ticket
    }

    /// All that is queued, for whoever begins with it.
    pub fn take(&self) -> Vec<Waiting> {
        std::mem::take(&mut *self.builds.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.builds.lock().is_empty()
    }

    /// Whether so many files wait that it is time to begin with them, early as it may be.
    pub fn is_crowded(&self) -> bool {
        self.descriptors() >= self.files_max / 2
    }

    /// Whether so many wait that who brings the last of them has to begin with all.
    fn is_full(&self) -> bool {
        self.descriptors() >= self.files_max
    }

    /// Files of devices, and of builds that are saved as a whole, have none.
    fn descriptors(&self) -> usize {
        let builds = self.builds.lock();
        builds.iter().flat_map(|build| &build.files).filter(|file| file.file.descriptor().is_some()).count()
    }

    /// Takes the file called `name` out of the build that has it. It is to be dropped under no lock, which closes it.
    pub fn give_up(&self, name: &str) -> Option<Finished> {
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
    fn files_with_a_descriptor_crowd_a_queue_and_no_others() {
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
        assert!(queue.give_up("c").is_some() && queue.give_up("c").is_none());
        assert_eq!(state(), (true, false));
        assert_eq!(queue.take().len(), 11);
        assert_eq!((state(), queue.is_empty()), ((false, false), true));
    }
}
