//! SnapshotStripes (iterators) that hold resources of a store and release them when the store is
//! closed.
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use terrace::{Error, Result};

/// A reader that the store can end.
pub struct Walk<T> {
    reader: Mutex<Option<T>>,
    /// Set before the reader is removed; can be read without waiting for a running read.
    ended: AtomicBool,
}

impl<T> Walk<T> {
    /// Returns a live reader.
    pub fn new(reader: T) -> Walk<T> {
        Walk { reader: Mutex::new(Some(reader)), ended: AtomicBool::new(false) }
    }

    /// Reads; fails with [`Error::Closed`] after the end. The caller must not hold the
    /// interpreter's lock, since another thread may be reading.
    pub fn with<U>(&self, read: impl FnOnce(&mut T) -> U) -> Result<U> {
        self.lock().as_mut().map(read).ok_or(Error::Closed)
    }

    /// Returns whether the reader has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of any type.
pub trait Ends: Send + Sync {
    /// Ends the reader; later reads fail with `ClosedError`.
    fn end(&self);
}

impl<T: Send> Ends for Walk<T> {
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        drop(self.lock().take());
    }
}
