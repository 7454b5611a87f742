//! Python iterators over the write history.
use crate::{batch::WriteBatch, error, walk::Walk};
use pyo3::prelude::*;
use std::sync::Arc;

/// An iterator over the batches of the write history.
#[pyclass(module = "terracedb", frozen)]
pub struct Updates(pub Arc<Walk<terrace::Updates>>);

#[pymethods]
impl Updates {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(u64, WriteBatch)>> {
        let next = py.detach(|| self.0.with(Iterator::next));
        let update = next.and_then(Option::transpose).map_err(|error| error::raised(py, &error))?;
        Ok(update.map(|update| (update.last_sequence(), WriteBatch::holding(update.batch))))
    }
}
