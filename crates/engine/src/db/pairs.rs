//! Methods that are built on scans and range deletes: ranges from both ends, the first and the last
//! pair, counts, and deletes of prefixes. Each exists for the store and for a column family.
use super::{ColumnFamily, Db};
use crate::{Error, Range, ReadOptions, Result, WriteOptions, read::scan::after_prefix};
use std::ops::{Bound, RangeBounds};
use terrace_format::FamilyId;

/// A pair: a key and its value.
type Pair = (Vec<u8>, Vec<u8>);

impl Db {
    /// Returns the pairs of a key range, from both ends: an iterator that also has
    /// [`next_back`](DoubleEndedIterator::next_back) and [`rev`](Iterator::rev).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let keys: Vec<_> = db.range("b"..).rev().map(|pair| pair.unwrap().0).collect();
    /// assert_eq!(keys, [b"cat", b"bee"]);
    /// assert_eq!(db.range::<str>(..).count(), 3);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range {
        self.range_in(FamilyId::DEFAULT, &range)
    }

    fn range_in<K: AsRef<[u8]> + ?Sized>(&self, family: FamilyId, range: &impl RangeBounds<K>) -> Range {
        let order = &self.shared().order;
        let mut options = ReadOptions::new().snapshot(&self.snapshot());
        // In the bytewise order the next key after a key is the key with a zero appended. In
        // another order only two kinds of bounds are those of a read; the iterator checks the
        // others.
        let next = |key: &[u8]| order.is_bytewise().then(|| [key, &[0]].concat());
        options.from = match range.start_bound() {
            Bound::Included(start) => Some(start.as_ref().to_vec()),
            Bound::Excluded(start) => next(start.as_ref()),
            Bound::Unbounded => None,
        };
        options.to = match range.end_bound() {
            Bound::Included(end) => next(end.as_ref()),
            Bound::Excluded(end) => Some(end.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Range::new(order.clone(), range, || self.cursor_in(family, options.clone()))
    }

    /// Returns the first pair of the range of `options`.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get).
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("bee", "1")?;
    /// assert_eq!(db.first(ReadOptions::new())?, Some((b"bee".to_vec(), b"1".to_vec())));
    /// assert_eq!(db.last(ReadOptions::new().to("b"))?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn first(&self, options: ReadOptions) -> Result<Option<Pair>> {
        self.scan(options).next().transpose()
    }

    /// Returns the last pair of the range of `options`.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get).
    pub fn last(&self, options: ReadOptions) -> Result<Option<Pair>> {
        self.scan_reverse(options).next().transpose()
    }

    /// Returns the number of pairs in the range of `options`. The call reads all of them.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get).
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["a1", "b1", "b2"].iter().try_for_each(|key| db.put(key, ""))?;
    /// assert_eq!(db.count(ReadOptions::new().prefix("b"))?, 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn count(&self, options: ReadOptions) -> Result<u64> {
        self.count_in(FamilyId::DEFAULT, options)
    }

    fn count_in(&self, family: FamilyId, options: ReadOptions) -> Result<u64> {
        let (mut cursor, mut count) = (self.cursor_in(family, options), 0);
        cursor.seek_to_first()?;
        while cursor.valid() {
            count += 1;
            cursor.next()?;
        }
        Ok(count)
    }

    /// Deletes all keys that start with `prefix`, as [`delete_range`](Db::delete_range) does. The
    /// keys must have bytewise order. An empty prefix deletes all pairs.
    ///
    /// # Errors
    /// The errors of [`delete_range`](Db::delete_range); [`Error::Unsupported`] in a store with a
    /// comparator, where keys with the same prefix need not be adjacent.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["a1", "b1", "b2"].iter().try_for_each(|key| db.put(key, ""))?;
    /// db.delete_prefix("b", WriteOptions::default())?;
    /// assert_eq!(db.count(ReadOptions::new())?, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.delete_prefix_in(FamilyId::DEFAULT, prefix.as_ref(), options)
    }

    fn delete_prefix_in(&self, family: FamilyId, prefix: &[u8], options: WriteOptions) -> Result<()> {
        self.writes()?;
        let order = &self.shared().order;
        if !order.is_bytewise() {
            let name = order.name();
            return Err(Error::Unsupported(format!(
                "delete_prefix needs keys in bytewise order, and this store has the comparator {name:?}; use delete_range"
            )));
        }
        let end = match after_prefix(prefix) {
            Some(end) => end,
            // No key follows those with the prefix, so the range ends behind the last one.
            None => {
                let mut cursor = self.cursor_in(family, ReadOptions::new().prefix(prefix));
                cursor.seek_to_last()?;
                if !cursor.valid() {
                    return Ok(());
                }
                [cursor.key(), &[0]].concat()
            }
        };
        self.delete_range_in(family, prefix, &end, options)
    }
}

impl ColumnFamily {
    /// Returns the pairs of a key range of the family, from both ends; see [`Db::range`].
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range {
        self.db.range_in(self.id, &range)
    }

    /// Returns the first pair of the range of `options`; see [`Db::first`].
    ///
    /// # Errors
    /// The errors of [`Db::first`].
    pub fn first(&self, options: ReadOptions) -> Result<Option<Pair>> {
        self.scan(options).next().transpose()
    }

    /// Returns the last pair of the range of `options`; see [`Db::last`].
    ///
    /// # Errors
    /// The errors of [`Db::last`].
    pub fn last(&self, options: ReadOptions) -> Result<Option<Pair>> {
        self.scan_reverse(options).next().transpose()
    }

    /// Returns the number of pairs in the range of `options`; see [`Db::count`].
    ///
    /// # Errors
    /// The errors of [`Db::count`].
    pub fn count(&self, options: ReadOptions) -> Result<u64> {
        self.db.count_in(self.id, options)
    }

    /// Deletes all keys of the family that start with `prefix`; see [`Db::delete_prefix`].
    ///
    /// # Errors
    /// The errors of [`Db::delete_prefix`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.check_exists()?;
        self.db.delete_prefix_in(self.id, prefix.as_ref(), options)
    }
}
