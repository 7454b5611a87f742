//! The Python class `ColumnFamily`.
use crate::{db::Db, space::Space, writes::Writes};
use pyo3::prelude::*;

/// A column family of an open store. The class `terracedb.ColumnFamily` adds the methods of a
/// `MutableMapping`.
#[pyclass(module = "terracedb", frozen, subclass, extends = Writes)]
pub struct ColumnFamily {
    pub space: Space,
    name: String,
}

#[pymethods]
impl ColumnFamily {
    #[new]
    fn new(
        py: Python<'_>,
        db: PyRef<'_, Db>,
        name: String,
        create: bool,
    ) -> PyResult<PyClassInitializer<ColumnFamily>> {
        let open = |db: &terrace::Db| if create { db.create_cf(&name) } else { db.cf(&name) };
        let space = Space::open(py, db.store.clone(), open)?;
        Ok(Writes::of(space.clone()).add_subclass(ColumnFamily { space, name }))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("<terracedb.ColumnFamily {:?}>", self.name)
    }
}
