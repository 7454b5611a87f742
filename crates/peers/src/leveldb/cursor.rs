//! Cursors over a LevelDB store, which move over its entries in key order.
use super::ffi::{self, Api, Handle, Step};
use crate::Result;
use std::marker::PhantomData;

/// Entries of a store: keys with their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A cursor over a snapshot. [`Store::cursor`](super::Store::cursor) creates it. It borrows the
/// store, so the store stays open while the cursor exists.
pub struct Cursor<'a> {
    iter: Handle<ffi::Iter>,
    api: &'static Api,
    _store: PhantomData<&'a super::Store>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(api: &'static Api, iter: Handle<ffi::Iter>) -> Cursor<'a> {
        Cursor { iter, api, _store: PhantomData }
    }

    /// Moves the cursor to the first entry.
    ///
    /// # Errors
    /// LevelDB's errors. All functions that move the cursor have the same errors.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::First)
    }

    /// Moves the cursor to the last entry.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Last)
    }

    /// Moves the cursor to the first entry with a key at or after `target`.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.api.step(&mut self.iter, Step::Seek(target))
    }

    /// Moves the cursor to the next entry. Does nothing if the cursor is not at an entry.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn step_forward(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Next)
    }

    /// Moves the cursor to the previous entry. Does nothing if the cursor is not at an entry.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn step_back(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Prev)
    }

    /// Returns the current key and value, or `None` before the first or after the last entry.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.api.common.entry(&self.iter)
    }

    /// Visits entries from the current one, backwards if `reverse`, until `visit` returns false or
    /// the entries end.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn visit(&mut self, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.api.common.visit(&mut self.iter, reverse, visit)
    }

    pub(super) fn collect_forward(mut self) -> Result<Pairs> {
        let mut pairs = Pairs::new();
        self.seek_to_first()?;
        while let Some((key, value)) = self.entry() {
            pairs.push((key.to_vec(), value.to_vec()));
            self.step_forward()?;
        }
        Ok(pairs)
    }

    pub(super) fn collect_backward(mut self) -> Result<Pairs> {
        let mut pairs = Pairs::new();
        self.seek_to_last()?;
        while let Some((key, value)) = self.entry() {
            pairs.push((key.to_vec(), value.to_vec()));
            self.step_back()?;
        }
        Ok(pairs)
    }
}
