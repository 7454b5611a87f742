//! `RawIterator`.
use super::error;
use crate::{
    arguments::Bytes,
    store::Store,
    walk::{Ends, Walk},
};
use pyo3::{prelude::*, types::PyBytes};
use std::sync::Arc;
use terrace::{Cursor, ReadOptions, Result};

/// An iterator with LevelDB's interface. It is at a pair, or not valid.
#[pyclass(module = "terracedb.plyvel", frozen, weakref)]
pub struct RawIterator {
    store: Arc<Store>,
    walk: Arc<Walk<Cursor>>,
}

impl RawIterator {
    /// Returns an iterator that is not valid yet.
    pub fn new(py: Python<'_>, store: Arc<Store>, options: ReadOptions) -> PyResult<RawIterator> {
        let walk = store.walk(py, |db| Ok(db.cursor(options)))?;
        Ok(RawIterator { store, walk })
    }

    fn with<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce(&mut Cursor) -> Result<T>) -> PyResult<T> {
        self.store.wait(py, || self.walk.with(act)?)
    }

    /// Calls `act` with the valid cursor.
    fn at_pair<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce(&mut Cursor) -> Result<T>) -> PyResult<T> {
        self.with(py, |cursor| if cursor.valid() { act(cursor).map(Some) } else { Ok(None) })?
            .ok_or_else(|| error::invalid_iterator(py))
    }
}

#[pymethods]
impl RawIterator {
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |cursor| Ok(cursor.valid()))
    }

    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Cursor::seek_to_first)
    }

    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Cursor::seek_to_last)
    }

    fn seek(&self, py: Python<'_>, target: Bytes<'_>) -> PyResult<()> {
        self.with(py, |cursor| cursor.seek(&target))
    }

    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.at_pair(py, Cursor::next)
    }

    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.at_pair(py, Cursor::prev)
    }

    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.at_pair(py, |cursor| Ok(cursor.key().to_vec()))?))
    }

    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.at_pair(py, |cursor| Ok(cursor.value().to_vec()))?))
    }

    fn item<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (key, value) = self.at_pair(py, |cursor| Ok((cursor.key().to_vec(), cursor.value().to_vec())))?;
        Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.walk.end());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) {
        self.close(py);
    }
}
