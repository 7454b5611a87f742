//! A scan of a transaction.
use crate::{store::Store, transaction::ended, walk::Walk};
use pyo3::prelude::*;
use std::sync::Arc;

/// A scan of a range that a transaction sees. It reads no pair in advance, because a transaction
/// conflicts with writes to the range that its scans have read.
pub struct TransactionScan {
    store: Arc<Store>,
    walk: Arc<Walk<terrace::TransactionScan<'static>>>,
    pair: (Vec<u8>, Vec<u8>),
}

impl TransactionScan {
    /// Returns a scan that stands before its first pair.
    pub fn new(store: Arc<Store>, walk: Arc<Walk<terrace::TransactionScan<'static>>>) -> TransactionScan {
        TransactionScan { store, walk, pair: Default::default() }
    }

    /// Moves to the next pair. Returns `None` at the end of the range.
    pub fn step(&mut self, py: Python<'_>) -> PyResult<Option<(&[u8], &[u8])>> {
        self.check_open(py)?;
        let pair = self.store.wait(py, || self.walk.with(Iterator::next)?.transpose())?;
        Ok(pair.map(|pair| {
            self.pair = pair;
            (&*self.pair.0, &*self.pair.1)
        }))
    }

    /// Returns an error if the transaction has ended, or its store is closed.
    pub fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_open(py)?;
        if self.walk.is_ended() { Err(self.store.error(py, &ended())) } else { Ok(()) }
    }
}
