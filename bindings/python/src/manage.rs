//! Opens, destroys and repairs stores by their paths.
use crate::{arguments::Path, error, store::Store};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict},
};
use terrace::Options;

/// Returns the options of a preset, changed by the named options.
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

/// How a store is opened.
pub struct Opening {
    pub create: Option<bool>,
    pub error_if_exists: bool,
    pub read_only: bool,
}

/// Opens the store in the directory `path`; without a path, creates a store in memory.
pub fn open(
    py: Python<'_>,
    path: Option<Path>,
    how: Opening,
    preset: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Store> {
    let mut options = options(py, preset, named)?;
    // `create_if_missing` is the name of the option. It is also the name of the argument in other
    // Python bindings for LevelDB.
    let is_named = |name: &str| named.is_some_and(|named| named.contains(name).unwrap_or(false));
    let create_if_missing = is_named("create_if_missing").then_some(options.create_if_missing);
    if let (Some(create), Some(other)) = (how.create, create_if_missing)
        && create != other
    {
        let contrary = terrace::Error::Invalid(format!(
            "create={create} and create_if_missing={other} contradict each other; pass one of them"
        ));
        return Err(error::raised(py, &contrary));
    }
    options.create_if_missing = how.create.or(create_if_missing).unwrap_or(true);
    options.error_if_exists |= how.error_if_exists;
    let open = if how.read_only { terrace::Db::open_read_only } else { terrace::Db::open };
    let db = py.detach(|| match path {
        Some(path) => open(path.0, options),
        None => terrace::Db::open_in_memory(options),
    });
    Ok(Store::new(db.map_err(|error| error::raised(py, &error))?, None, error::raised))
}

#[pyfunction]
pub fn destroy(py: Python<'_>, path: Path) -> PyResult<()> {
    py.detach(|| terrace::Db::destroy(path.0)).map_err(|error| error::raised(py, &error))
}

/// The number of salvaged pairs, and the file, offset, number of bytes and reason of each loss.
type Repaired = (u64, Vec<(String, u64, u64, String)>);

#[pyfunction]
#[pyo3(signature = (damaged, fresh, *, preset=None, **named))]
pub fn repair(
    py: Python<'_>,
    damaged: Path,
    fresh: Path,
    preset: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Repaired> {
    let options = options(py, preset, named)?;
    let report = py.detach(|| terrace::Db::repair(damaged.0, fresh.0, &options));
    let report = report.map_err(|error| error::raised(py, &error))?;
    let lost = report.lost.into_iter().map(|lost| (lost.file, lost.offset, lost.bytes, lost.reason));
    Ok((report.pairs, lost.collect()))
}
