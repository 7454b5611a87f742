//! Key ranges: the arguments of reads.
use crate::arguments::Bytes;
use pyo3::{prelude::*, types::PyBytes};
use terrace::ReadOptions;

/// Keys from `start` (included) to `stop` (excluded) that start with `prefix`.
#[derive(Default)]
pub struct Range<'a> {
    pub start: Option<Bytes<'a>>,
    pub stop: Option<Bytes<'a>>,
    pub prefix: Option<Bytes<'a>>,
}

impl Range<'_> {
    /// Returns `options` for a read of this range.
    pub fn within(self, mut options: ReadOptions) -> ReadOptions {
        if let Some(start) = self.start {
            options = options.from(start);
        }
        if let Some(stop) = self.stop {
            options = options.to(stop);
        }
        if let Some(prefix) = self.prefix {
            options = options.prefix(prefix);
        }
        options
    }
}

/// The bounds of a range as objects: `start`, `stop` and `prefix`.
pub type Bounds<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

impl Range<'_> {
    /// Returns copies of the bounds.
    pub fn bounds<'py>(&self, py: Python<'py>) -> Bounds<'py> {
        let copy = |bound: &Option<Bytes<'_>>| bound.as_ref().map(|bound| PyBytes::new(py, bound));
        (copy(&self.start), copy(&self.stop), copy(&self.prefix))
    }
}
