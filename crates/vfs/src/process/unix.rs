//! Detects forks. An object stores the process that made it, so code in a forked child can
//! recognize that it has only a copy of the object.
//!
//! A child made by `fork` has the memory and descriptors of its parent but none of its threads. If
//! the child inherits an open store, the store has no flush thread in the child, its locks may
//! stay locked forever, and the parent still writes to its files. Code that writes files, waits
//! for threads or takes locks therefore first checks that it runs in the process that made the
//! object.
//!
//! The check costs one load. A handler that libc runs in every child ([`child::at_fork`]) counts
//! forks, and a [`Process`] stores the count at the time it was made. A child that is made by the
//! system call and not by libc's `fork` is not detected. A child that executes another program
//! (`vfork` or `posix_spawn`) keeps no object of its parent, so it needs no check.
use super::child;
use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{
        Once, OnceLock,
        atomic::{
            AtomicI32, AtomicU32,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

/// Number of forks between the process that first called [`Process::current`] and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The id of this process; 0 before the first call of [`Process::current`].
static PID: AtomicU32 = AtomicU32::new(0);

/// Identifies a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
    pid: u32,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> Process {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            PID.store(std::process::id(), Relaxed);
            child::at_fork(in_child);
        });
        Process { forks: FORKS.load(Relaxed), pid: PID.load(Relaxed) }
    }

    /// Returns whether this object identifies the calling process. The result is false in a process
    /// that was forked from the identified process.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.pid
    }
}

impl Default for Process {
    /// Returns the calling process.
    fn default() -> Process {
        Process::current()
    }
}

/// Handles a fork in the new child, before `fork` returns there. The handler allocates nothing and
/// takes no lock.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    PID.store(std::process::id(), Relaxed);
    let mut slot = Some(&FIRST);
    while let Some(Slot { descriptor, next }) = slot {
        let kept = descriptor.swap(FREE, AcqRel);
        if kept >= 0 {
            child::replace_in_child(kept);
        }
        slot = next.get().map(|next| &**next);
    }
}

const FREE: RawFd = -1;

/// A slot: the place for one descriptor that forked children must not keep. The list of slots only
/// grows, and free slots are reused.
struct Slot {
    descriptor: AtomicI32,
    next: OnceLock<Box<Slot>>,
}

static FIRST: Slot = Slot { descriptor: AtomicI32::new(FREE), next: OnceLock::new() };

/// A guard: forked children do not keep the descriptor. While this value exists, a forked child
/// loses its copy of the descriptor, so a lock of the open file ends with the parent. In the child
/// the descriptor's number stays in use, for a descriptor that can be neither read nor written.
#[derive(Debug)]
pub struct KeptFromChildren {
    slot: &'static AtomicI32,
    process: Process,
}

impl KeptFromChildren {
    /// Registers `descriptor`, which must stay open until this value is dropped. Must be called
    /// before a lock is taken with this descriptor.
    pub fn new(descriptor: &impl AsFd) -> KeptFromChildren {
        let (process, descriptor) = (Process::current(), descriptor.as_fd().as_raw_fd());
        child::prepare_to_replace();
        let mut at = &FIRST;
        while at.descriptor.compare_exchange(FREE, descriptor, Release, Acquire).is_err() {
            at = at.next.get_or_init(|| Box::new(Slot { descriptor: AtomicI32::new(FREE), next: OnceLock::new() }));
        }
        KeptFromChildren { slot: &at.descriptor, process }
    }
}

impl Drop for KeptFromChildren {
    /// Frees the descriptor's slot. In a forked child this drop does nothing: the slot is already
    /// free there and may belong to another value.
    fn drop(&mut self) {
        if self.process.is_current() {
            self.slot.store(FREE, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn slots_are_reused() {
        let file = File::open("/dev/null").unwrap();
        let kept: Vec<_> = (0..5).map(|_| KeptFromChildren::new(&file)).collect();
        let slots: Vec<_> = kept.iter().map(|kept| std::ptr::from_ref(kept.slot)).collect();
        assert!(slots.iter().all(|slot| slots.iter().filter(|other| *other == slot).count() == 1));
        drop(kept);
        assert!(Process::current().is_current());
    }
}
