//! Iterators over the write history.
use crate::{batch::WriteBatch, store::Store, walk::Walk};
use pyo3::prelude::*;
use std::sync::Arc;

/// An iterator over the batches of the write history.
#[pyclass(module = "terracedb", frozen)]
pub struct Updates {
    store: Arc<Store>,
    walk: Arc<Walk<terrace::Updates>>,
}

impl Updates {
    /// Returns an iterator over the batches after `sequence`.
    pub fn new(py: Python<'_>, store: Arc<Store>, sequence: u64) -> PyResult<Updates> {
        let walk = store.walk(py, |db| db.updates_since(sequence))?;
        Ok(Updates { store, walk })
    }
}

#[pymethods]
impl Updates {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(u64, WriteBatch)>> {
        let update = self.store.wait(py, || self.walk.with(Iterator::next)?.transpose())?;
        Ok(update.map(|update| (update.last_sequence(), WriteBatch::holding(update.batch))))
    }
}
