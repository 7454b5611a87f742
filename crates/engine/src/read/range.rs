//! An iterator over a range of keys from both ends.
use super::scan::Cursor;
use crate::{Error, Result};
use std::ops::{Bound, RangeBounds};
use terrace_format::KeyOrder;

/// The pairs of a key range, in key order, from both ends. All pairs are from the moment at which
/// the iterator was made.
///
/// ```
/// # use terrace::{Db, Options};
/// let db = Db::open_in_memory(Options::default())?;
/// ["ant", "bee", "bug", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
/// let mut pairs = db.range("ant"..="bug");
/// assert_eq!(pairs.next().transpose()?.unwrap().0, b"ant");
/// assert_eq!(pairs.next_back().transpose()?.unwrap().0, b"bug");
/// assert_eq!(pairs.count(), 1);
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Range {
    order: KeyOrder,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    front: Cursor,
    back: Cursor,
    /// The key that the iterator has last returned from the front, and from the back.
    last_front: Option<Vec<u8>>,
    last_back: Option<Vec<u8>>,
    ended: bool,
}

impl Range {
    /// Makes the iterator from two new cursors of the same snapshot.
    pub(crate) fn new<K: AsRef<[u8]> + ?Sized>(
        order: KeyOrder,
        range: &impl RangeBounds<K>,
        mut cursor: impl FnMut() -> Cursor,
    ) -> Range {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (start, end) = (owned(range.start_bound()), owned(range.end_bound()));
        let (front, back) = (cursor(), cursor());
        Range { order, start, end, front, back, last_front: None, last_back: None, ended: false }
    }

    /// Moves the front cursor to its next pair.
    fn advance(&mut self) -> Result<()> {
        if self.last_front.is_some() {
            return self.front.next();
        }
        match &self.start {
            Bound::Unbounded => self.front.seek_to_first(),
            Bound::Included(start) => self.front.seek(start),
            Bound::Excluded(start) => {
                self.front.seek(start)?;
                if self.front.valid() && self.order.user(self.front.key(), start).is_eq() {
                    self.front.next()?;
                }
                Ok(())
            }
        }
    }

    /// Moves the back cursor to its previous pair.
    fn advance_back(&mut self) -> Result<()> {
        if self.last_back.is_some() {
            return self.back.prev();
        }
        match &self.end {
            Bound::Unbounded => self.back.seek_to_last(),
            Bound::Included(end) => self.back.seek_for_prev(end),
            Bound::Excluded(end) => {
                self.back.seek_for_prev(end)?;
                if self.back.valid() && self.order.user(self.back.key(), end).is_eq() {
                    self.back.prev()?;
                }
                Ok(())
            }
        }
    }

    /// Returns whether `key` is in the range and was not returned yet.
    fn is_left(&self, key: &[u8]) -> bool {
        let compare = |other: &Vec<u8>| self.order.user(key, other);
        let after_start = match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => compare(start).is_ge(),
            Bound::Excluded(start) => compare(start).is_gt(),
        };
        let before_end = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => compare(end).is_le(),
            Bound::Excluded(end) => compare(end).is_lt(),
        };
        let after_front = self.last_front.as_ref().is_none_or(|last| compare(last).is_gt());
        let before_back = self.last_back.as_ref().is_none_or(|last| compare(last).is_lt());
        after_start && before_end && after_front && before_back
    }

    /// Ends the iteration after an error.
    fn failed(&mut self, error: Error) -> Option<<Range as Iterator>::Item> {
        self.ended = true;
        Some(Err(error))
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if let Err(error) = self.advance() {
            return self.failed(error);
        }
        self.ended = !self.front.valid() || !self.is_left(self.front.key());
        (!self.ended).then(|| {
            let (key, value) = (self.front.key().to_vec(), self.front.value().to_vec());
            self.last_front = Some(key.clone());
            Ok((key, value))
        })
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if let Err(error) = self.advance_back() {
            return self.failed(error);
        }
        self.ended = !self.back.valid() || !self.is_left(self.back.key());
        (!self.ended).then(|| {
            let (key, value) = (self.back.key().to_vec(), self.back.value().to_vec());
            self.last_back = Some(key.clone());
            Ok((key, value))
        })
    }
}
