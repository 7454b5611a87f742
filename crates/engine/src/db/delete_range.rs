//! Range deletes. A store with the feature `range-deletes` writes one range tombstone for a range
//! delete; any other store writes a point tombstone for each key of the range.
//!
//! Invariant: a range delete of an empty range is a no-op, alone or within a batch. A range is
//! empty if its end is not greater than its start in the store's order. Only an open store knows
//! this order, so the store checks the ranges of a batch when it writes the batch.
use super::{Db, write::check_options};
use crate::{Error, ReadOptions, Result, WriteBatch, WriteOptions, write::WriteRequest};
use terrace_format::{
    FamilyId,
    batch::{Batch, Op},
};

impl Db {
    /// Deletes every key from `from` (inclusive) to `to` (exclusive). The call costs about as much
    /// as one put. From then on reads skip the range, and later compactions remove its entries.
    ///
    /// The low cost requires the feature `range-deletes` (option `range_tombstones` at the creation
    /// of the store). A store without this feature, which LevelDB can read, looks up the keys of
    /// the range and deletes them one by one. It writes one atomic batch if the tombstones, each
    /// about 13 bytes plus the key, fit into `write_buffer_size` (4 MiB by default: 140,000 keys of
    /// 16 bytes). **A larger range is split into several such batches and is not atomic**: readers
    /// may see that only the first part of the range is deleted, and after an error or a crash only
    /// the first part may be deleted.
    ///
    /// In all stores, a key that another thread puts into the range during the call may be deleted
    /// or not.
    ///
    /// # Errors
    /// The errors of [`put`](Db::put). A store that deletes the keys one by one also returns the
    /// errors of [`get`](Db::get).
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # use terrace::{Db, Options, ReadOptions, WriteOptions};
    /// let mut options = Options::default();
    /// options.range_tombstones = true;
    /// let db = Db::open_in_memory(options)?;
    /// ["a", "b1", "b2", "c"].iter().try_for_each(|key| db.put(key, ""))?;
    /// db.delete_range("b", "c", WriteOptions::default())?;
    /// assert_eq!(db.scan(ReadOptions::new()).count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.delete_range_in(FamilyId::DEFAULT, from.as_ref(), to.as_ref(), options)
    }

    pub(super) fn delete_range_in(
        &self,
        family: FamilyId,
        from: &[u8],
        to: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        if self.is_empty_range(from, to) {
            return self.writes().map(drop);
        }
        if self.shared().has_range_tombstones {
            let request = WriteRequest::Single(Op::DeleteRange(from, to).in_family(family));
            return self.write_checked(request, (from.len().max(to.len()) as u64, 0), options).map(drop);
        }
        self.delete_keys(family, from, to, options)
    }

    /// Deletes the keys of a range with point tombstones.
    fn delete_keys(&self, family: FamilyId, from: &[u8], to: &[u8], options: WriteOptions) -> Result<()> {
        self.writes()?;
        check_options(options)?;
        let bytes_max = usize::try_from(self.shared().options.write_buffer_size).unwrap_or(usize::MAX);
        let mut cursor = self.cursor_in(family, ReadOptions::new().from(from).to(to).fill_cache(false));
        cursor.seek_to_first()?;
        let (mut batch, mut longest) = (Batch::new(), 0);
        while cursor.valid() {
            longest = cursor.key().len().max(longest);
            batch.add(Op::Delete(cursor.key()).in_family(family));
            cursor.next()?;
            if batch.byte_len() >= bytes_max || !cursor.valid() {
                // Only the last batch of the range delete is synced: its sync makes the earlier
                // batches durable too.
                let sync = options.sync && !cursor.valid();
                let request = WriteRequest::Batch(std::mem::take(&mut batch));
                self.write_checked(request, (longest as u64, 0), WriteOptions { sync, ..options })?;
            }
        }
        Ok(())
    }

    /// Returns `batch` without its range deletes of empty ranges. Returns an error if the file
    /// format or this store does not support one of the operations. The caller checks the sizes of
    /// keys and values later.
    pub(crate) fn checked_batch(&self, mut batch: WriteBatch) -> Result<WriteBatch> {
        if let Some(problem) = batch.problem {
            return Err(Error::Invalid(problem));
        }
        if batch.batch.has_families() && batch.store != Some(self.shared().instance) {
            let text = "the batch names column families of another store, or of this store before it was reopened";
            return Err(Error::Invalid(text.into()));
        }
        if !batch.range_tombstones {
            return Ok(batch);
        }
        let empty = |op: &Op<'_>| matches!(op.split().1, Op::DeleteRange(from, to) if self.is_empty_range(from, to));
        if batch.ops().any(|op| empty(&op)) {
            let mut rest = Batch::new();
            batch.ops().filter(|op| !empty(op)).for_each(|op| rest.add(op));
            batch.batch = rest;
        }
        let shared = self.shared();
        if !shared.has_range_tombstones && batch.ops().any(|op| matches!(op.split().1, Op::DeleteRange(..))) {
            return Err(Error::Unsupported(format!(
                "{} was created without range_tombstones=on, so a batch cannot contain a range delete; Db::delete_range can delete the keys one by one",
                shared.storage.name()
            )));
        }
        Ok(batch)
    }

    pub(crate) fn is_empty_range(&self, from: &[u8], to: &[u8]) -> bool {
        self.shared().order.user(from, to).is_ge()
    }
}
