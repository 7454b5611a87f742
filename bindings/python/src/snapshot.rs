//! The Python class `Snapshot`.
use crate::{
    column_family::ColumnFamily,
    db::Db,
    reads::Reads,
    space::Space,
    store::{Store, drop_detached},
};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use terrace::ReadOptions;

/// A snapshot of the engine, until it is released.
pub struct Held {
    snapshot: Mutex<Option<terrace::Snapshot>>,
    /// The sequence number of the last visible write.
    pub sequence: u64,
}

impl Held {
    /// Returns a snapshot of `store`.
    pub fn new(py: Python<'_>, store: &Store) -> PyResult<Held> {
        let snapshot = store.run(py, |db| Ok(db.snapshot()))?;
        Ok(Held { sequence: snapshot.sequence(), snapshot: Mutex::new(Some(snapshot)) })
    }

    /// Returns read options that read at the snapshot, or `None` if it was released.
    pub fn options(&self) -> Option<ReadOptions> {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map(|snapshot| ReadOptions::new().snapshot(snapshot))
    }

    /// Releases the snapshot, so that obsolete data can be dropped.
    pub fn release(&self) {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(snapshot) = snapshot {
            drop_detached(snapshot);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// A read-only view of a key space at the moment when the snapshot was created.
#[pyclass(module = "terracedb", frozen, subclass, extends = Reads)]
pub struct Snapshot {
    held: Arc<Held>,
}

#[pymethods]
impl Snapshot {
    /// Takes a snapshot of the store `source`, or shows the snapshot `source` in another key space.
    #[new]
    #[pyo3(signature = (source, family=None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        family: Option<PyRef<'_, ColumnFamily>>,
    ) -> PyResult<PyClassInitializer<Snapshot>> {
        let (space, held) = match (source.cast::<Snapshot>(), &family) {
            (Ok(other), Some(family)) => (family.space.clone(), other.get().held.clone()),
            _ => {
                let store = source.cast::<Db>()?.get().store.clone();
                let held = Held::new(py, &store)?;
                (Space::of(store), Arc::new(held))
            }
        };
        let reads = Reads { space, held: Some(held.clone()) };
        Ok(PyClassInitializer::from(reads).add_subclass(Snapshot { held }))
    }

    /// Returns the sequence number of the last visible write.
    #[getter]
    fn sequence(&self) -> u64 {
        self.held.sequence
    }

    /// Releases the snapshot, so that obsolete data can be dropped.
    fn release(&self) {
        self.held.release();
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) {
        self.release();
    }
}
