//! Python iterators over keys, values or both.
use crate::{
    error,
    walk::{Ends, Walk},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use terrace::{Error, Scan};

/// Maximum number of pairs that an iterator fetches from the engine per release of the
/// interpreter's lock. One release costs about as much time as a few pairs.
const PAIRS_AT_ONCE: usize = 128;
/// Maximum number of bytes of the pairs that are fetched together, so that large values do not
/// fill memory.
const BYTES_AT_ONCE: usize = 64 << 10;

/// The part of a pair that an iterator yields.
#[derive(Clone, Copy)]
pub enum Part {
    Keys,
    Values,
    Both,
}

fn fetch(scan: &mut Scan) -> Fetched {
    let (mut pairs, mut bytes) = (VecDeque::new(), 0);
    while pairs.len() < PAIRS_AT_ONCE && bytes < BYTES_AT_ONCE {
        match scan.next() {
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                pairs.push_back((key, value));
            }
            Some(Err(error)) => return Fetched { pairs, error: Some(error) },
            None => break,
        }
    }
    Fetched { pairs, error: None }
}

/// Fetched pairs that the iterator has not yielded yet, and the error after them, if there is one.
#[derive(Default)]
struct Fetched {
    pairs: VecDeque<(Vec<u8>, Vec<u8>)>,
    error: Option<Error>,
}

/// A Python iterator over pairs in ascending or descending key order.
#[pyclass(module = "terracedb")]
pub struct Pairs {
    walk: Arc<Walk<Scan>>,
    fetched: Fetched,
    part: Part,
    ended: bool,
}

impl Pairs {
    /// Returns an iterator over `scan`, and a handle with which the store can end it.
    pub fn new(scan: Scan, part: Part) -> (Pairs, Weak<dyn Ends>) {
        let walk = Arc::new(Walk::new(scan));
        let handle: Weak<dyn Ends> = Arc::<Walk<Scan>>::downgrade(&walk);
        (Pairs { walk, fetched: Fetched::default(), part, ended: false }, handle)
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.walk.is_ended() && !self.ended {
            return Err(error::closed(py)); // even if pairs were fetched before the store was closed
        }
        if self.fetched.pairs.is_empty() && self.fetched.error.is_none() && !self.ended {
            let walk = &self.walk;
            let closed = |error| Fetched { pairs: VecDeque::new(), error: Some(error) };
            self.fetched = py.detach(|| walk.with(fetch).unwrap_or_else(closed));
            self.ended = self.fetched.pairs.is_empty() && !self.walk.is_ended();
        }
        let Some((key, value)) = self.fetched.pairs.pop_front() else {
            return match self.fetched.error.take() {
                Some(error) => {
                    self.ended = !self.walk.is_ended();
                    Err(error::raised(py, &error))
                }
                None => Ok(None),
            };
        };
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok(Some(match self.part {
            Part::Keys => bytes(&key).into_any().unbind(),
            Part::Values => bytes(&value).into_any().unbind(),
            Part::Both => (bytes(&key), bytes(&value)).into_pyobject(py)?.into_any().unbind(),
        }))
    }
}
