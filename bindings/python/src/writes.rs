//! The writes of `Db` and `ColumnFamily`, and their work on SSTables.
use crate::{
    arguments::{Bytes, Path},
    batch::WriteBatch,
    range::Range,
    reads::Reads,
    space::Space,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use terrace::{ReadOptions, WriteOptions};

/// Writes to a key space.
#[pyclass(module = "terracedb", frozen, subclass, extends = Reads)]
pub struct Writes {
    space: Space,
}

impl Writes {
    /// Returns the base of a class that reads and writes `space`.
    pub fn of(space: Space) -> PyClassInitializer<Writes> {
        PyClassInitializer::from(Reads { space: space.clone(), held: None }).add_subclass(Writes { space })
    }
}

#[pymethods]
impl Writes {
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>, sync: bool) -> PyResult<()> {
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.space.run(py, |db, family| match family {
            None => db.put_with(key, value, options),
            Some(family) => family.put_with(key, value, options),
        })
    }

    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<()> {
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.space.run(py, |db, family| match family {
            None => db.delete_with(key, options),
            Some(family) => family.delete_with(key, options),
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    /// Deletes `key`. Like a mapping, raises `KeyError` if the key is absent, so it must read the
    /// key first.
    fn __delitem__(this: &Bound<'_, Self>, key: Bytes<'_>) -> PyResult<()> {
        let py = this.py();
        this.as_super().get().__getitem__(py, key.clone())?;
        this.get().delete(py, key, false)
    }

    #[pyo3(signature = (start, stop, *, sync=false))]
    fn delete_range(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>, sync: bool) -> PyResult<()> {
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.space.run(py, |db, family| match family {
            None => db.delete_range(start, stop, options),
            Some(family) => family.delete_range(start, stop, options),
        })
    }

    #[pyo3(signature = (batch, *, sync=false, log=true))]
    fn write(&self, py: Python<'_>, batch: &WriteBatch, sync: bool, log: bool) -> PyResult<u64> {
        batch.write(py, &self.space.store, sync, log)
    }

    /// Returns the number of ingested puts and deletes.
    fn ingest(&self, py: Python<'_>, paths: Vec<Path>) -> PyResult<u64> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.0).collect();
        let ingested = self.space.run(py, |db, family| match family {
            None => db.ingest(&paths),
            Some(family) => family.ingest(&paths),
        })?;
        Ok(ingested.entries)
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
        let tables = self.space.run(py, |db, family| match family {
            None => db.export(folder.0, options),
            Some(family) => family.export(folder.0, options),
        })?;
        Ok(tables.into_iter().map(|table| table.path).collect())
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn compact(&self, py: Python<'_>, start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>) -> PyResult<()> {
        self.space.run(py, |db, family| match family {
            None => db.compact_range(start.as_deref(), stop.as_deref()),
            Some(family) => family.compact_range(start.as_deref(), stop.as_deref()),
        })
    }

    fn approximate_size(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<u64> {
        let ranges: [(&[u8], &[u8]); 1] = [(&start, &stop)];
        let sizes = self.space.run(py, |db, family| match family {
            None => db.approximate_sizes(&ranges),
            Some(family) => family.approximate_sizes(&ranges),
        })?;
        Ok(sizes[0])
    }
}
