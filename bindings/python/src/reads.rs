//! The reads of `Db`, `ColumnFamily` and `Snapshot`.
use crate::{
    arguments::{Bytes, Keys},
    pairs::{Pairs, Part},
    range::{Bounds, Range},
    reader::{Direction, ExtraBounds},
    snapshot::Held,
    space::Space,
    steps::{self, Steps},
};
use pyo3::{exceptions::PyKeyError, prelude::*, types::PyBytes};
use std::sync::Arc;
use terrace::{ReadOptions, Result};

/// Reads of a key space, now or at a snapshot.
#[pyclass(module = "terracedb", frozen, subclass)]
pub struct Reads {
    pub space: Space,
    pub held: Option<Arc<Held>>,
}

impl Reads {
    fn options(&self, py: Python<'_>) -> PyResult<ReadOptions> {
        match &self.held {
            None => Ok(ReadOptions::new()),
            Some(held) => held.options().ok_or_else(|| self.space.store.closed(py)),
        }
    }

    fn value<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let options = self.options(py)?;
        let value = self.space.run(py, |db, family| match family {
            None => db.get_with(key, &options),
            Some(family) => family.get_with(key, &options),
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn pairs(&self, py: Python<'_>, part: Part, range: Range<'_>, direction: Direction) -> PyResult<Pairs> {
        let options = range.within(self.options(py)?);
        let steps = Steps::new(py, self.space.clone(), options, ExtraBounds::default(), direction)?;
        Ok(Pairs::new(steps, direction, part))
    }
}

#[pymethods]
impl Reads {
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key)?.map(Bound::into_any).or(default))
    }

    fn get_many<'py>(&self, py: Python<'py>, keys: Keys) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let options = self.options(py)?;
        let values = self.space.run(py, |db, family| {
            let values = match family {
                None => db.multi_get_with(&keys.0, &options),
                Some(family) => family.multi_get_with(&keys.0, &options),
            };
            values.into_iter().collect::<Result<Vec<_>>>()
        })?;
        let bytes = |value: Option<Vec<u8>>| value.map(|value| PyBytes::new(py, &value));
        Ok(values.into_iter().map(bytes).collect())
    }

    pub fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.value(py, &key)?.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.pairs(py, Part::Keys, Range::default(), Direction::Forward)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        steps::count(py, &self.space, self.options(py)?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        steps::is_empty(py, &self.space, self.options(py)?).map(|empty| !empty)
    }

    /// Returns the bounds of a range as bytes, for a view of the range.
    #[pyo3(signature = (start, stop, *, prefix))]
    fn _bounds<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Bounds<'py>> {
        self.options(py)?;
        self.space.store.check_open(py)?;
        Ok(Range { start, stop, prefix }.bounds(py))
    }

    fn _pairs(
        &self,
        py: Python<'_>,
        part: Part,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Pairs> {
        self.pairs(py, part, Range { start, stop, prefix }, Direction::new(reverse))
    }

    fn _count(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<usize> {
        steps::count(py, &self.space, Range { start, stop, prefix }.within(self.options(py)?))
    }
}
