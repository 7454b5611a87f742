//! `WriteBatch`.
use crate::{arguments::Bytes, store::Store};
use pyo3::prelude::*;
use std::sync::Arc;
use terrace::WriteOptions;

/// Puts and deletes that are applied atomically.
#[pyclass(module = "terracedb.plyvel")]
pub struct WriteBatch {
    store: Arc<Store>,
    prefix: Vec<u8>,
    /// Whether an exception in a `with` block discards the batch.
    transaction: bool,
    options: WriteOptions,
    operations: terrace::WriteBatch,
}

impl WriteBatch {
    /// Returns an empty batch for the keys of `store` that start with `prefix`.
    pub fn new(store: Arc<Store>, prefix: Vec<u8>, transaction: bool, options: WriteOptions) -> WriteBatch {
        WriteBatch { store, prefix, transaction, options, operations: terrace::WriteBatch::new() }
    }

    /// Returns the key in the database. A key that the comparator cannot compare is refused.
    fn key<'a>(&self, py: Python<'_>, key: Bytes<'a>) -> PyResult<Bytes<'a>> {
        self.store.check_open(py)?;
        let key = if self.prefix.is_empty() { key } else { [&self.prefix, &*key].concat().into() };
        self.store.check_key(py, &key)?;
        Ok(key)
    }
}

#[pymethods]
impl WriteBatch {
    fn put(&mut self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        let key = self.key(py, key)?;
        self.operations.put(key, value);
        Ok(())
    }

    fn delete(&mut self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        let key = self.key(py, key)?;
        self.operations.delete(key);
        Ok(())
    }

    fn clear(&mut self, py: Python<'_>) -> PyResult<()> {
        self.store.check_open(py)?;
        self.operations.clear();
        Ok(())
    }

    /// Writes the batch, which keeps its operations.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let operations = self.operations.clone();
        self.store.write(py, |db| db.write(operations, self.options).map(drop))
    }

    /// Appends the operations of `source`, which may be this batch.
    fn append(this: Bound<'_, Self>, source: Bound<'_, Self>) -> PyResult<()> {
        let operations = source.try_borrow()?.operations.clone();
        let mut this = this.try_borrow_mut()?;
        this.store.check_open(source.py())?;
        this.operations.append(&operations);
        Ok(())
    }

    /// Returns the size of the batch in the WAL, in bytes.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.store.check_open(py)?;
        Ok(self.operations.byte_len())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.store.check_open(this.py())?;
        Ok(this)
    }

    /// Ends a `with` block: writes the batch and clears it. After an exception, a batch that is a
    /// transaction is cleared without a write.
    fn __exit__(
        &mut self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _error: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if kind.is_none() || !self.transaction {
            self.write(py)?;
        }
        self.clear(py)
    }
}
