//! Opening, destroying and repairing stores by their paths.
use crate::{db::Db, error};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict},
};
use std::path::PathBuf;
use terrace::Options;

/// Options by their names, on top of a preset.
fn options(py: Python<'_>, preset: Option<&str>, named: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let preset = preset.map_or_else(|| Ok(Options::default()), Options::preset);
    let mut options = preset.map_err(|error| error::raised(py, &error))?;
    for (name, value) in named.into_iter().flatten() {
        let text = value.str()?.to_string();
        let text = if value.is_instance_of::<PyBool>() { text.to_lowercase() } else { text };
        options.set(&name.extract::<String>()?, &text).map_err(|error| error::raised(py, &error))?;
    }
    Ok(options)
}

#[pyfunction]
#[pyo3(signature = (path, *, create=true, error_if_exists=false, read_only=false, preset=None, **named))]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    create: bool,
    error_if_exists: bool,
    read_only: bool,
    preset: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Db> {
    let mut options = options(py, preset, named)?;
    options.create_if_missing = create;
    options.error_if_exists = error_if_exists;
    let place = path.display().to_string();
    let open = if read_only { terrace::Db::open_read_only } else { terrace::Db::open };
    let db = py.detach(|| open(path, options)).map_err(|error| error::raised(py, &error))?;
    Ok(Db::new(db, place))
}

#[pyfunction]
#[pyo3(signature = (*, preset=None, **named))]
pub fn open_in_memory(py: Python<'_>, preset: Option<&str>, named: Option<&Bound<'_, PyDict>>) -> PyResult<Db> {
    let db = terrace::Db::open_in_memory(options(py, preset, named)?);
    Ok(Db::new(db.map_err(|error| error::raised(py, &error))?, "in memory".into()))
}

#[pyfunction]
pub fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| terrace::Db::destroy(path)).map_err(|error| error::raised(py, &error))
}

/// How many pairs were saved, and for each loss file, offset, bytes and reason.
type Repaired = (u64, Vec<(String, u64, u64, String)>);

#[pyfunction]
#[pyo3(signature = (damaged, fresh, *, preset=None, **named))]
pub fn repair(
    py: Python<'_>,
    damaged: PathBuf,
    fresh: PathBuf,
    preset: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Repaired> {
    let options = options(py, preset, named)?;
    let report = py.detach(|| terrace::Db::repair(damaged, fresh, &options));
    let report = report.map_err(|error| error::raised(py, &error))?;
    let lost = report.lost.into_iter().map(|lost| (lost.file, lost.offset, lost.bytes, lost.reason));
    Ok((report.pairs, lost.collect()))
}
