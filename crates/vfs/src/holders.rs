//! Who holds a directory that lives in this process: one to write, or any number to read.
use crate::fs::DirectoryLock;
use parking_lot::Mutex;
use std::{io, sync::Arc};

/// The lock of one directory.
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
    /// Takes it; `WouldBlock` if that cannot be beside who holds it.
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

/// One hold; given up when it is dropped.
pub(crate) struct Hold {
    of: Holders,
    first: bool,
}

impl Hold {
    /// Whether nobody held the directory when this was taken.
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
