//! Write batches.
use crate::{arguments::Bytes, db::Db, error};
use pyo3::{prelude::*, types::PyBytes};
use terrace::Op;

/// An operation of a batch as a Python tuple: its name, its key, and its value or the end of its
/// key range.
type Operation<'py> = (&'static str, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Puts and deletes that are applied atomically.
#[pyclass(module = "terracedb")]
pub struct WriteBatch {
    pub operations: terrace::WriteBatch,
    /// The store to which the end of a `with` block writes the batch, and whether this write is
    /// synced.
    target: Option<(Py<Db>, bool)>,
}

impl WriteBatch {
    /// Returns a batch of `operations`.
    pub fn holding(operations: terrace::WriteBatch) -> WriteBatch {
        WriteBatch { operations, target: None }
    }

    /// Returns a batch that the end of a `with` block writes to `db`.
    pub fn of(db: Py<Db>, sync: bool) -> WriteBatch {
        WriteBatch { operations: terrace::WriteBatch::new(), target: Some((db, sync)) }
    }
}

#[pymethods]
impl WriteBatch {
    #[new]
    fn new() -> WriteBatch {
        WriteBatch::holding(terrace::WriteBatch::new())
    }

    fn put(&mut self, key: Bytes<'_>, value: Bytes<'_>) {
        self.operations.put(key, value);
    }

    fn delete(&mut self, key: Bytes<'_>) {
        self.operations.delete(key);
    }

    fn delete_range(&mut self, start: Bytes<'_>, stop: Bytes<'_>) {
        self.operations.delete_range(start, stop);
    }

    /// Returns each operation as its name, its key, and the value or the end of a key range.
    fn operations<'py>(&self, py: Python<'py>) -> PyResult<Vec<Operation<'py>>> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        let operation = |op| match op {
            Op::Put(key, value) => Ok(("put", bytes(key), Some(bytes(value)))),
            Op::Delete(key) => Ok(("delete", bytes(key), None)),
            Op::DeleteRange(start, stop) => Ok(("delete_range", bytes(start), Some(bytes(stop)))),
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => {
                let text = "the batch has writes to column families, which this package does not support yet";
                Err(error::raised(py, &terrace::Error::Unsupported(text.into())))
            }
        };
        self.operations.ops().map(operation).collect()
    }

    fn clear(&mut self) {
        self.operations.clear();
    }

    fn __setitem__(&mut self, key: Bytes<'_>, value: Bytes<'_>) {
        self.put(key, value);
    }

    fn __delitem__(&mut self, key: Bytes<'_>) {
        self.delete(key);
    }

    fn __len__(&self) -> usize {
        self.operations.len()
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Writes a batch that has a store, unless the block ended with an exception, and clears it. If
    /// the write fails, or if the batch has no store, it keeps its operations.
    fn __exit__(
        &mut self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _error: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let Some((db, sync)) = &self.target else { return Ok(()) };
        if kind.is_none() {
            db.get().apply(py, self.operations.clone(), *sync)?;
        }
        self.operations = Default::default();
        Ok(())
    }
}
