//! Reads and deletes of key ranges in a transaction.
use super::{
    Isolation, Transaction,
    scan::{TransactionScan, Watch},
};
use crate::{
    ColumnFamily, ReadOptions, Result, Scan,
    read::{changes::WatchedRange, scan::ReadRange},
};
use terrace_format::{FamilyId, batch::Op};

impl Transaction {
    /// Returns the pairs of a range of the default column family in key order. A snapshot in
    /// `options` has no effect. A serializable transaction watches the range up to the last pair
    /// that the iterator has returned, or all of it if the iterator has ended.
    pub fn scan(&self, options: ReadOptions) -> TransactionScan<'_> {
        self.scan_in(FamilyId::DEFAULT, options, false)
    }

    /// Works like [`scan`](Transaction::scan), in reverse key order.
    pub fn scan_reverse(&self, options: ReadOptions) -> TransactionScan<'_> {
        self.scan_in(FamilyId::DEFAULT, options, true)
    }

    /// Works like [`scan`](Transaction::scan), in a column family.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a family of another store.
    pub fn scan_cf(&self, family: &ColumnFamily, options: ReadOptions) -> Result<TransactionScan<'_>> {
        Ok(self.scan_in(self.own(family)?, options, false))
    }

    /// Works like [`scan_reverse`](Transaction::scan_reverse), in a column family.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a family of another store.
    pub fn scan_reverse_cf(&self, family: &ColumnFamily, options: ReadOptions) -> Result<TransactionScan<'_>> {
        Ok(self.scan_in(self.own(family)?, options, true))
    }

    /// Returns the pairs of a range of `family` (`None`: the default one), as an iterator that does
    /// not borrow the transaction. This is for bindings of languages without lifetimes. `reverse`
    /// selects the reverse key order. `at` moves the start of the scan into the range: to the first
    /// key at or after `at`, or in reverse order to the last key before it.
    ///
    /// The caller must drop the iterator before the [`commit`](Transaction::commit), which
    /// otherwise fails if the transaction is serializable.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a family of another store.
    ///
    /// ```
    /// # use terrace::{Db, Error, Options, ReadOptions, TransactionOptions, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let transaction = db.begin(TransactionOptions::default());
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| transaction.put(key, ""))?;
    /// let mut scan = transaction.scan_detached(None, ReadOptions::new(), true, Some(b"cat"))?;
    /// assert_eq!(scan.next().transpose()?, Some((b"bee".to_vec(), vec![])));
    /// drop(scan);
    /// transaction.commit(WriteOptions::default())?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn scan_detached(
        &self,
        family: Option<&ColumnFamily>,
        mut options: ReadOptions,
        reverse: bool,
        at: Option<&[u8]>,
    ) -> Result<TransactionScan<'static>> {
        let family = family.map_or(Ok(FamilyId::DEFAULT), |family| self.own(family))?;
        let order = &self.db.shared().order;
        let bound = if reverse { &mut options.to } else { &mut options.from };
        if let Some(at) = at {
            let within =
                |bound: &Vec<u8>| if reverse { order.user(at, bound).is_lt() } else { order.user(at, bound).is_gt() };
            if bound.as_ref().is_none_or(within) {
                *bound = Some(at.to_vec());
            }
        }
        Ok(self.scan_in(family, options, reverse))
    }

    fn scan_in(&self, family: FamilyId, options: ReadOptions, reverse: bool) -> TransactionScan<'static> {
        let order = self.db.shared().order.clone();
        let range = ReadRange::new(order.clone(), options.clone());
        let (snapshot, delta) = {
            let mut state = self.state.lock();
            (self.snapshot(&mut state), state.delta.family(family).cloned())
        };
        let pairs = snapshot.map(|snapshot| Scan::new(self.db.cursor_in(family, options.snapshot(&snapshot)), reverse));
        let watch = (self.options.isolation == Isolation::Serializable).then(|| {
            let state = self.state.clone();
            Box::new(move |range| state.lock().watched.add_range(family, range)) as Watch<'static>
        });
        TransactionScan::new((order, range, reverse), pairs, delta, watch)
    }

    /// Deletes every key of the default column family from `from` (inclusive) to `to` (exclusive).
    /// A store without range tombstones deletes the keys one by one. The commit fails if another
    /// write changes a key of the range. No key is locked.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_in(FamilyId::DEFAULT, from.as_ref(), to.as_ref())
    }

    /// Works like [`delete_range`](Transaction::delete_range), in a column family.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get); [`Error::Invalid`](crate::Error::Invalid) for a
    /// family of another store.
    pub fn delete_range_cf(&self, family: &ColumnFamily, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_in(self.own(family)?, from.as_ref(), to.as_ref())
    }

    fn delete_range_in(&self, family: FamilyId, from: &[u8], to: &[u8]) -> Result<()> {
        if self.db.is_empty_range(from, to) {
            return Ok(());
        }
        self.snapshot(&mut self.state.lock())?;
        let range = WatchedRange { from: Some(from.to_vec()), to: Some(to.to_vec()), includes_to: false };
        self.state.lock().watched.add_range(family, range);
        if self.db.shared().has_range_tombstones {
            return self.write(family, Op::DeleteRange(from, to));
        }
        let pairs = self.scan_in(family, ReadOptions::new().from(from).to(to), false);
        let keys = pairs.map(|pair| Ok(pair?.0)).collect::<Result<Vec<_>>>()?;
        keys.iter().try_for_each(|key| self.write(family, Op::Delete(key)))
    }
}
