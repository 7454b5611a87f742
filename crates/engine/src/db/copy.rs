//! Copies the pairs of a store into another store. The two stores may have different layouts.
use super::Db;
use crate::{Error, ReadOptions, Result, WriteBatch};

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
    /// The last key that this copy, or an earlier copy into the same store, has written.
    pub last: Option<Vec<u8>>,
    /// The key after which the copy resumed an earlier, interrupted copy.
    pub resumed_after: Option<Vec<u8>>,
}

impl Db {
    /// Writes every pair of the current state into the store `to`, in key order and without a WAL.
    /// The two stores may have different layouts, so a copy is the way to change the layout. `to`
    /// should be a new store. If `to` holds the result of an interrupted copy of the same store,
    /// the call resumes that copy after its last key. `watch` is called with the progress about
    /// once per megabyte.
    ///
    /// Durability: when this call returns, all pairs survive a power cut. Snapshots and sequence
    /// numbers are not copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the two stores have different comparators, or if this store does not
    /// have the last pair of `to`. [`Error::Unsupported`] if this store has column families.
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
        if let Some(family) = self.cf_names().into_iter().nth(1) {
            return Err(Error::Unsupported(format!(
                "{} has column families ({family:?} is one); a copy has only the pairs of the default family, a checkpoint has all",
                self.shared().storage.name()
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
