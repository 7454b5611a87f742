//! The Python class `Snapshot`.
use crate::{
    arguments::Bytes,
    db::Db,
    pairs::{Pairs, Part},
    range::{Bounds, Range},
    reader::{Direction, ExtraBounds},
    steps::{self, Steps},
    store::{Store, drop_detached},
};
use pyo3::{exceptions::PyKeyError, prelude::*, types::PyBytes};
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

/// A read-only view of a store at the moment when the snapshot was created.
#[pyclass(module = "terracedb", frozen, subclass)]
pub struct Snapshot {
    store: Arc<Store>,
    held: Held,
}

impl Snapshot {
    fn options(&self, py: Python<'_>) -> PyResult<ReadOptions> {
        self.held.options().ok_or_else(|| self.store.closed(py))
    }

    fn pairs(&self, py: Python<'_>, part: Part, range: Range<'_>, direction: Direction) -> PyResult<Pairs> {
        let options = range.within(self.options(py)?);
        let steps = Steps::new(py, self.store.clone(), options, ExtraBounds::default(), direction)?;
        Ok(Pairs::new(steps, direction, part))
    }

    fn value<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let options = self.options(py)?;
        let value = self.store.run(py, |db| db.get_with(key, &options))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(py: Python<'_>, db: PyRef<'_, Db>) -> PyResult<Snapshot> {
        let store = db.store.clone();
        Ok(Snapshot { held: Held::new(py, &store)?, store })
    }

    /// Returns the sequence number of the last visible write.
    #[getter]
    fn sequence(&self) -> u64 {
        self.held.sequence
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key)?.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.value(py, &key)?.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.pairs(py, Part::Keys, Range::default(), Direction::Forward)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        steps::count(py, &self.store, self.options(py)?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        steps::is_empty(py, &self.store, self.options(py)?).map(|empty| !empty)
    }

    /// Returns the bounds of a range as bytes, for a view of it.
    #[pyo3(signature = (start, stop, *, prefix))]
    fn _bounds<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Bounds<'py>> {
        self.options(py)?;
        self.store.check_open(py)?;
        Ok(Range { start, stop, prefix }.bounds(py))
    }

    fn _pairs(
        &self,
        py: Python<'_>,
        part: Part,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Pairs> {
        self.pairs(py, part, Range { start, stop, prefix }, Direction::new(reverse))
    }

    fn _count(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<usize> {
        steps::count(py, &self.store, Range { start, stop, prefix }.within(self.options(py)?))
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
