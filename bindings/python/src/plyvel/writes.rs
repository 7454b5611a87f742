//! The writes of `DB` and `PrefixedDB`.
use super::{batch::WriteBatch, database::Handle, reads::Reads};
use crate::arguments::Bytes;
use pyo3::prelude::*;
use terrace::WriteOptions;

/// Reads and writes of a database within a prefix of the keys.
#[pyclass(module = "terracedb.plyvel", frozen, subclass, extends = Reads)]
pub struct Writes;

#[pymethods]
impl Writes {
    #[new]
    fn new(handle: &Handle, prefix: Bytes<'_>) -> PyClassInitializer<Writes> {
        PyClassInitializer::from(Reads::new(handle.0.clone(), prefix.into())).add_subclass(Writes)
    }

    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(this: PyRef<'_, Self>, key: Bytes<'_>, value: Bytes<'_>, sync: Option<bool>) -> PyResult<()> {
        let (py, reads) = (this.py(), this.as_super());
        let key = reads.key(key);
        reads.store.check_key(py, &key)?;
        reads.store.write(py, |db| db.put_with(key, value, options(sync)))
    }

    #[pyo3(signature = (key, *, sync=false))]
    fn delete(this: PyRef<'_, Self>, key: Bytes<'_>, sync: Option<bool>) -> PyResult<()> {
        let (py, reads) = (this.py(), this.as_super());
        let key = reads.key(key);
        reads.store.check_key(py, &key)?;
        reads.store.write(py, |db| db.delete_with(key, options(sync)))
    }

    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(this: PyRef<'_, Self>, transaction: Option<bool>, sync: Option<bool>) -> PyResult<WriteBatch> {
        let reads = this.as_super();
        reads.store.check_open(this.py())?;
        Ok(WriteBatch::new(reads.store.clone(), reads.prefix.clone(), transaction.unwrap_or(false), options(sync)))
    }
}

fn options(sync: Option<bool>) -> WriteOptions {
    WriteOptions { sync: sync.unwrap_or(false), ..WriteOptions::default() }
}
