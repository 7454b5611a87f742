//! What reads from a store for as long as it likes, and must let go of it when the store is closed.
use std::sync::{Mutex, MutexGuard, PoisonError};
use terrace::{Error, Result};

/// A reader that its store can end.
pub struct Walk<T>(Mutex<Option<T>>);

impl<T> Walk<T> {
    /// One that has not ended.
    pub fn new(reader: T) -> Walk<T> {
        Walk(Mutex::new(Some(reader)))
    }

    /// Reads; [`Error::Closed`] once it was ended. Call it without the interpreter's lock: another thread may be reading.
    pub fn with<U>(&self, read: impl FnOnce(&mut T) -> U) -> Result<U> {
        self.lock().as_mut().map(read).ok_or(Error::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whatever it reads.
pub trait Ends: Send + Sync {
    /// Ends it; whoever goes on hears that the store is closed.
    fn end(&self);
}

impl<T: Send> Ends for Walk<T> {
    fn end(&self) {
        drop(self.lock().take());
    }
}
