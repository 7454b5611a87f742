//! The cursor of an iterator over the pairs that a transaction sees.
//!
//! A scan of the engine has one direction. Each seek, and each change of direction, therefore
//! begins another scan, which sees the earlier writes of the transaction. A serializable
//! transaction watches exactly the ranges that these scans have read.
use super::transaction::{Active, Slot, ended};
use std::sync::{Arc, PoisonError};
use terrace::{ColumnFamily, ReadOptions, Result};

type Pair = (Vec<u8>, Vec<u8>);

/// A cursor over a range of keys of a transaction.
pub struct TransactionCursor {
    active: Arc<Active>,
    family: Option<ColumnFamily>,
    options: ReadOptions,
    scan: Arc<Slot>,
    reverse: bool,
    pair: Option<Pair>,
}

impl TransactionCursor {
    /// Returns a cursor that is not at a pair.
    pub fn new(active: Arc<Active>, family: Option<ColumnFamily>, options: ReadOptions) -> TransactionCursor {
        let scan = active.slot();
        TransactionCursor { active, family, options, scan, reverse: false, pair: None }
    }

    pub fn valid(&self) -> bool {
        self.pair.is_some()
    }

    pub fn key(&self) -> &[u8] {
        &self.current().0
    }

    pub fn value(&self) -> &[u8] {
        &self.current().1
    }

    fn current(&self) -> &Pair {
        self.pair.as_ref().expect("the caller checks that the iterator is valid")
    }

    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin(false, None)
    }

    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin(true, None)
    }

    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin(false, Some(key))
    }

    pub fn next(&mut self) -> Result<()> {
        let Some((key, _)) = self.pair.take() else { return Ok(()) };
        if self.reverse {
            self.begin(false, Some(&key))?;
            let is_same = self.pair.as_ref().is_some_and(|(first, _)| *first == key);
            return if is_same { self.step() } else { Ok(()) };
        }
        self.step()
    }

    pub fn prev(&mut self) -> Result<()> {
        let Some((key, _)) = self.pair.take() else { return Ok(()) };
        if self.reverse { self.step() } else { self.begin(true, Some(&key)) }
    }

    /// Begins another scan, and moves to its first pair.
    fn begin(&mut self, reverse: bool, at: Option<&[u8]>) -> Result<()> {
        self.pair = None;
        self.reverse = reverse;
        // The end of the transaction waits until `with` returns. So it also ends this new scan.
        self.active.with(|transaction| {
            let scan = transaction.scan_detached(self.family.as_ref(), self.options.clone(), reverse, at)?;
            *self.scan.lock().unwrap_or_else(PoisonError::into_inner) = Some(scan);
            Ok(())
        })?;
        self.step()
    }

    fn step(&mut self) -> Result<()> {
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        self.pair = None;
        self.pair = scan.as_mut().ok_or_else(ended)?.next().transpose()?;
        Ok(())
    }
}
