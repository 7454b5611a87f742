//! What reads from a store for as long as it likes, and must let go of it when the store is closed.
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use terrace::{Error, Result};

/// A reader that its store can end.
pub struct Walk<T> {
    reader: Mutex<Option<T>>,
    /// Set before the reader is taken away; readable without waiting for one who reads.
    ended: AtomicBool,
}

impl<T> Walk<T> {
    /// One that has not ended.
    pub fn new(reader: T) -> Walk<T> {
        Walk { reader: Mutex::new(Some(reader)), ended: AtomicBool::new(false) }
    }

    /// Reads; [`Error::Closed`] once it was ended. Call it without the interpreter's lock: another thread may be reading.
    pub fn with<U>(&self, read: impl FnOnce(&mut T) -> U) -> Result<U> {
        self.lock().as_mut().map(read).ok_or(Error::Closed)
    }

    /// Whether it was ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whatever it reads.
pub trait Ends: Send + Sync {
    /// Ends it; whoever goes on hears that the store is closed.
    fn end(&self);
}

impl<T: Send> Ends for Walk<T> {
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        drop(self.lock().take());
    }
}
