//! The Python class `Snapshot`.
use crate::{
    arguments::Bytes,
    db::Db,
    error,
    pairs::{Pairs, Part},
    range::Range,
};
use pyo3::{exceptions::PyKeyError, prelude::*, types::PyBytes};

/// A read-only view of a store at the moment when the snapshot was created.
#[pyclass(module = "terracedb", frozen)]
pub struct Snapshot {
    db: Py<Db>,
    held: std::sync::Mutex<Option<terrace::Snapshot>>,
    sequence: u64,
}

impl Snapshot {
    /// Returns a snapshot of `db`.
    pub fn new(db: Py<Db>, held: terrace::Snapshot) -> Snapshot {
        Snapshot { db, sequence: held.sequence(), held: std::sync::Mutex::new(Some(held)) }
    }

    fn held(&self, py: Python<'_>) -> PyResult<terrace::Snapshot> {
        let held = self.held.lock().expect("no code panics under this lock");
        held.clone().ok_or_else(|| error::closed(py))
    }

    fn pairs(&self, py: Python<'_>, range: Range<'_>, reverse: bool, part: Part) -> PyResult<Pairs> {
        self.db.get().pairs(py, range, Some(&self.held(py)?), reverse, part)
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the sequence number of the last visible write.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sequence
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.db.get().value(py, &key, Some(&self.held(py)?))?;
        Ok(value.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.db.get().value(py, &key, Some(&self.held(py)?))?;
        value.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.db.get().value(py, &key, Some(&self.held(py)?))?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.keys(py, None, None, None, false)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Pairs> {
        self.pairs(py, Range { start, stop, prefix }, reverse, Part::Keys)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Pairs> {
        self.pairs(py, Range { start, stop, prefix }, reverse, Part::Values)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Pairs> {
        self.pairs(py, Range { start, stop, prefix }, reverse, Part::Both)
    }

    /// Releases the snapshot, so that obsolete data can be dropped.
    fn release(&self) {
        self.held.lock().expect("no code panics under this lock").take();
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) {
        self.release();
    }
}
