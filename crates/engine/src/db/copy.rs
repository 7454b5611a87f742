//! Copies the pairs of a store into another store. The two stores may have different layouts.
use super::Db;
use crate::{ColumnFamily, Error, ReadOptions, Result, WriteBatch, WriteOptions};

/// Approximate size of one batch of copied pairs, in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of copied pairs after which the copy makes all of them durable. After an interruption, a
/// resumed copy writes at most this many bytes again.
const BARRIER_BYTES: u64 = 256 << 20;

/// Progress of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of pairs written.
    pub pairs: u64,
    /// Bytes of the keys and values of the written pairs.
    pub bytes: u64,
    /// The last key that is in the target store, of the column family that is being copied. It was
    /// written by this copy, or by an interrupted copy that this one continues.
    pub last: Option<Vec<u8>>,
    /// The key after which the copy resumed an earlier, interrupted copy.
    pub resumed_after: Option<Vec<u8>>,
}

impl Db {
    /// Writes every pair of the current state into `to`, in key order and without a WAL, one column
    /// family after the other. With a copy a store can change its layout. `to` should be a new
    /// store. If it contains the result of an interrupted copy of the same store, the call resumes
    /// that copy after its last key. `watch` is called with the progress about once per megabyte.
    ///
    /// Durability: when this call returns, all pairs survive a power cut. Snapshots and sequence
    /// numbers are not copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the two stores have different comparators, or if this store does not
    /// have a column family of `to` or its last pair. [`Error::Unsupported`] if `to` cannot have
    /// the column families of this store.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # use terrace::{Db, Options};
    /// let from = Db::open_in_memory(Options::default())?;
    /// from.put("k", "v")?;
    /// let to = Db::open_in_memory(Options::preset("default")?)?;
    /// assert_eq!(from.copy_into(&to, |_| ())?.pairs, 1);
    /// assert_eq!(from.copy_into(&to, |_| ())?.pairs, 0); // nothing is left to do
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_into(&self, to: &Db, mut watch: impl FnMut(&Copied)) -> Result<Copied> {
        let (ours, theirs) = (self.shared().order.name(), to.shared().order.name());
        if ours != theirs {
            return Err(Error::Invalid(format!(
                "the stores have different comparators: {ours:?} here, {theirs:?} in the store to copy into"
            )));
        }
        let names = self.cf_names();
        if let Some(other) = to.cf_names().into_iter().find(|name| !names.contains(name)) {
            return Err(Error::Invalid(format!(
                "the store to copy into has column family {other:?}, which this store does not have"
            )));
        }
        let mut copied = Copied::default();
        for name in &names {
            let target = match to.cf(name) {
                Err(Error::Missing { .. }) => to.create_cf(name)?,
                found => found?,
            };
            copy_family(&self.cf(name)?, &target, to, (&mut copied, &mut watch))?;
        }
        Ok(copied)
    }
}

/// Copies the pairs of one column family into the family `target` of `to`.
fn copy_family(
    family: &ColumnFamily,
    target: &ColumnFamily,
    to: &Db,
    (copied, watch): (&mut Copied, &mut impl FnMut(&Copied)),
) -> Result<()> {
    let options = || ReadOptions::new().verify_checksums(true).fill_cache(false);
    let mut found = target.cursor(options());
    found.seek_to_last()?;
    let mut cursor = family.cursor(options());
    if found.valid() {
        cursor.seek(found.key())?;
        if !cursor.valid() || (cursor.key(), cursor.value()) != (found.key(), found.value()) {
            let key = found.key().escape_ascii();
            return Err(Error::Invalid(format!(
                "the store to copy into holds key '{key}', which this store does not have with the same value"
            )));
        }
        copied.resumed_after = Some(found.key().to_vec());
        copied.last = copied.resumed_after.clone();
        cursor.next()?;
    } else {
        cursor.seek_to_first()?;
    }
    drop(found);
    let (mut batch, mut barrier) = (WriteBatch::new(), copied.bytes + BARRIER_BYTES);
    while cursor.valid() {
        batch.put_cf(target, cursor.key(), cursor.value());
        copied.pairs += 1;
        copied.bytes += (cursor.key().len() + cursor.value().len()) as u64;
        if batch.byte_len() >= BATCH_BYTES {
            copied.last = Some(cursor.key().to_vec());
            to.write(std::mem::take(&mut batch), WriteOptions::without_wal())?;
            watch(copied);
        }
        if copied.bytes >= barrier {
            to.wait_durable(to.last_sequence())?;
            barrier = copied.bytes + BARRIER_BYTES;
        }
        cursor.next()?;
    }
    let last = to.write(batch, WriteOptions::without_wal())?;
    to.wait_durable(last)?;
    watch(copied);
    Ok(())
}
