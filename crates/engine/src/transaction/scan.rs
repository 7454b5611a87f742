//! The scan of a transaction: the pairs of the snapshot, merged with the writes of the
//! transaction.
use super::delta::{FamilyDelta, OrderedKey};
use crate::{
    Result, Scan,
    read::{changes::WatchedRange, scan::ReadRange},
};
use std::{cmp::Ordering, iter::Peekable, sync::Arc, vec};
use terrace_format::KeyOrder;

/// Receives the range of keys that a scan has read, so that the transaction watches it.
pub type Watch<'a> = Box<dyn Fn(WatchedRange) + Send + 'a>;

/// An iterator over the pairs that a transaction sees, made by `Transaction::scan`. It includes
/// the writes that the transaction made before the creation of the iterator, and no later ones.
pub struct TransactionScan<'a> {
    /// Receives the range that was read; `None` if the transaction does not watch its reads.
    watch: Option<Watch<'a>>,
    order: KeyOrder,
    range: ReadRange,
    reverse: bool,
    /// The pairs of the snapshot. `None` if the transaction could not make its snapshot; the error
    /// is in `failed`.
    pairs: Option<Peekable<Scan>>,
    failed: Option<crate::Error>,
    /// The keys of the range that the transaction has written, in the order of the scan.
    written: Peekable<vec::IntoIter<(OrderedKey, Option<Vec<u8>>)>>,
    /// All writes of the transaction to the column family. They shadow pairs of the snapshot.
    delta: Option<Arc<FamilyDelta>>,
    /// The last key that was returned.
    last: Option<Vec<u8>>,
    ended: bool,
}

impl<'a> TransactionScan<'a> {
    /// Makes a scan of `pairs`, the pairs of the snapshot in `range`, and of the writes in `delta`.
    pub(super) fn new(
        (order, range, reverse): (KeyOrder, ReadRange, bool),
        pairs: Result<Scan>,
        delta: Option<Arc<FamilyDelta>>,
        watch: Option<Watch<'a>>,
    ) -> TransactionScan<'a> {
        let mut written = delta.as_ref().map_or_else(Vec::new, |delta| delta.entries(|key| range.admits(key)));
        if reverse {
            written.reverse();
        }
        let (pairs, failed) = match pairs {
            Ok(pairs) => (Some(pairs.peekable()), None),
            Err(error) => (None, Some(error)),
        };
        let written = written.into_iter().peekable();
        TransactionScan { watch, order, range, reverse, pairs, failed, written, delta, last: None, ended: false }
    }

    /// Compares the next key that the transaction has written with the next pair of the snapshot,
    /// in the order of the scan.
    fn compare(&mut self) -> Option<Ordering> {
        let pair = self.pairs.as_mut().and_then(Peekable::peek);
        match (self.written.peek(), pair) {
            (None, None) => None,
            (Some(_), None) => Some(Ordering::Less),
            (_, Some(Err(_))) | (None, Some(Ok(_))) => Some(Ordering::Greater),
            (Some((key, _)), Some(Ok((pair, _)))) => {
                let ordering = self.order.user(&key.bytes, pair);
                Some(if self.reverse { ordering.reverse() } else { ordering })
            }
        }
    }

    fn step(&mut self) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        loop {
            let ordering = self.compare()?;
            if ordering.is_eq() {
                self.pairs.as_mut().and_then(Iterator::next); // the written value replaces it
            }
            if ordering.is_le() {
                if let Some((key, Some(value))) = self.written.next() {
                    return Some(Ok((key.bytes, value)));
                }
                continue; // a deleted key
            }
            let pair = self.pairs.as_mut().and_then(Iterator::next)?;
            let hides =
                |key: &[u8]| self.delta.as_ref().is_some_and(|delta| delta.hides(&OrderedKey::new(&self.order, key)));
            match pair {
                Ok((key, _)) if hides(&key) => {}
                pair => return Some(pair),
            }
        }
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.ended { None } else { self.step() };
        match &next {
            Some(Ok((key, _))) => self.last = Some(key.clone()),
            Some(Err(_)) => {}
            None => self.ended = true,
        }
        next
    }
}

impl Drop for TransactionScan<'_> {
    /// Watches the part of the range that was read. Keys that the scan has not reached may change
    /// without a conflict.
    fn drop(&mut self) {
        let Some(watch) = self.watch.take().filter(|_| self.last.is_some() || self.ended) else { return };
        let (from, to) = self.range.bounds();
        let (mut from, mut to, mut includes_to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec), false);
        match self.last.take().filter(|_| !self.ended) {
            Some(last) if self.reverse => from = Some(last),
            Some(last) => (to, includes_to) = (Some(last), true),
            None => {}
        }
        watch(WatchedRange { from, to, includes_to });
    }
}
