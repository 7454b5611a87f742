//! The reads of `DB`, `PrefixedDB` and `Snapshot`.
use super::{database::Handle, iterator::Iterator, raw_iterator::RawIterator};
use crate::{
    arguments::Bytes,
    reader::{Direction, ExtraBounds},
    snapshot::Held,
    space::Space,
    steps::Steps,
    store::Store,
};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyBytes};
use std::sync::Arc;
use terrace::ReadOptions;

/// Reads of a database, or of a snapshot, within a prefix of the keys.
#[pyclass(module = "terracedb.plyvel", frozen, subclass)]
pub struct Reads {
    pub store: Arc<Store>,
    pub prefix: Vec<u8>,
    snapshot: Option<Held>,
}

impl Reads {
    /// Returns the present state of `store` within `prefix`.
    pub fn new(store: Arc<Store>, prefix: Vec<u8>) -> Reads {
        Reads { store, prefix, snapshot: None }
    }

    /// Returns the key in the database.
    pub fn key<'a>(&self, key: Bytes<'a>) -> Bytes<'a> {
        if self.prefix.is_empty() { key } else { [&self.prefix, &*key].concat().into() }
    }

    fn options(&self, py: Python<'_>, verify: Option<bool>, fill: Option<bool>) -> PyResult<ReadOptions> {
        let options = match &self.snapshot {
            None => ReadOptions::new(),
            Some(held) => held.options().ok_or_else(|| self.store.closed(py))?,
        };
        Ok(options.verify_checksums(verify.unwrap_or(false)).fill_cache(fill.unwrap_or(false)))
    }
}

#[pymethods]
impl Reads {
    /// Returns a snapshot of the keys that start with `prefix`.
    #[new]
    fn snapshot(py: Python<'_>, handle: &Handle, prefix: Bytes<'_>) -> PyResult<Reads> {
        let snapshot = Some(Held::new(py, &handle.0)?);
        Ok(Reads { store: handle.0.clone(), prefix: prefix.into(), snapshot })
    }

    #[pyo3(signature = (key, default=None, *, verify_checksums=None, fill_cache=true))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (key, options) = (self.key(key), self.options(py, verify_checksums, fill_cache)?);
        let value = self.store.run(py, |db| db.get_with(key, &options))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        let options = self.options(py, None, Some(true))?;
        let options = range(Bounds { include_start: true, ..Bounds::default() }, &self.prefix, options)?;
        self.iterate(py, options, false, true, true)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of plyvel")]
    #[pyo3(signature = (
        *, reverse=false, start=None, stop=None, include_start=true, include_stop=false, prefix=None,
        include_key=true, include_value=true, verify_checksums=None, fill_cache=true
    ))]
    fn iterator(
        &self,
        py: Python<'_>,
        reverse: Option<bool>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        include_start: Option<bool>,
        include_stop: Option<bool>,
        prefix: Option<Bytes<'_>>,
        include_key: Option<bool>,
        include_value: Option<bool>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Iterator> {
        let yes = |flag: Option<bool>| flag.unwrap_or(false);
        let bounds = Bounds { start, stop, prefix, include_start: yes(include_start), include_stop: yes(include_stop) };
        let options = range(bounds, &self.prefix, self.options(py, verify_checksums, fill_cache)?)?;
        self.iterate(py, options, yes(reverse), yes(include_key), yes(include_value))
    }

    /// Returns an iterator over the whole database, without the prefix.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=true))]
    fn _raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        RawIterator::new(py, self.store.clone(), self.options(py, verify_checksums, fill_cache)?)
    }

    /// Releases the snapshot. Does nothing if it is released already.
    fn _release(&self) {
        self.snapshot.as_ref().inspect(|held| held.release());
    }
}

impl Reads {
    fn iterate(
        &self,
        py: Python<'_>,
        (options, bounds): (ReadOptions, ExtraBounds),
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> PyResult<Iterator> {
        let direction = Direction::new(reverse);
        let steps = Steps::new(py, Space::of(self.store.clone()), options, bounds, direction)?;
        Ok(Iterator::new(steps, direction, self.prefix.clone(), keys, values))
    }
}

/// The range of an iterator, in keys without the prefix of the database.
#[derive(Default)]
struct Bounds<'a> {
    start: Option<Bytes<'a>>,
    stop: Option<Bytes<'a>>,
    prefix: Option<Bytes<'a>>,
    include_start: bool,
    include_stop: bool,
}

/// Returns `options` for a read of the range `bounds` of the keys that start with `outer`. As in
/// plyvel, the keys with a prefix are those before its successor in bytewise order.
fn range(bounds: Bounds<'_>, outer: &[u8], mut options: ReadOptions) -> PyResult<(ReadOptions, ExtraBounds)> {
    let within = |key: Bytes<'_>| [outer, &*key].concat();
    let mut extra = ExtraBounds::default();
    if bounds.prefix.is_some() && (bounds.start.is_some() || bounds.stop.is_some()) {
        return Err(PyTypeError::new_err("'prefix' excludes 'start' and 'stop'"));
    }
    let prefix = bounds.prefix.map_or_else(|| outer.to_vec(), within);
    match bounds.start.map(within) {
        Some(start) if !bounds.include_start => extra.after = Some(start),
        Some(start) => options = options.from(start),
        None if !prefix.is_empty() => options = options.from(&*prefix),
        None => {}
    }
    match bounds.stop.map(within) {
        Some(stop) if bounds.include_stop => extra.up_to = Some(stop),
        Some(stop) => options = options.to(stop),
        None => {
            if let Some(end) = successor(prefix) {
                options = options.to(end);
            }
        }
    }
    Ok((options, extra))
}

/// Returns the first key after all keys that start with `prefix`, or `None` if no key follows
/// them.
fn successor(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while prefix.pop_if(|last| *last == 0xff).is_some() {}
    *prefix.last_mut()? += 1;
    Some(prefix)
}
