//! A lock on a directory within this process: it excludes other holders in the same process. The
//! lock has either one writer or any number of readers.
use crate::fs::DirectoryLock;
use parking_lot::Mutex;
use std::{io, sync::Arc};

/// The lock of one directory. Clones refer to the same lock.
#[derive(Clone, Default)]
pub(crate) struct Holders(Arc<Mutex<Held>>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Held {
    #[default]
    Free,
    Shared(usize),
    Exclusive,
}

impl Holders {
    /// Takes the lock, exclusively or shared. Returns `WouldBlock` if another holder prevents it.
    pub fn hold(&self, exclusive: bool) -> io::Result<Hold> {
        let mut held = self.0.lock();
        let first = *held == Held::Free;
        *held = match (*held, exclusive) {
            (Held::Free, true) => Held::Exclusive,
            (Held::Free, false) => Held::Shared(1),
            (Held::Shared(count), false) => Held::Shared(count + 1),
            _ => return Err(io::Error::new(io::ErrorKind::WouldBlock, "another handle holds the lock")),
        };
        Ok(Hold { of: self.clone(), first })
    }
}

impl DirectoryLock for Hold {}

/// One holder of the lock. Dropping this value releases the lock.
pub(crate) struct Hold {
    of: Holders,
    first: bool,
}

impl Hold {
    /// Returns whether the lock was free when this holder took it.
    pub fn is_first(&self) -> bool {
        self.first
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.of.0.lock();
        *held = match *held {
            Held::Shared(count) if count > 1 => Held::Shared(count - 1),
            _ => Held::Free,
        };
    }
}
