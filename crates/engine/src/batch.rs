//! Write batches. A batch records the sizes of its longest key and of its longest value. The write
//! of a batch compares these sizes with the limits of the store.
use crate::{Error, Result};
use terrace_format::{
    FamilyId, SeqNo,
    batch::{self, Op},
    key,
};

/// Length of the sequence number at the beginning of an encoded batch, in bytes.
const SEQUENCE_BYTES: usize = 8;

/// A batch of puts and deletes, which are applied atomically and in order.
///
/// ```
/// # use terrace::{Db, Options, WriteBatch, WriteOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put("a", "1").delete("b").put("c", "3");
/// assert_eq!(batch.len(), 3);
/// db.write(batch, WriteOptions::default())?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteBatch {
    pub(crate) batch: batch::Batch,
    /// The size of the longest key in bytes. The write of the batch compares it with the store's
    /// limit.
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    /// Whether the batch has range tombstones.
    pub(crate) range_tombstones: bool,
    /// The number of the open store whose column families the batch names; see `DbInner::instance`.
    /// `None` for a batch that was read from a WAL: such a batch cannot be written if it names
    /// column families.
    pub(crate) store: Option<u64>,
    /// A description of the first operation in the batch that no store accepts, for example a key
    /// that is too long for the format. A write refuses the whole batch if this field is set.
    pub(crate) problem: Option<String>,
}

impl WriteBatch {
    /// Returns an empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Returns the batch with the encoding `bytes`: the same encoding that a batch has in the WAL
    /// (`docs/format/batch.md`). The first 12 bytes are a header with a sequence number, which is
    /// ignored, and the number of operations. The operations follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `bytes` do not encode a batch, or if the batch names a column family:
    /// the number of a column family has no meaning outside of its store.
    ///
    /// ```
    /// # use terrace::{Op, WriteBatch};
    /// let batch = WriteBatch::from_bytes(*b"\0\0\0\0\0\0\0\0\x01\0\0\0\x01\x03key\x05value")?;
    /// assert!(batch.ops().eq([Op::Put(b"key", b"value")]));
    /// assert!(WriteBatch::from_bytes(*b"garbage").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<WriteBatch> {
        let batch = decode(bytes.into())?;
        if batch.ops().any(|op| op.split().0 != FamilyId::DEFAULT) {
            return Err(Error::Invalid("an encoded batch cannot name column families".into()));
        }
        Ok(WriteBatch::of(batch))
    }

    /// Appends a put of `value` under `key`. The sizes are checked only when the batch is written.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.fits(key.len() as u64, value.len() as u64) {
            self.batch.put(key, value);
        }
        self
    }

    /// Appends a delete of `key`. The key need not exist.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        let key = key.as_ref();
        if self.fits(key.len() as u64, 0) {
            self.batch.delete(key);
        }
        self
    }

    /// Appends the operations of `other`.
    ///
    /// ```
    /// # use terrace::{Op, WriteBatch};
    /// let (mut all, mut more) = (WriteBatch::new(), WriteBatch::new());
    /// all.put("a", "1");
    /// all.append(more.delete("b"));
    /// assert!(all.ops().eq([Op::Put(b"a", b"1"), Op::Delete(b"b")]));
    /// ```
    pub fn append(&mut self, other: &WriteBatch) -> &mut WriteBatch {
        self.key_bytes = self.key_bytes.max(other.key_bytes);
        self.value_bytes = self.value_bytes.max(other.value_bytes);
        self.range_tombstones |= other.range_tombstones;
        let full = || (other.batch.len() > u32::MAX - self.batch.len()).then(too_many);
        // A batch that was read from a WAL names column families of no open store (`store` is
        // `None`).
        let in_families = other.batch.has_families();
        let two_stores = || (in_families && self.batch.has_families() && self.store != other.store).then(two_stores);
        match other.problem.clone().or_else(full).or_else(two_stores) {
            None => self.batch.append(&other.batch),
            Some(problem) => drop(self.problem.get_or_insert(problem)),
        }
        if in_families {
            self.store = other.store;
        }
        self
    }

    /// Appends `op` in the column family `family` of the open store `store`.
    pub(crate) fn add_in(&mut self, (family, store): (FamilyId, u64), op: Op<'_>) -> &mut WriteBatch {
        if self.batch.has_families() && self.store != Some(store) {
            self.problem.get_or_insert_with(two_stores);
            return self;
        }
        self.store = Some(store);
        let (key_bytes, value_bytes) = sizes(&op);
        if self.fits(key_bytes, value_bytes) {
            self.range_tombstones |= matches!(op, Op::DeleteRange(..));
            self.batch.add(op.in_family(family));
        }
        self
    }

    /// Returns the operations in order.
    pub fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        self.batch.ops()
    }

    /// Appends a range tombstone for the keys from `from` (included) to `to` (excluded). The range
    /// is empty unless `from` is before `to` in the store's order. The store needs the feature
    /// `range-deletes`. Without this feature, [`Db::write`](crate::Db::write) refuses the batch,
    /// unless the range is empty. See [`Db::delete_range`](crate::Db::delete_range).
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// let mut options = Options::default();
    /// options.range_tombstones = true;
    /// let db = Db::open_in_memory(options)?;
    /// db.put("draft/1", "old")?;
    /// let mut batch = WriteBatch::new();
    /// batch.delete_range("draft/", "draft0").put("draft/2", "new"); // in this order
    /// db.write(batch, WriteOptions::default())?;
    /// assert_eq!((db.get("draft/1")?, db.get("draft/2")?), (None, Some(b"new".to_vec())));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> &mut WriteBatch {
        let (from, to) = (from.as_ref(), to.as_ref());
        if self.fits(from.len().max(to.len()) as u64, 0) {
            self.batch.delete_range(from, to);
            self.range_tombstones = true;
        }
        self
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        *self = WriteBatch::default();
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.batch.len() as usize
    }

    /// Returns whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns the size in bytes that the batch has as a WAL record.
    pub fn byte_len(&self) -> usize {
        self.batch.byte_len()
    }

    /// Makes a write batch from a decoded batch and ignores the sequence number of the decoded
    /// batch. The keys may be longer than a store accepts; the later write of the batch checks
    /// their lengths.
    pub(crate) fn of(mut batch: batch::Batch) -> WriteBatch {
        batch.set_sequence(SeqNo::ZERO);
        let longest = |(key, value): (u64, u64), op: Op<'_>| {
            let (more_key, more_value) = sizes(&op.split().1);
            (key.max(more_key), value.max(more_value))
        };
        let (key_bytes, value_bytes) = batch.ops().fold((0, 0), longest);
        let range_tombstones = batch.ops().any(|op| matches!(op.split().1, Op::DeleteRange(..)));
        WriteBatch { batch, key_bytes, value_bytes, range_tombstones, store: None, problem: None }
    }

    fn fits(&mut self, key_bytes: u64, value_bytes: u64) -> bool {
        self.key_bytes = self.key_bytes.max(key_bytes);
        self.value_bytes = self.value_bytes.max(value_bytes);
        let full = || (self.batch.len() == u32::MAX).then(too_many);
        match oversized(key_bytes, value_bytes).or_else(full) {
            None => true,
            Some(problem) => {
                self.problem.get_or_insert(problem);
                false
            }
        }
    }
}

/// Returns the lengths in bytes of the key and of the value of `op`. For a range tombstone, the
/// key length is the length of the longer of its two keys.
fn sizes(op: &Op<'_>) -> (u64, u64) {
    match *op {
        Op::Put(key, value) | Op::FamilyPut(_, key, value) => (key.len() as u64, value.len() as u64),
        Op::Delete(key) | Op::FamilyDelete(_, key) => (key.len() as u64, 0),
        Op::DeleteRange(from, to) | Op::FamilyDeleteRange(_, from, to) => (from.len().max(to.len()) as u64, 0),
    }
}

/// Decodes a batch, without its sequence number.
pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<batch::Batch> {
    bytes.iter_mut().take(SEQUENCE_BYTES).for_each(|byte| *byte = 0);
    let invalid = |corrupt| Error::Invalid(format!("the bytes are not an encoded batch: {corrupt}"));
    batch::Batch::decode(bytes).map_err(invalid)
}

fn two_stores() -> String {
    "the batch has operations on column families of two open stores".into()
}

fn too_many() -> String {
    format!("a batch has at most {} operations", u32::MAX)
}

/// Returns a description of the problem if the file format cannot store an operation with a key
/// and a value of these sizes, in bytes. Returns `None` if the format can store it.
pub(crate) fn oversized(key_bytes: u64, value_bytes: u64) -> Option<String> {
    const KEY_BYTES_MAX: u64 = u32::MAX as u64 - key::TRAILER_BYTES as u64;
    if key_bytes > KEY_BYTES_MAX {
        Some(format!("a key of {key_bytes} bytes is too long: the format allows {KEY_BYTES_MAX}"))
    } else if value_bytes > u64::from(u32::MAX) {
        Some(format!("a value of {value_bytes} bytes is too long: the format allows {}", u32::MAX))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_takes_over_sizes_and_the_first_problem() {
        let (mut whole, mut part) = (WriteBatch::new(), WriteBatch::new());
        whole.put("k", "v");
        part.put("longer", "value").delete("k");
        whole.append(&part);
        assert!(whole.ops().eq([Op::Put(b"k", b"v"), Op::Put(b"longer", b"value"), Op::Delete(b"k")]));
        assert_eq!((whole.key_bytes, whole.value_bytes), (6, 5));
        part.problem = Some("why".into());
        whole.append(&part);
        assert_eq!((whole.problem.as_deref(), whole.len()), (Some("why"), 3));
    }
}
