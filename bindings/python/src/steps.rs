//! The position of an iterator: steps over the pairs of a range, in both directions.
use crate::{
    chunk::{Chunk, PAIRS_FIRST, PAIRS_MAX},
    reader::{Direction, ExtraBounds, Gap, RangeReader},
    space::Space,
    walk::{Ends, Walk},
};
use pyo3::prelude::*;
use std::sync::Arc;
use terrace::{Cursor, ReadOptions, Result};

/// A position in a range. It sees the store as of its creation.
pub struct Steps {
    space: Space,
    walk: Arc<Walk<RangeReader>>,
    direction: Direction,
    /// The position before the pairs of the chunk.
    gap: Gap,
    /// The pairs that follow the gap in `direction`.
    chunk: Chunk,
    /// Whether the reader is at the last pair of the chunk, so that the next fetch needs no seek.
    continues: bool,
    /// The number of pairs to fetch next.
    pairs: usize,
}

impl Steps {
    /// Returns a position at the start of a range, or at its end if the direction is backward.
    pub fn new(
        py: Python<'_>,
        space: Space,
        options: ReadOptions,
        bounds: ExtraBounds,
        direction: Direction,
    ) -> PyResult<Steps> {
        let order = space.store.order();
        let walk = space.store.walk(py, |db| Ok(RangeReader::new(space.cursor(db, options)?, order, bounds)))?;
        let gap = if direction == Direction::Forward { Gap::Start } else { Gap::End };
        let chunk = Chunk::default();
        Ok(Steps { space, walk, direction, gap, chunk, continues: false, pairs: PAIRS_FIRST })
    }

    /// Takes the next pair in `direction`. Returns `None` at the end of the range.
    pub fn step(&mut self, py: Python<'_>, direction: Direction) -> PyResult<Option<(&[u8], &[u8])>> {
        self.check_open(py)?;
        if direction != self.direction {
            self.seek(self.position());
            self.direction = direction;
        }
        if self.chunk.is_used_up() && !self.chunk.is_last {
            self.fetch(py)?;
        }
        if self.chunk.is_used_up()
            && let Some(error) = self.chunk.error.take()
        {
            return Err(self.space.store.error(py, &error));
        }
        Ok(self.chunk.take())
    }

    /// Moves the position to `gap`.
    pub fn seek(&mut self, gap: Gap) {
        self.gap = gap;
        self.chunk.clear();
        self.continues = false;
        self.pairs = PAIRS_FIRST;
    }

    /// Returns an error if the iterator or its store is closed.
    pub fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.walk.is_ended() { Err(self.space.store.closed(py)) } else { Ok(()) }
    }

    /// Releases the files that the iterator reads.
    pub fn close(&self, py: Python<'_>) {
        py.detach(|| self.walk.end());
    }

    /// Returns the position after the last pair that was taken.
    fn position(&self) -> Gap {
        match (self.chunk.last_key(), self.direction) {
            (None, _) => self.gap.clone(),
            (Some(key), Direction::Forward) => Gap::After(key.into()),
            (Some(key), Direction::Backward) => Gap::Before(key.into()),
        }
    }

    fn fetch(&mut self, py: Python<'_>) -> PyResult<()> {
        self.gap = self.position();
        let from = (!std::mem::take(&mut self.continues)).then_some(&self.gap);
        let (walk, direction, pairs) = (&self.walk, self.direction, self.pairs);
        let mut chunk = std::mem::take(&mut self.chunk);
        self.chunk = self.space.store.wait(py, move || {
            walk.with(|reader| reader.fetch(from, direction, pairs, &mut chunk))?;
            Ok(chunk)
        })?;
        self.continues = true;
        self.pairs = (self.pairs * 2).min(PAIRS_MAX);
        Ok(())
    }
}

/// Returns whether a range has no pair.
pub fn is_empty(py: Python<'_>, space: &Space, options: ReadOptions) -> PyResult<bool> {
    space.store.run(py, |db| {
        let mut cursor = space.cursor(db, options)?;
        cursor.seek_to_first().map(|()| !cursor.valid())
    })
}

/// Counts the pairs of a range as of the call. The caller can interrupt it.
pub fn count(py: Python<'_>, space: &Space, options: ReadOptions) -> PyResult<usize> {
    let walk = space.store.walk(py, |db| {
        let mut cursor = space.cursor(db, options)?;
        cursor.seek_to_first().map(|()| cursor)
    })?;
    let mut count = 0;
    loop {
        let counted = space.store.wait(py, || walk.with(count_some)?)?;
        if counted == 0 {
            return Ok(count);
        }
        count += counted;
        py.check_signals()?;
    }
}

/// Counts at most `AT_ONCE` pairs from the cursor on, and moves the cursor past them. The count is
/// 0 only at the end of the range.
fn count_some(cursor: &mut Cursor) -> Result<usize> {
    const AT_ONCE: usize = 1 << 16;
    let mut count = 0;
    while cursor.valid() && count < AT_ONCE {
        cursor.next()?;
        count += 1;
    }
    Ok(count)
}
