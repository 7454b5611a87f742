//! `Iterator`.
use crate::{
    arguments::Bytes,
    reader::{Direction, Gap},
    steps::Steps,
};
use pyo3::{prelude::*, types::PyBytes};

/// An iterator over a range. Its position is between two pairs, so `next` and then `prev` return
/// the same pair.
#[pyclass(module = "terracedb.plyvel", weakref)]
pub struct Iterator {
    steps: Steps,
    /// The direction of `next`.
    direction: Direction,
    /// The prefix that all keys of the range have. The iterator returns the keys without it.
    prefix: Vec<u8>,
    include_key: bool,
    include_value: bool,
}

impl Iterator {
    /// Returns an iterator at the position of `steps`.
    pub fn new(
        steps: Steps,
        direction: Direction,
        prefix: Vec<u8>,
        include_key: bool,
        include_value: bool,
    ) -> Iterator {
        Iterator { steps, direction, prefix, include_key, include_value }
    }

    fn step<'py>(&mut self, py: Python<'py>, direction: Direction) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((key, value)) = self.steps.step(py, direction)? else { return Ok(None) };
        let key = || PyBytes::new(py, &key[self.prefix.len()..]);
        let value = || PyBytes::new(py, value);
        Ok(Some(match (self.include_key, self.include_value) {
            (true, true) => (key(), value()).into_pyobject(py)?.into_any(),
            (true, false) => key().into_any(),
            (false, true) => value().into_any(),
            (false, false) => py.None().into_bound(py),
        }))
    }

    fn seek_to(&mut self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        self.steps.check_open(py)?;
        self.steps.seek(gap);
        Ok(())
    }
}

#[pymethods]
impl Iterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.direction)
    }

    /// Moves back over the previous pair and returns it. Raises `StopIteration` if there is none.
    fn prev<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.direction.turned())?.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    fn seek_to_start(&mut self, py: Python<'_>) -> PyResult<()> {
        self.seek_to(py, Gap::Start)
    }

    fn seek_to_stop(&mut self, py: Python<'_>) -> PyResult<()> {
        self.seek_to(py, Gap::End)
    }

    /// Moves before the first pair of the range whose key is at or after `target`.
    fn seek(&mut self, py: Python<'_>, target: Bytes<'_>) -> PyResult<()> {
        let target = [&self.prefix, &*target].concat();
        self.seek_to(py, Gap::Before(target))
    }

    fn close(&self, py: Python<'_>) {
        self.steps.close(py);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) {
        self.steps.close(py);
    }
}
