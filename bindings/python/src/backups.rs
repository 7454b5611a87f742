//! The Python class `Backups`: the backups in a directory.
use crate::{arguments::Path, db::Db, error};
use pyo3::{prelude::*, types::PyDict};
use std::{path::PathBuf, time::SystemTime};
use terrace_backup::{Backup, CreateOptions, Result};

/// The backups in a directory.
#[pyclass(module = "terracedb", frozen)]
pub struct Backups {
    directory: PathBuf,
}

impl Backups {
    /// Opens the backups and calls `act`, without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        act: impl Send + FnOnce(&terrace_backup::Backups) -> Result<T>,
    ) -> PyResult<T> {
        let done = py.detach(|| terrace_backup::Backups::open(&self.directory).and_then(|backups| act(&backups)));
        done.map_err(|error| error::raised_by_backup(py, &error))
    }
}

#[pymethods]
impl Backups {
    #[new]
    fn new(folder: Path) -> Backups {
        Backups { directory: folder.0 }
    }

    /// Returns the number of the new backup.
    #[pyo3(signature = (db, *, bytes_per_second=0, scratch=None))]
    fn create(&self, py: Python<'_>, db: PyRef<'_, Db>, bytes_per_second: u64, scratch: Option<Path>) -> PyResult<u64> {
        let db = db.store.run(py, |db| Ok(db.clone()))?;
        let options = CreateOptions::default().bytes_per_second(bytes_per_second);
        let options = scratch.into_iter().fold(options, |options, scratch| options.scratch(scratch.0));
        Ok(self.run(py, move |backups| backups.create(&db, &options))?.id)
    }

    /// Returns a dictionary for each backup. Raises an exception if a record is damaged.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let listed = self.run(py, |backups| backups.list()?.into_iter().collect::<Result<Vec<_>>>())?;
        listed.iter().map(|backup| described(py, backup)).collect()
    }

    /// Returns the problems: the number of the backup, the file or `None`, and the description.
    #[pyo3(signature = (id=None))]
    fn verify(&self, py: Python<'_>, id: Option<u64>) -> PyResult<Vec<(u64, Option<String>, String)>> {
        let verified = self.run(py, |backups| backups.verify(id))?;
        Ok(verified.problems.into_iter().map(|problem| (problem.id, problem.file, problem.detail)).collect())
    }

    /// Returns the sequence number up to which the restored store is complete.
    #[pyo3(signature = (folder, id=None))]
    fn restore(&self, py: Python<'_>, folder: Path, id: Option<u64>) -> PyResult<u64> {
        let restored = self.run(py, |backups| {
            let id = match id {
                Some(id) => id,
                None => backups.newest()?.unwrap_or(0),
            };
            backups.restore(id, &folder.0)
        })?;
        Ok(restored.sequence)
    }

    /// Returns the numbers of the removed backups.
    fn purge(&self, py: Python<'_>, keep: usize) -> PyResult<Vec<u64>> {
        Ok(self.run(py, |backups| backups.purge(keep))?.removed)
    }

    fn remove(&self, py: Python<'_>, id: u64) -> PyResult<()> {
        self.run(py, |backups| backups.remove(id).map(drop))
    }

    fn __repr__(&self) -> String {
        format!("<terracedb.Backups in {}>", self.directory.display())
    }
}

fn described<'py>(py: Python<'py>, backup: &Backup) -> PyResult<Bound<'py, PyDict>> {
    let created = backup.created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let described = PyDict::new(py);
    described.set_item("id", backup.id)?;
    described.set_item("created", created.as_secs())?;
    described.set_item("sequence", backup.sequence)?;
    described.set_item("files", backup.files)?;
    described.set_item("bytes", backup.bytes)?;
    described.set_item("added_bytes", backup.added_bytes)?;
    Ok(described)
}
