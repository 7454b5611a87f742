//! Write batches.
use crate::{arguments::Bytes, column_family::ColumnFamily, error, store::Store};
use pyo3::{prelude::*, types::PyBytes};
use std::sync::Arc;
use terrace::{Op, WriteOptions};

/// An operation of a batch as a Python tuple: its name, its key, and its value or the end of its
/// key range.
type Operation<'py> = (&'static str, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Puts and deletes that are applied atomically.
#[pyclass(module = "terracedb")]
pub struct WriteBatch {
    operations: terrace::WriteBatch,
    /// The store to which the end of a `with` block writes the batch, and whether this write is
    /// synced.
    target: Option<(Arc<Store>, bool)>,
}

impl WriteBatch {
    /// Returns a batch of `operations`.
    pub fn holding(operations: terrace::WriteBatch) -> WriteBatch {
        WriteBatch { operations, target: None }
    }

    /// Returns a batch that the end of a `with` block writes to `store`.
    pub fn of(store: Arc<Store>, sync: bool) -> WriteBatch {
        WriteBatch { operations: terrace::WriteBatch::new(), target: Some((store, sync)) }
    }

    /// Writes the operations to `store`, without an entry in the WAL unless `log` is set. Returns
    /// the sequence number of the last one.
    pub fn write(&self, py: Python<'_>, store: &Store, sync: bool, log: bool) -> PyResult<u64> {
        let operations = self.operations.clone();
        store.run(py, |db| {
            if log {
                return db.write(operations, WriteOptions { sync, ..WriteOptions::default() });
            }
            let last = db.write(operations, WriteOptions::without_wal())?;
            if sync { db.wait_durable(last).map(|()| last) } else { Ok(last) }
        })
    }
}

#[pymethods]
impl WriteBatch {
    #[new]
    fn new() -> WriteBatch {
        WriteBatch::holding(terrace::WriteBatch::new())
    }

    #[pyo3(signature = (key, value, *, family=None))]
    fn put(
        &mut self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        family: Option<PyRef<'_, ColumnFamily>>,
    ) -> PyResult<()> {
        match handle(py, family)? {
            None => self.operations.put(key, value),
            Some(family) => self.operations.put_cf(&family, key, value),
        };
        Ok(())
    }

    #[pyo3(signature = (key, *, family=None))]
    fn delete(&mut self, py: Python<'_>, key: Bytes<'_>, family: Option<PyRef<'_, ColumnFamily>>) -> PyResult<()> {
        match handle(py, family)? {
            None => self.operations.delete(key),
            Some(family) => self.operations.delete_cf(&family, key),
        };
        Ok(())
    }

    #[pyo3(signature = (start, stop, *, family=None))]
    fn delete_range(
        &mut self,
        py: Python<'_>,
        start: Bytes<'_>,
        stop: Bytes<'_>,
        family: Option<PyRef<'_, ColumnFamily>>,
    ) -> PyResult<()> {
        match handle(py, family)? {
            None => self.operations.delete_range(start, stop),
            Some(family) => self.operations.delete_range_cf(&family, start, stop),
        };
        Ok(())
    }

    /// Returns each operation as its name, its key, and the value or the end of a key range.
    fn operations<'py>(&self, py: Python<'py>) -> PyResult<Vec<Operation<'py>>> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        let operation = |op| match op {
            Op::Put(key, value) => Ok(("put", bytes(key), Some(bytes(value)))),
            Op::Delete(key) => Ok(("delete", bytes(key), None)),
            Op::DeleteRange(start, stop) => Ok(("delete_range", bytes(start), Some(bytes(stop)))),
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => {
                let text = "the batch has writes to column families, which operations() cannot show yet";
                Err(error::raised(py, &terrace::Error::Unsupported(text.into())))
            }
        };
        self.operations.ops().map(operation).collect()
    }

    fn clear(&mut self) {
        self.operations.clear();
    }

    fn __setitem__(&mut self, key: Bytes<'_>, value: Bytes<'_>) {
        self.operations.put(key, value);
    }

    fn __delitem__(&mut self, key: Bytes<'_>) {
        self.operations.delete(key);
    }

    fn __len__(&self) -> usize {
        self.operations.len()
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Ends a `with` block. If the batch has a store and the block raised no exception, writes the
    /// batch to the store. Then clears the batch. If the write fails, or if the batch has no store,
    /// the operations stay in the batch.
    fn __exit__(
        &mut self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _error: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let Some((store, sync)) = &self.target else { return Ok(()) };
        if kind.is_none() {
            self.write(py, store, *sync, true)?;
        }
        self.operations = Default::default();
        Ok(())
    }
}

/// Returns the engine's handle of a family; `None` for the default one.
fn handle(py: Python<'_>, family: Option<PyRef<'_, ColumnFamily>>) -> PyResult<Option<terrace::ColumnFamily>> {
    let Some(family) = family else { return Ok(None) };
    family.space.family().map_err(|error| error::raised(py, &error))
}
