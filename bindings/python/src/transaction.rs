//! The Python class `Transaction`.
use crate::{
    arguments::Bytes,
    column_family::ColumnFamily,
    db::Db,
    pairs::{Pairs, Part},
    range::{Bounds, Range},
    reader::Direction,
    space::Space,
    store::Store,
    transaction_scan::TransactionScan,
    walk::{Ends, Walk},
};
use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use terrace::{Error, Isolation, Locking, ReadOptions, Result, TransactionOptions, WriteOptions};

/// A transaction that has not ended, and its live scans, which end with it.
struct Active {
    transaction: Arc<Walk<terrace::Transaction>>,
    scans: Mutex<Vec<Weak<dyn Ends>>>,
    sync: bool,
    /// Whether the transaction was committed or rolled back. Closing the store does not set it.
    done: AtomicBool,
}

impl Active {
    /// Ends all scans, so that the transaction watches the ranges that they have read. Returns the
    /// transaction.
    fn end(&self) -> Result<terrace::Transaction> {
        self.done.store(true, Ordering::Relaxed);
        let scans = std::mem::take(&mut *self.scans.lock().unwrap_or_else(PoisonError::into_inner));
        scans.iter().filter_map(Weak::upgrade).for_each(|scan| scan.end());
        self.transaction.take().ok_or_else(ended)
    }

    fn add(&self, scan: Weak<dyn Ends>) {
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.retain(|scan| scan.strong_count() > 0);
        scans.push(scan);
    }
}

/// Returns the error of a call after the end of the transaction.
pub fn ended() -> Error {
    Error::Invalid("the transaction was committed or rolled back".into())
}

/// A transaction, seen in one key space. The class `terracedb.Transaction` adds the methods of a
/// `MutableMapping`.
#[pyclass(module = "terracedb", frozen, subclass)]
pub struct Transaction {
    space: Space,
    active: Arc<Active>,
}

/// Functions that are not visible in Python.
impl Transaction {
    fn store(&self) -> &Arc<Store> {
        &self.space.store
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        act: impl Send + FnOnce(&terrace::Transaction, Option<&terrace::ColumnFamily>) -> Result<T>,
    ) -> PyResult<T> {
        self.store().run(py, |_| {
            let family = self.space.family()?;
            let done = self.active.transaction.with(|transaction| act(transaction, family.as_ref()));
            done.map_err(|_| ended())?
        })
    }

    fn value<'py>(&self, py: Python<'py>, key: &[u8], for_update: bool) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.run(py, |transaction, family| match (family, for_update) {
            (None, false) => transaction.get(key),
            (None, true) => transaction.get_for_update(key),
            (Some(family), false) => transaction.get_cf(family, key),
            (Some(family), true) => transaction.get_for_update_cf(family, key),
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn scan(&self, py: Python<'_>, range: Range<'_>, direction: Direction) -> PyResult<TransactionScan> {
        let options = range.within(ReadOptions::new());
        let reverse = direction == Direction::Backward;
        let walk = self.store().walk(py, |_| {
            let family = self.space.family()?;
            let scan = |transaction: &mut terrace::Transaction| {
                transaction.scan_detached(family.as_ref(), options, reverse, None)
            };
            self.active.transaction.with(scan).map_err(|_| ended())?
        })?;
        let handle: Weak<dyn Ends> = Arc::<Walk<_>>::downgrade(&walk);
        self.active.add(handle);
        Ok(TransactionScan::new(self.store().clone(), walk))
    }
}

#[pymethods]
impl Transaction {
    /// Begins a transaction of the store `source`, or shows the transaction `source` in another
    /// key space.
    #[new]
    #[pyo3(signature = (
        source, family=None, *, isolation="serializable", locking="optimistic", lock_timeout=1.0, sync=false
    ))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        family: Option<PyRef<'_, ColumnFamily>>,
        isolation: &str,
        locking: &str,
        lock_timeout: f64,
        sync: bool,
    ) -> PyResult<Transaction> {
        if let (Ok(other), Some(family)) = (source.cast::<Transaction>(), &family) {
            let other = other.get();
            return Ok(Transaction { space: family.space.clone(), active: other.active.clone() });
        }
        let store = source.cast::<Db>()?.get().store.clone();
        let mut options = TransactionOptions::default();
        options.isolation = match isolation {
            "serializable" => Isolation::Serializable,
            "snapshot" => Isolation::Snapshot,
            other => return Err(unknown("isolation", other, "serializable, snapshot")),
        };
        options.locking = match locking {
            "optimistic" => Locking::Optimistic,
            "pessimistic" => Locking::Pessimistic,
            other => return Err(unknown("locking", other, "optimistic, pessimistic")),
        };
        options.lock_timeout = Duration::try_from_secs_f64(lock_timeout)
            .map_err(|error| PyValueError::new_err(format!("lock_timeout={lock_timeout}: {error}")))?;
        let transaction = store.walk(py, |db| Ok(db.begin(options)))?;
        let active = Arc::new(Active { transaction, scans: Mutex::default(), sync, done: AtomicBool::new(false) });
        Ok(Transaction { space: Space::of(store), active })
    }

    /// Whether the transaction was committed or rolled back.
    #[getter]
    fn ended(&self) -> bool {
        self.active.transaction.is_ended()
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key, false)?.map(Bound::into_any).or(default))
    }

    #[pyo3(signature = (key, default=None))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key, true)?.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        self.value(py, &key, false)?.ok_or_else(|| PyKeyError::new_err(key.into_owned()))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.value(py, &key, false)?.is_some())
    }

    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.run(py, |transaction, family| match family {
            None => transaction.put(key, value),
            Some(family) => transaction.put_cf(family, key, value),
        })
    }

    fn delete(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.run(py, |transaction, family| match family {
            None => transaction.delete(key),
            Some(family) => transaction.delete_cf(family, key),
        })
    }

    fn delete_range(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<()> {
        self.run(py, |transaction, family| match family {
            None => transaction.delete_range(start, stop),
            Some(family) => transaction.delete_range_cf(family, start, stop),
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.__getitem__(py, key.clone())?;
        self.delete(py, key)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self._pairs(py, Part::Keys, None, None, None, false)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self._count(py, None, None, None)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.scan(py, Range::default(), Direction::Forward)?.step(py)?.is_some())
    }

    /// Returns the bounds of a range as bytes, for a view of it.
    #[pyo3(signature = (start, stop, *, prefix))]
    fn _bounds<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Bounds<'py>> {
        self.run(py, |_, _| Ok(()))?;
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
        let direction = Direction::new(reverse);
        let scan = self.scan(py, Range { start, stop, prefix }, direction)?;
        Ok(Pairs::new(scan, direction, part))
    }

    fn _count(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<usize> {
        let mut scan = self.scan(py, Range { start, stop, prefix }, Direction::Forward)?;
        let mut count = 0;
        while scan.step(py)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn set_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |transaction, _| {
            transaction.set_savepoint();
            Ok(())
        })
    }

    fn rollback_to_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |transaction, _| transaction.rollback_to_savepoint())
    }

    /// Returns the sequence number of the last write.
    #[pyo3(signature = (*, sync=None))]
    fn commit(&self, py: Python<'_>, sync: Option<bool>) -> PyResult<u64> {
        let options = WriteOptions { sync: sync.unwrap_or(self.active.sync), ..WriteOptions::default() };
        self.store().run(py, |_| self.active.end()?.commit(options))
    }

    /// Does nothing if the transaction has ended.
    fn rollback(&self, py: Python<'_>) {
        py.detach(|| self.active.end().map(terrace::Transaction::rollback).unwrap_or_default());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Ends a `with` block: commits the transaction, unless the block raised an exception or has
    /// ended the transaction itself. After an exception, rolls the transaction back.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _error: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        match kind {
            None if !self.active.done.load(Ordering::Relaxed) => self.commit(py, None).map(drop),
            _ => {
                self.rollback(py);
                Ok(())
            }
        }
    }

    fn __repr__(&self) -> &'static str {
        if self.ended() { "<terracedb.Transaction, ended>" } else { "<terracedb.Transaction>" }
    }
}

fn unknown(option: &str, value: &str, known: &str) -> PyErr {
    PyValueError::new_err(format!("{option}={value:?}: the values are {known}"))
}
