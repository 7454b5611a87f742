//! A reader of a key range, which fetches pairs in either direction.
use crate::chunk::Chunk;
use terrace::{Cursor, KeyOrder, Result};

/// The direction of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// Returns `Backward` if `reverse` is set.
    pub fn new(reverse: bool) -> Direction {
        if reverse { Direction::Backward } else { Direction::Forward }
    }

    /// Returns the other direction.
    pub fn turned(self) -> Direction {
        Direction::new(self == Direction::Forward)
    }
}

/// A position between two pairs, or at an end of the range.
#[derive(Clone, Debug)]
pub enum Gap {
    Start,
    End,
    Before(Vec<u8>),
    After(Vec<u8>),
}

/// Bounds that the engine's cursor does not have.
#[derive(Default)]
pub struct ExtraBounds {
    /// The range begins after this key.
    pub after: Option<Vec<u8>>,
    /// The range ends with this key.
    pub up_to: Option<Vec<u8>>,
}

/// A cursor of the engine with further bounds.
pub struct RangeReader {
    cursor: Cursor,
    order: KeyOrder,
    bounds: ExtraBounds,
}

impl RangeReader {
    /// Returns a reader of the range of `cursor` within `bounds`.
    pub fn new(cursor: Cursor, order: KeyOrder, bounds: ExtraBounds) -> RangeReader {
        RangeReader { cursor, order, bounds }
    }

    /// Fetches into `chunk` at most `pairs` pairs in `direction`, beginning at the gap `from`. If
    /// `from` is `None`, continues after the pairs of the last fetch, which must have had the same
    /// direction. An error ends the chunk.
    pub fn fetch(&mut self, from: Option<&Gap>, direction: Direction, pairs: usize, chunk: &mut Chunk) {
        chunk.clear();
        chunk.error = self.try_fetch(from, direction, pairs, chunk).err();
        chunk.is_last |= chunk.error.is_some();
    }

    fn try_fetch(&mut self, from: Option<&Gap>, direction: Direction, pairs: usize, chunk: &mut Chunk) -> Result<()> {
        match from {
            Some(gap) => chunk.is_last = !self.seek(gap, direction)?,
            None => self.step(direction)?,
        }
        while !chunk.is_last {
            if !self.is_within(direction) {
                chunk.is_last = true;
                break;
            }
            chunk.push(self.cursor.key(), self.cursor.value());
            if chunk.is_full(pairs) {
                break;
            }
            self.step(direction)?;
        }
        Ok(())
    }

    /// Moves the cursor to the pair next to `gap` in `direction`. Returns false if the gap is at
    /// the end of the range.
    fn seek(&mut self, gap: &Gap, direction: Direction) -> Result<bool> {
        match (direction, gap) {
            (Direction::Forward, Gap::End) | (Direction::Backward, Gap::Start) => return Ok(false),
            (Direction::Forward, Gap::Start) => self.seek_to_start()?,
            (Direction::Backward, Gap::End) => self.seek_to_end()?,
            (Direction::Forward, Gap::Before(key)) => {
                let early = self.bounds.after.as_ref().is_some_and(|after| self.order.user(key, after).is_le());
                if early { self.seek_to_start()? } else { self.cursor.seek(key)? }
            }
            (Direction::Backward, Gap::Before(key)) => {
                let late = self.bounds.up_to.as_ref().is_some_and(|up_to| self.order.user(key, up_to).is_gt());
                if late { self.seek_to_end()? } else { self.seek_before(key)? }
            }
            (Direction::Forward, Gap::After(key)) => self.seek_after(key)?,
            (Direction::Backward, Gap::After(key)) => self.cursor.seek_for_prev(key)?,
        }
        Ok(true)
    }

    fn seek_to_start(&mut self) -> Result<()> {
        match self.bounds.after.clone() {
            Some(after) => self.seek_after(&after),
            None => self.cursor.seek_to_first(),
        }
    }

    fn seek_to_end(&mut self) -> Result<()> {
        match &self.bounds.up_to {
            Some(up_to) => self.cursor.seek_for_prev(up_to),
            None => self.cursor.seek_to_last(),
        }
    }

    fn seek_after(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        if self.is_at(key) { self.cursor.next() } else { Ok(()) }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_for_prev(key)?;
        if self.is_at(key) { self.cursor.prev() } else { Ok(()) }
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => self.cursor.next(),
            Direction::Backward => self.cursor.prev(),
        }
    }

    fn is_at(&self, key: &[u8]) -> bool {
        self.cursor.valid() && self.order.user(self.cursor.key(), key).is_eq()
    }

    /// Returns whether the cursor is at a pair that is not beyond the bound in `direction`.
    fn is_within(&self, direction: Direction) -> bool {
        self.cursor.valid()
            && match direction {
                Direction::Forward => {
                    self.bounds.up_to.as_ref().is_none_or(|up_to| self.order.user(self.cursor.key(), up_to).is_le())
                }
                Direction::Backward => {
                    self.bounds.after.as_ref().is_none_or(|after| self.order.user(self.cursor.key(), after).is_gt())
                }
            }
    }
}
