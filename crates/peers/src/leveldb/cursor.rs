//! Positions in a LevelDB store.
use super::ffi::{self, Api, Handle, Step};
use crate::Result;
use std::marker::PhantomData;

/// Keys with their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A movable position over a snapshot, made by [`Store::cursor`](super::Store::cursor). The store stays open meanwhile.
pub struct Cursor<'a> {
    iter: Handle<ffi::Iter>,
    api: &'static Api,
    _store: PhantomData<&'a super::Store>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(api: &'static Api, iter: Handle<ffi::Iter>) -> Cursor<'a> {
        Cursor { iter, api, _store: PhantomData }
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// LevelDB's, as for every movement.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::First)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Last)
    }

    /// Moves to the first entry at or behind `target`.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.api.step(&mut self.iter, Step::Seek(target))
    }

    /// Moves to the next entry; does nothing where there is no entry.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn step_forward(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Next)
    }

    /// Moves to the entry before; does nothing where there is no entry.
    ///
    /// # Errors
    /// LevelDB's.
    pub fn step_back(&mut self) -> Result<()> {
        self.api.step(&mut self.iter, Step::Prev)
    }

    /// The key and value here, or `None` behind either end.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.api.common.entry(&self.iter)
    }

    /// Visits entries from here on, towards the first if `reverse`, until `visit` says false or there are no more.
    ///
    /// # Errors
    /// LevelDB's.
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
