//! Atomic changes of one pair, as transactions that read and write only its key.
use super::{Isolation, TransactionOptions};
use crate::{ColumnFamily, Db, Result, WriteOptions};

/// Returns the options of a transaction that writes the only key that it reads, for which snapshot
/// isolation is enough.
fn one_key() -> TransactionOptions {
    TransactionOptions { isolation: Isolation::Snapshot, ..TransactionOptions::default() }
}

impl Db {
    /// Writes `new` as the value of `key`, or deletes the key if `new` is `None`, provided that its
    /// value is `expected` (`None`: the key is absent). Returns whether it did. The comparison and
    /// the write are one atomic step.
    ///
    /// # Errors
    /// The errors of [`transact`](Db::transact).
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// assert!(db.compare_and_swap("leader", None, Some(b"a"), WriteOptions::default())?);
    /// assert!(!db.compare_and_swap("leader", None, Some(b"b"), WriteOptions::default())?);
    /// assert!(db.compare_and_swap("leader", Some(b"a"), None, WriteOptions::default())?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.cf("default")?.compare_and_swap(key, expected, new, options)
    }

    /// Replaces the value of `key` by the result of `change` in one atomic step, and returns the
    /// result. `change` gets the present value, `None` if the key is absent; its result `None`
    /// deletes the key. If another write changes the pair at the same time, `change` is called
    /// again, so it must have no other effect.
    ///
    /// # Errors
    /// The errors of [`transact`](Db::transact).
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let count = |old: Option<Vec<u8>>| Some(vec![old.map_or(0, |bytes| bytes[0]) + 1]);
    /// db.update("visits", WriteOptions::default(), count)?;
    /// assert_eq!(db.update("visits", WriteOptions::default(), count)?, Some(vec![2]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.cf("default")?.update(key, options, change)
    }
}

impl ColumnFamily {
    /// Changes the value of `key` to `new` if it is `expected`; see [`Db::compare_and_swap`].
    ///
    /// # Errors
    /// The errors of [`Db::compare_and_swap`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.store().transact(one_key(), options, |transaction| {
            let is_expected = transaction.get_cf(self, key)?.as_deref() == expected;
            match new {
                Some(value) if is_expected => transaction.put_cf(self, key, value)?,
                None if is_expected => transaction.delete_cf(self, key)?,
                _ => {}
            }
            Ok(is_expected)
        })
    }

    /// Replaces the value of `key` by the result of `change`; see [`Db::update`].
    ///
    /// # Errors
    /// The errors of [`Db::update`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut change: impl FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.store().transact(one_key(), options, |transaction| {
            let new = change(transaction.get_cf(self, key)?);
            match &new {
                Some(value) => transaction.put_cf(self, key, value)?,
                None => transaction.delete_cf(self, key)?,
            }
            Ok(new)
        })
    }
}
