//! Iterators over keys, values or both.
use crate::{reader::Direction, steps::Steps, transaction_scan::TransactionScan};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyString},
};

/// The part of a pair that an iterator yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Keys,
    Values,
    Items,
}

impl FromPyObject<'_, '_> for Part {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Part> {
        match &*object.cast::<PyString>()?.to_cow()? {
            "keys" => Ok(Part::Keys),
            "values" => Ok(Part::Values),
            "items" => Ok(Part::Items),
            other => Err(PyValueError::new_err(format!("a pair has no part {other:?}"))),
        }
    }
}

impl Part {
    /// Returns this part of a pair as an object.
    pub fn of(self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<Py<PyAny>> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok(match self {
            Part::Keys => bytes(key).into_any().unbind(),
            Part::Values => bytes(value).into_any().unbind(),
            Part::Items => (bytes(key), bytes(value)).into_pyobject(py)?.into_any().unbind(),
        })
    }
}

/// Where an iterator gets its pairs from.
pub enum Source {
    Steps(Steps),
    Transaction(TransactionScan),
}

impl From<Steps> for Source {
    fn from(steps: Steps) -> Source {
        Source::Steps(steps)
    }
}

impl From<TransactionScan> for Source {
    fn from(scan: TransactionScan) -> Source {
        Source::Transaction(scan)
    }
}

impl Source {
    fn step(&mut self, py: Python<'_>, direction: Direction) -> PyResult<Option<(&[u8], &[u8])>> {
        match self {
            Source::Steps(steps) => steps.step(py, direction),
            Source::Transaction(scan) => scan.step(py),
        }
    }

    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Source::Steps(steps) => steps.check_open(py),
            Source::Transaction(scan) => scan.check_open(py),
        }
    }
}

/// A Python iterator over pairs in ascending or descending key order.
#[pyclass(module = "terracedb")]
pub struct Pairs {
    source: Source,
    direction: Direction,
    part: Part,
    /// Set at the end of the range and after an error. The iterator then stays at its end, even if
    /// the store is closed.
    ended: bool,
}

impl Pairs {
    /// Returns an iterator over the parts of the pairs of `source`.
    pub fn new(source: impl Into<Source>, direction: Direction, part: Part) -> Pairs {
        Pairs { source: source.into(), direction, part, ended: false }
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.ended {
            return Ok(None);
        }
        match self.source.step(py, self.direction) {
            Ok(Some((key, value))) => Ok(Some(self.part.of(py, key, value)?)),
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.ended = self.source.check_open(py).is_ok();
                Err(error)
            }
        }
    }
}
