//! An open store: the calls into the engine, and the readers, which end when the store is closed.
//!
//! Every call into the engine runs without the interpreter's lock. It may wait for storage, or for
//! a lock that a background thread holds while it waits for the interpreter to run a comparator.
use crate::{
    order::Order,
    walk::{Ends, Walk},
};
use pyo3::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use terrace::{Error, KeyOrder, Result};

/// Returns the exception for an error of the engine. Each Python module has exceptions of its own.
pub type Raise = fn(Python<'_>, &Error) -> PyErr;

/// An open store, until it is closed.
pub struct Store {
    /// The lock guards only the handle. No call into the engine or the interpreter runs under it.
    open: Mutex<Option<Open>>,
    /// A custom order of keys, defined in Python.
    order: Option<Arc<Order>>,
    raise: Raise,
    /// Whether a lack of space has stopped writes; see [`write`](Store::write).
    full: AtomicBool,
}

struct Open {
    db: terrace::Db,
    /// The live readers, which end when the store is closed.
    walks: Vec<Weak<dyn Ends>>,
}

impl Store {
    /// Returns an open store. `order` is the custom order of `db`, if it has one.
    pub fn new(db: terrace::Db, order: Option<Arc<Order>>, raise: Raise) -> Store {
        Store { open: Mutex::new(Some(Open { db, walks: Vec::new() })), order, raise, full: AtomicBool::new(false) }
    }

    /// Returns whether the store is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Returns an error if the store is closed.
    pub fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closed() { Err(self.closed(py)) } else { Ok(()) }
    }

    /// Returns the order of the keys.
    pub fn order(&self) -> KeyOrder {
        self.order.clone().map_or(KeyOrder::Bytewise, |order| KeyOrder::Custom(order))
    }

    /// Calls `act` with the open store.
    pub fn run<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce(&terrace::Db) -> Result<T>) -> PyResult<T> {
        let db = self.lock().as_ref().map(|open| open.db.clone());
        let db = db.ok_or_else(|| self.closed(py))?;
        self.wait(py, move || act(&db))
    }

    /// Calls `act`, which writes to the open store. If the disk was full, resumes writes first; if
    /// that is not possible yet, `act` fails. This function is for interfaces that have no call to
    /// resume writes.
    pub fn write<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce(&terrace::Db) -> Result<T>) -> PyResult<T> {
        self.run(py, |db| {
            if self.full.load(Ordering::Relaxed) && db.resume().is_ok() {
                self.full.store(false, Ordering::Relaxed);
            }
            act(db).inspect_err(|error| {
                if error.is_no_space() {
                    self.full.store(true, Ordering::Relaxed);
                }
            })
        })
    }

    /// Calls `act`, which uses the engine. An exception that the comparator raised meanwhile is
    /// raised again here.
    pub fn wait<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce() -> Result<T>) -> PyResult<T> {
        let value = catch(py, act)?.map_err(|error| self.error(py, &error))?;
        self.order.as_ref().and_then(|order| order.take_interrupt()).map_or(Ok(value), Err)
    }

    /// Returns the reader that `make` creates. The reader ends when the store is closed.
    pub fn walk<T: Send + 'static>(
        &self,
        py: Python<'_>,
        make: impl Send + FnOnce(&terrace::Db) -> Result<T>,
    ) -> PyResult<Arc<Walk<T>>> {
        let walk = Arc::new(Walk::new(self.run(py, make)?));
        let handle: Weak<dyn Ends> = Arc::<Walk<T>>::downgrade(&walk);
        if self.track(handle) { Ok(walk) } else { Err(self.closed(py)) }
    }

    /// Records a live reader. Returns false if the store is closed.
    fn track(&self, walk: Weak<dyn Ends>) -> bool {
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return false };
        open.walks.retain(|walk| walk.strong_count() > 0);
        open.walks.push(walk);
        true
    }

    /// Refuses a key that the custom order cannot compare with itself: raises the exception of the
    /// comparator. So a key of a wrong form does not reach the store.
    pub fn check_key(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        let Some(order) = &self.order else { return Ok(()) };
        self.wait(py, || {
            terrace::Comparator::compare(&**order, key, key);
            Ok(())
        })
    }

    /// Closes the store. Does nothing if it is closed already.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(open) = self.lock().take() else { return Ok(()) };
        self.wait(py, move || {
            open.walks.iter().filter_map(Weak::upgrade).for_each(|walk| walk.end());
            open.db.close()
        })
    }

    /// Returns the exception for a closed store.
    pub fn closed(&self, py: Python<'_>) -> PyErr {
        self.error(py, &Error::Closed)
    }

    /// Returns the exception for `error`. If writes have stopped since the comparator raised an
    /// exception, that exception is its cause.
    pub fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        let raised = (self.raise)(py, error);
        if let (Some(order), Error::FailStopped(_) | Error::Bug(_)) = (&self.order, error) {
            raised.set_cause(py, order.failure(py));
        }
        raised
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(open) = self.lock().take() {
            drop_detached(open);
        }
    }
}

/// Calls `act` without the interpreter's lock. If a comparator unwinds with an exception, returns
/// the exception.
pub fn catch<T: Send>(py: Python<'_>, act: impl Send + FnOnce() -> T) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(act))).or_else(|panic| match panic.downcast::<PyErr>() {
        Ok(raised) => Err(*raised),
        Err(panic) => resume_unwind(panic),
    })
}

/// Drops `value`, which may wait for locks of the engine, without the interpreter's lock.
pub fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    // Without an interpreter, or at its end, there is no lock to release.
    Python::try_attach(|py| py.detach(|| drop(value.take())));
}
