//! The Python class `Db`: an open store.
use crate::{
    arguments::{Bytes, Keys, Path},
    batch::WriteBatch,
    error,
    pairs::{Pairs, Part},
    range::{self, Range},
    report,
    snapshot::Snapshot,
    updates::Updates,
    walk::{Ends, Walk},
};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
};
use terrace::{Result, WriteOptions};

/// A mapping from bytes to bytes on storage, in key order.
#[pyclass(module = "terracedb", frozen)]
pub struct Db {
    /// The handle of the store, until the store is closed. The lock guards only the handle: an
    /// operation clones the handle and then runs without the lock.
    open: Mutex<Option<Open>>,
    place: String,
}

struct Open {
    db: terrace::Db,
    /// The live iterators of the store. `close` ends them.
    walks: Vec<Weak<dyn Ends>>,
}

impl Open {
    fn track(&mut self, walk: Weak<dyn Ends>) {
        self.walks.retain(|walk| walk.strong_count() > 0);
        self.walks.push(walk);
    }
}

/// Functions that other classes use. They are not visible in Python.
impl Db {
    /// Returns an open store. `place` is the text that its `repr` shows.
    pub fn new(db: terrace::Db, place: String) -> Db {
        Db { open: Mutex::new(Some(Open { db, walks: Vec::new() })), place }
    }

    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut Open) -> T) -> PyResult<T> {
        let mut open = self.open.lock().expect("no code panics under this lock");
        open.as_mut().map(act).ok_or_else(|| error::closed(py))
    }

    fn handle(&self, py: Python<'_>) -> PyResult<terrace::Db> {
        self.with(py, |open| open.db.clone())
    }

    /// Runs `act` with the interpreter's lock released.
    fn run<T: Send>(&self, py: Python<'_>, act: impl Send + FnOnce(&terrace::Db) -> Result<T>) -> PyResult<T> {
        let db = self.handle(py)?;
        py.detach(move || act(&db)).map_err(|error| error::raised(py, &error))
    }

    /// Returns the value of `key`.
    pub fn value<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        snapshot: Option<&terrace::Snapshot>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.run(py, |db| db.get_with(key, &range::at(snapshot)))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Returns an iterator that ends when the store is closed.
    pub fn pairs(
        &self,
        py: Python<'_>,
        range: Range<'_>,
        snapshot: Option<&terrace::Snapshot>,
        reverse: bool,
        part: Part,
    ) -> PyResult<Pairs> {
        let options = range.options(snapshot);
        self.with(py, |open| {
            let scan = if reverse { open.db.scan_reverse(options) } else { open.db.scan(options) };
            let (pairs, walk) = Pairs::new(scan, part);
            open.track(walk);
            pairs
        })
    }

    /// Writes `operations` and returns the sequence number of the last one.
    pub fn apply(&self, py: Python<'_>, operations: terrace::WriteBatch, sync: bool) -> PyResult<u64> {
        self.run(py, |db| db.write(operations, WriteOptions { sync }))
    }
}

#[pymethods]
impl Db {
    #[getter]
    fn closed(&self) -> bool {
        self.open.lock().expect("no code panics under this lock").is_none()
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key, None)?.map(Bound::into_any).or(default))
    }

    fn get_many<'py>(&self, py: Python<'py>, keys: Keys) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let values: Vec<_> = self.run(py, |db| db.multi_get(&keys.0).into_iter().collect::<Result<_>>())?;
        let bytes = |value: Option<Vec<u8>>| value.map(|value| PyBytes::new(py, &value));
        Ok(values.into_iter().map(bytes).collect())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.value(py, &key, None)?.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key, None)?.is_some())
    }

    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>, sync: bool) -> PyResult<()> {
        self.run(py, |db| db.put_with(key, value, WriteOptions { sync }))
    }

    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<()> {
        self.run(py, |db| db.delete_with(key, WriteOptions { sync }))
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
        self.run(py, |db| db.delete_range(start, stop, WriteOptions { sync }))
    }

    #[pyo3(signature = (batch, *, sync=false, log=true))]
    fn write(&self, py: Python<'_>, batch: &WriteBatch, sync: bool, log: bool) -> PyResult<u64> {
        let operations = batch.operations.clone();
        if log {
            return self.apply(py, operations, sync);
        }
        self.run(py, |db| {
            let last = db.write_unlogged(operations)?;
            if sync { db.wait_durable(last).map(|()| last) } else { Ok(last) }
        })
    }

    fn updates_since(&self, py: Python<'_>, sequence: u64) -> PyResult<Updates> {
        let walk = Arc::new(Walk::new(self.run(py, |db| db.updates_since(sequence))?));
        let handle: Weak<dyn Ends> = Arc::<Walk<terrace::Updates>>::downgrade(&walk);
        self.with(py, |open| open.track(handle))?;
        Ok(Updates(walk))
    }

    /// Returns the number of ingested puts and deletes.
    fn ingest(&self, py: Python<'_>, paths: Vec<Path>) -> PyResult<u64> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.0).collect();
        Ok(self.run(py, |db| db.ingest(&paths))?.entries)
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
        let options = Range { start, stop, prefix }.options(None);
        let tables = self.run(py, |db| db.export(folder.0, options))?;
        Ok(tables.into_iter().map(|table| table.path).collect())
    }

    /// Returns the sequence number up to which the copy is complete.
    fn checkpoint(&self, py: Python<'_>, folder: Path) -> PyResult<u64> {
        Ok(self.run(py, |db| db.checkpoint(folder.0))?.sequence)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::statistics(py, &self.run(py, |db| Ok(db.statistics()))?)
    }

    #[pyo3(signature = (*, sync=false))]
    fn batch(this: Bound<'_, Self>, sync: bool) -> PyResult<WriteBatch> {
        this.get().handle(this.py())?;
        Ok(WriteBatch::of(this.unbind(), sync))
    }

    fn snapshot(this: Bound<'_, Self>) -> PyResult<Snapshot> {
        let held = this.get().handle(this.py())?.snapshot();
        Ok(Snapshot::new(this.unbind(), held))
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
        self.pairs(py, Range { start, stop, prefix }, None, reverse, Part::Keys)
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
        self.pairs(py, Range { start, stop, prefix }, None, reverse, Part::Values)
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
        self.pairs(py, Range { start, stop, prefix }, None, reverse, Part::Both)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, terrace::Db::flush)
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn compact(&self, py: Python<'_>, start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>) -> PyResult<()> {
        self.run(py, |db| db.compact_range(start.as_deref(), stop.as_deref()))
    }

    fn approximate_size(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<u64> {
        self.run(py, |db| Ok(db.approximate_sizes(&[(&start, &stop)])?[0]))
    }

    fn property(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        self.run(py, |db| Ok(db.property(name)))
    }

    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, terrace::Db::resume)
    }

    #[getter]
    fn last_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |open| open.db.last_sequence())
    }

    #[getter]
    fn durable_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |open| open.db.durable_sequence())
    }

    #[pyo3(signature = (sequence=None))]
    fn wait_durable(&self, py: Python<'_>, sequence: Option<u64>) -> PyResult<()> {
        self.run(py, |db| db.wait_durable(sequence.unwrap_or_else(|| db.last_sequence())))
    }

    /// Does nothing if the store is closed already.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(open) = self.open.lock().expect("no code panics under this lock").take() else { return Ok(()) };
        let closed = py.detach(move || {
            open.walks.iter().filter_map(Weak::upgrade).for_each(|walk| walk.end());
            open.db.close()
        });
        closed.map_err(|error| error::raised(py, &error))
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
