//! `DB` without its reads and writes: open, close, maintenance; repair and destroy of closed
//! databases.
use super::{error, options::Options};
use crate::{
    arguments::Path,
    store::{Store, catch},
};
use nix::unistd::{AccessFlags, access};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{
    path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use terrace::Error;

/// An open database. `terracedb.plyvel.DB` has one.
#[pyclass(module = "terracedb.plyvel", frozen)]
pub struct Handle(pub Arc<Store>);

#[pymethods]
impl Handle {
    /// Opens the database `name` with plyvel's options.
    #[new]
    #[pyo3(signature = (name, **named))]
    fn new(py: Python<'_>, name: Path, named: Option<&Bound<'_, PyDict>>) -> PyResult<Handle> {
        let Options { numbers, order } = Options::new("DB", named)?;
        let opened = catch(py, || terrace::Db::open(&name.0, numbers))?;
        let db = opened.map_err(|error| error::raised(py, &with_words_of_leveldb(&name.0, error)))?;
        let has_comparator = order.is_some();
        let store = Arc::new(Store::new(db, order, error::raised));
        if has_comparator {
            let mut stores = with_comparator();
            stores.retain(|store| store.strong_count() > 0);
            stores.push(Arc::downgrade(&store));
        }
        Ok(Handle(store))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Makes all writes durable and closes the database. Does nothing if it is closed already.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }

    /// Raises an exception if the database is closed.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.0.check_open(py)
    }

    /// Returns a property of the database, or `None` for an unknown name.
    fn property<'py>(&self, py: Python<'py>, name: &Bound<'_, PyBytes>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
        let value = self.0.run(py, |db| Ok(db.property(&name)))?;
        Ok(value.map(|value| PyBytes::new(py, value.as_bytes())))
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn compact(&self, py: Python<'_>, start: Option<&[u8]>, stop: Option<&[u8]>) -> PyResult<()> {
        self.0.run(py, |db| db.compact_range(start, stop))
    }

    fn approximate_sizes(
        &self,
        py: Python<'_>,
        ranges: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
    ) -> PyResult<Vec<u64>> {
        let ranges: Vec<_> = ranges.iter().map(|(start, stop)| (start.as_bytes(), stop.as_bytes())).collect();
        self.0.run(py, |db| db.approximate_sizes(&ranges))
    }
}

/// The list of the open databases with a comparator, which must be closed before the interpreter
/// ends. The list has the stores and not the Python objects, because an iterator, a snapshot or a
/// batch keeps a store open after its `DB` object was freed.
fn with_comparator() -> MutexGuard<'static, Vec<Weak<Store>>> {
    static STORES: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes the databases with a comparator. Their background threads call Python, so they must end
/// before the interpreter does.
#[pyfunction]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    let stores = std::mem::take(&mut *with_comparator());
    let closed: Vec<_> = stores.iter().filter_map(Weak::upgrade).map(|store| store.close(py)).collect();
    closed.into_iter().collect()
}

/// Returns the error of an open with the words of LevelDB that programs look for. LevelDB locks a
/// directory before it looks for a database in it. So if there is no database, and the directory
/// permits no lock, the error is that of the lock.
fn with_words_of_leveldb(path: &path::Path, error: Error) -> Error {
    let name = path.display();
    match error {
        Error::Missing { what: "store", .. } => match access(path, AccessFlags::W_OK) {
            Err(errno) if path.is_dir() => {
                Error::Io { op: "lock", object: format!("{name}/LOCK"), source: Arc::new(errno.into()) }
            }
            _ => Error::Invalid(format!("{name}: does not exist (create_if_missing is false)")),
        },
        Error::Invalid(text) if text.contains("error_if_exists") => {
            Error::Invalid(format!("{name}: exists (error_if_exists is true)"))
        }
        other => other,
    }
}

/// Deletes the files of the database `name`, and the damaged databases that its repairs have kept.
#[pyfunction]
pub fn destroy(py: Python<'_>, name: Path) -> PyResult<()> {
    let destroyed = py.detach(|| terrace_storage::destroy_with_replaced(&name.0));
    destroyed.map_err(|error| error::raised(py, &error.into()))
}

/// Repairs the database `name` in place. The damaged database is kept as `NAME.damaged-N`.
#[pyfunction]
#[pyo3(signature = (name, **named))]
pub fn repair(py: Python<'_>, name: Path, named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Options { numbers, .. } = Options::new("repair_db", named)?;
    let repaired = catch(py, || terrace::Db::repair_in_place(&name.0, &numbers))?;
    repaired.map_err(|error| error::raised(py, &error))
}
