//! The Python class `Db`: an open store.
use crate::{
    arguments::Path, batch::WriteBatch, manage, report, space::Space, store::Store, updates::Updates, writes::Writes,
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::Arc;

/// A mapping from bytes to bytes on storage, in key order. The class `terracedb.Db` adds the
/// methods of a `MutableMapping` that need no access to the engine.
#[pyclass(module = "terracedb", frozen, subclass, extends = Writes)]
pub struct Db {
    pub store: Arc<Store>,
    place: String,
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
    ) -> PyResult<PyClassInitializer<Db>> {
        let how = manage::Opening { create, error_if_exists, read_only };
        let place = path.as_ref().map_or_else(|| "in memory".into(), |path| path.0.display().to_string());
        let store = Arc::new(manage::open(py, path, how, preset, named)?);
        Ok(Writes::of(Space::of(store.clone())).add_subclass(Db { store, place }))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.store.is_closed()
    }

    fn updates_since(&self, py: Python<'_>, sequence: u64) -> PyResult<Updates> {
        Updates::new(py, self.store.clone(), sequence)
    }

    /// Returns the sequence number up to which the copy is complete.
    fn checkpoint(&self, py: Python<'_>, folder: Path) -> PyResult<u64> {
        Ok(self.store.run(py, |db| db.checkpoint(folder.0))?.sequence)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::statistics(py, &self.store.run(py, |db| Ok(db.statistics()))?)
    }

    #[pyo3(signature = (*, sync=false))]
    fn batch(&self, py: Python<'_>, sync: bool) -> PyResult<WriteBatch> {
        self.store.check_open(py)?;
        Ok(WriteBatch::of(self.store.clone(), sync))
    }

    /// Returns the names of the column families.
    fn column_families(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.store.run(py, |db| Ok(db.cf_names()))
    }

    fn drop_column_family(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.store.run(py, |db| db.drop_cf(name))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, terrace::Db::flush)
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
