//! Detects forks: an object knows the process that made it, so a forked child recognises that it
//! has only a copy.
//!
//! A child made by `fork` has its parent's memory and descriptors but none of its threads. A store
//! that it inherits has no flush thread, locks that may never be released, and files that the
//! parent still writes. So code that writes files, waits for threads or takes locks first checks
//! that it runs in the process that made the object.
//!
//! The check costs one load: a handler that libc runs in every child ([`kernel::at_fork`]) counts
//! forks, and a [`Process`] is the count at its creation. A child made without libc's `fork`, by
//! the system call itself, is not detected. A child that executes another program, by `vfork` or
//! `posix_spawn`, keeps nothing.
use crate::kernel;
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

/// Forks between the first process that called [`Process::current`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The id of this process; 0 before the first call of [`Process::current`].
static PID: AtomicU32 = AtomicU32::new(0);

/// A process, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
    pid: u32,
}

impl Process {
    /// The calling process.
    pub fn current() -> Process {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            PID.store(std::process::id(), Relaxed);
            kernel::at_fork(in_child);
        });
        Process { forks: FORKS.load(Relaxed), pid: PID.load(Relaxed) }
    }

    /// Whether this is the calling process, not one that it was forked from.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.pid
    }
}

impl Default for Process {
    /// The calling process.
    fn default() -> Process {
        Process::current()
    }
}

/// Runs in a child before `fork` returns there. Allocates nothing and takes no lock.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    PID.store(std::process::id(), Relaxed);
    let mut slot = Some(&FIRST);
    while let Some(Slot { descriptor, next }) = slot {
        let kept = descriptor.swap(FREE, AcqRel);
        if kept >= 0 {
            kernel::replace_in_child(kept);
        }
        slot = next.get().map(|next| &**next);
    }
}

const FREE: RawFd = -1;

/// A descriptor that children must not keep. Slots form a list that only grows; free slots are
/// reused.
struct Slot {
    descriptor: AtomicI32,
    next: OnceLock<Box<Slot>>,
}

static FIRST: Slot = Slot { descriptor: AtomicI32::new(FREE), next: OnceLock::new() };

/// Keeps a descriptor from children. While this value lives, a forked child loses the descriptor,
/// so a lock of the open file ends with the parent. In the child the number stays in use, for a
/// descriptor that can neither be read nor written.
#[derive(Debug)]
pub struct KeptFromChildren {
    slot: &'static AtomicI32,
    process: Process,
}

impl KeptFromChildren {
    /// Registers `descriptor`, which must stay open until this value is dropped. To be called
    /// before a lock is taken through it.
    pub fn new(descriptor: &impl AsFd) -> KeptFromChildren {
        let (process, descriptor) = (Process::current(), descriptor.as_fd().as_raw_fd());
        kernel::prepare_to_replace();
        let mut at = &FIRST;
        while at.descriptor.compare_exchange(FREE, descriptor, Release, Acquire).is_err() {
            at = at.next.get_or_init(|| Box::new(Slot { descriptor: AtomicI32::new(FREE), next: OnceLock::new() }));
        }
        KeptFromChildren { slot: &at.descriptor, process }
    }
}

impl Drop for KeptFromChildren {
    /// In a child the slot is already free, and may have another owner.
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
