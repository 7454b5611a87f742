//! Copies the pairs of a store into another store, whatever their layouts.
use super::Db;
use crate::{Error, ReadOptions, Result, WriteBatch};

/// Approximate size, in bytes, of a batch of copied pairs.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes between two durability barriers: an interrupted copy repeats at most that much.
const BARRIER_BYTES: u64 = 256 << 20;

/// Progress of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Pairs written.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The last key written or found.
    pub last: Option<Vec<u8>>,
    /// The key after which the copy resumed, if an earlier copy had come so far.
    pub resumed_after: Option<Vec<u8>>,
}

impl Db {
    /// Writes every pair, as of now, into `to`, in key order and without a WAL, so that a store can
    /// change its layout. `to` should be new; or it holds the result of an interrupted copy of the
    /// same store, which is resumed after its last key. `watch` gets the progress, about once a
    /// megabyte.
    ///
    /// Durability: all pairs survive a power cut when this returns. Snapshots and sequence numbers
    /// are not copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the two stores have different comparators, or if the last key of `to`
    /// is not a pair of this store.
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
        let options = || ReadOptions::new().verify_checksums(true).fill_cache(false);
        let mut found = to.cursor(options());
        found.seek_to_last()?;
        let mut cursor = self.cursor(options());
        let mut copied = Copied::default();
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
        let (mut batch, mut barrier) = (WriteBatch::new(), BARRIER_BYTES);
        while cursor.valid() {
            batch.put(cursor.key(), cursor.value());
            copied.pairs += 1;
            copied.bytes += (cursor.key().len() + cursor.value().len()) as u64;
            if batch.byte_len() >= BATCH_BYTES {
                copied.last = Some(cursor.key().to_vec());
                to.write_unlogged(std::mem::take(&mut batch))?;
                watch(&copied);
            }
            if copied.bytes >= barrier {
                to.wait_durable(to.last_sequence())?;
                barrier = copied.bytes + BARRIER_BYTES;
            }
            cursor.next()?;
        }
        let last = to.write_unlogged(batch)?;
        to.wait_durable(last)?;
        watch(&copied);
        Ok(copied)
    }
}
