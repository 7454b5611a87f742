//! The Python class `Db`: an open store.
use crate::{
    arguments::{Bytes, Keys, Path},
    batch::WriteBatch,
    manage,
    pairs::{Pairs, Part},
    range::{Bounds, Range},
    reader::{Direction, ExtraBounds},
    report,
    steps::{self, Steps},
    store::Store,
    updates::Updates,
};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{path::PathBuf, sync::Arc};
use terrace::{ReadOptions, Result, WriteOptions};

/// A mapping from bytes to bytes on storage, in key order. The class `terracedb.Db` adds the
/// methods of a `MutableMapping` that need no access to the engine.
#[pyclass(module = "terracedb", frozen, subclass)]
pub struct Db {
    pub store: Arc<Store>,
    place: String,
}

/// Functions that are not visible in Python.
impl Db {
    fn value<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.store.run(py, |db| db.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn pairs(&self, py: Python<'_>, part: Part, range: Range<'_>, direction: Direction) -> PyResult<Pairs> {
        let options = range.within(ReadOptions::new());
        let steps = Steps::new(py, self.store.clone(), options, ExtraBounds::default(), direction)?;
        Ok(Pairs::new(steps, direction, part))
    }

    /// Writes `operations` and returns the sequence number of the last one.
    pub fn apply(&self, py: Python<'_>, operations: terrace::WriteBatch, sync: bool) -> PyResult<u64> {
        self.store.run(py, |db| db.write(operations, WriteOptions { sync, ..WriteOptions::default() }))
    }
}

#[pymethods]
impl Db {
    /// Opens the store in the directory `path`; without a path, creates a store in memory.
    #[new]
    #[pyo3(signature = (path, *, create=None, error_if_exists=false, read_only=false, preset=None, **named))]
    fn new(
        py: Python<'_>,
        path: Option<Path>,
        create: Option<bool>,
        error_if_exists: bool,
        read_only: bool,
        preset: Option<&str>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Db> {
        let how = manage::Opening { create, error_if_exists, read_only };
        let place = path.as_ref().map_or_else(|| "in memory".into(), |path| path.0.display().to_string());
        let store = Arc::new(manage::open(py, path, how, preset, named)?);
        Ok(Db { store, place })
    }

    #[getter]
    fn closed(&self) -> bool {
        self.store.is_closed()
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

    fn get_many<'py>(&self, py: Python<'py>, keys: Keys) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let values: Vec<_> = self.store.run(py, |db| db.multi_get(&keys.0).into_iter().collect::<Result<_>>())?;
        let bytes = |value: Option<Vec<u8>>| value.map(|value| PyBytes::new(py, &value));
        Ok(values.into_iter().map(bytes).collect())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.value(py, &key)?.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key)?.is_some())
    }

    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>, sync: bool) -> PyResult<()> {
        self.store.run(py, |db| db.put_with(key, value, WriteOptions { sync, ..WriteOptions::default() }))
    }

    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<()> {
        self.store.run(py, |db| db.delete_with(key, WriteOptions { sync, ..WriteOptions::default() }))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    /// Deletes `key`. Like a mapping, raises `KeyError` if the key is absent, so it must read the
    /// key first.
    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.__getitem__(py, key.clone())?;
        self.delete(py, key, false)
    }

    #[pyo3(signature = (start, stop, *, sync=false))]
    fn delete_range(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>, sync: bool) -> PyResult<()> {
        self.store.run(py, |db| db.delete_range(start, stop, WriteOptions { sync, ..WriteOptions::default() }))
    }

    #[pyo3(signature = (batch, *, sync=false, log=true))]
    fn write(&self, py: Python<'_>, batch: &WriteBatch, sync: bool, log: bool) -> PyResult<u64> {
        let operations = batch.operations.clone();
        if log {
            return self.apply(py, operations, sync);
        }
        self.store.run(py, |db| {
            let last = db.write(operations, WriteOptions::without_wal())?;
            if sync { db.wait_durable(last).map(|()| last) } else { Ok(last) }
        })
    }

    fn updates_since(&self, py: Python<'_>, sequence: u64) -> PyResult<Updates> {
        Updates::new(py, self.store.clone(), sequence)
    }

    /// Returns the number of ingested puts and deletes.
    fn ingest(&self, py: Python<'_>, paths: Vec<Path>) -> PyResult<u64> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.0).collect();
        Ok(self.store.run(py, |db| db.ingest(&paths))?.entries)
    }

    #[pyo3(signature = (folder, start=None, stop=None, *, prefix=None))]
    fn export(
        &self,
        py: Python<'_>,
        folder: Path,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Vec<PathBuf>> {
        let options = Range { start, stop, prefix }.within(ReadOptions::new());
        let tables = self.store.run(py, |db| db.export(folder.0, options))?;
        Ok(tables.into_iter().map(|table| table.path).collect())
    }

    /// Returns the sequence number up to which the copy is complete.
    fn checkpoint(&self, py: Python<'_>, folder: Path) -> PyResult<u64> {
        Ok(self.store.run(py, |db| db.checkpoint(folder.0))?.sequence)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::statistics(py, &self.store.run(py, |db| Ok(db.statistics()))?)
    }

    #[pyo3(signature = (*, sync=false))]
    fn batch(this: Bound<'_, Self>, sync: bool) -> PyResult<WriteBatch> {
        this.get().store.check_open(this.py())?;
        Ok(WriteBatch::of(this.unbind(), sync))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.pairs(py, Part::Keys, Range::default(), Direction::Forward)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        steps::count(py, &self.store, ReadOptions::new())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        steps::is_empty(py, &self.store, ReadOptions::new()).map(|empty| !empty)
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
        steps::count(py, &self.store, Range { start, stop, prefix }.within(ReadOptions::new()))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, terrace::Db::flush)
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn compact(&self, py: Python<'_>, start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>) -> PyResult<()> {
        self.store.run(py, |db| db.compact_range(start.as_deref(), stop.as_deref()))
    }

    fn approximate_size(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<u64> {
        self.store.run(py, |db| Ok(db.approximate_sizes(&[(&start, &stop)])?[0]))
    }

    fn property(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        self.store.run(py, |db| Ok(db.property(name)))
    }

    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, terrace::Db::resume)
    }

    #[getter]
    fn last_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.store.run(py, |db| Ok(db.last_sequence()))
    }

    #[getter]
    fn durable_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.store.run(py, |db| Ok(db.durable_sequence()))
    }

    #[pyo3(signature = (sequence=None))]
    fn wait_durable(&self, py: Python<'_>, sequence: Option<u64>) -> PyResult<()> {
        self.store.run(py, |db| db.wait_durable(sequence.unwrap_or_else(|| db.last_sequence())))
    }

    /// Does nothing if the store is closed already.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.close(py)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { "closed" } else { "open" };
        format!("<terracedb.Db {:?}, {state}>", self.place)
    }
}
