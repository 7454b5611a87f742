//! Readers (iterators) that hold resources of a store. When the store is closed, they release the
//! resources.
use crate::store::drop_detached;
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use terrace::{Error, Result};

/// A reader that the store can end.
pub struct Walk<T: Send> {
    reader: Mutex<Option<T>>,
    /// Whether the reader was ended. It is set before the reader is dropped, and it can be read
    /// without waiting for a running read.
    ended: AtomicBool,
}

impl<T: Send> Walk<T> {
    /// Returns a live reader.
    pub fn new(reader: T) -> Walk<T> {
        Walk { reader: Mutex::new(Some(reader)), ended: AtomicBool::new(false) }
    }

    /// Calls `read` with the reader, or fails with [`Error::Closed`] if the reader has ended. The
    /// caller must not hold the interpreter's lock, because this function may wait for a read of
    /// another thread.
    pub fn with<U>(&self, read: impl FnOnce(&mut T) -> U) -> Result<U> {
        self.lock().as_mut().map(read).ok_or(Error::Closed)
    }

    /// Ends the reader and returns it, unless it has ended before.
    pub fn take(&self) -> Option<T> {
        self.ended.store(true, Ordering::Release);
        self.lock().take()
    }

    /// Returns whether the reader has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Drop for Walk<T> {
    fn drop(&mut self) {
        if let Some(reader) = self.lock().take() {
            drop_detached(reader);
        }
    }
}

/// A reader of any type.
pub trait Ends: Send + Sync {
    /// Ends the reader; later reads fail with `ClosedError`.
    fn end(&self);
}

impl<T: Send> Ends for Walk<T> {
    fn end(&self) {
        drop(self.take());
    }
}
