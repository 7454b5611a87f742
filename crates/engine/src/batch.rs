//! A batch as users build it: sizes are watched while it grows, and checked when it is written.
use terrace_format::{batch, key};

/// Puts and deletes that are applied together or not at all, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteBatch {
    pub(crate) batch: batch::Batch,
    /// The longest key and value so far, for the check against the placement's limits.
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    /// What does not even fit the format; the batch is refused as a whole.
    pub(crate) oversized: Option<String>,
}

impl WriteBatch {
    /// Nothing yet.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets `key` to `value`. Sizes are checked when the batch is written.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.fits(key.len() as u64, value.len() as u64) {
            self.batch.put(key, value);
        }
        self
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        let key = key.as_ref();
        if self.fits(key.len() as u64, 0) {
            self.batch.delete(key);
        }
        self
    }

    /// Forgets all operations.
    pub fn clear(&mut self) {
        *self = WriteBatch::default();
    }

    /// Operations.
    pub fn len(&self) -> usize {
        self.batch.len() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes of the batch as the log stores it.
    pub fn byte_len(&self) -> usize {
        self.batch.byte_len()
    }

    fn fits(&mut self, key_bytes: u64, value_bytes: u64) -> bool {
        self.key_bytes = self.key_bytes.max(key_bytes);
        self.value_bytes = self.value_bytes.max(value_bytes);
        let full = || (self.batch.len() == u32::MAX).then(|| format!("more than {} operations in one batch", u32::MAX));
        match oversized(key_bytes, value_bytes).or_else(full) {
            None => true,
            Some(problem) => {
                self.oversized.get_or_insert(problem);
                false
            }
        }
    }
}

/// Why an operation of these sizes does not fit the format, if it does not.
pub(crate) fn oversized(key_bytes: u64, value_bytes: u64) -> Option<String> {
    const KEY_BYTES_MAX: u64 = u32::MAX as u64 - key::TRAILER_BYTES as u64;
    if key_bytes > KEY_BYTES_MAX {
        Some(format!("a key of {key_bytes} bytes: LevelDB's format ends at {KEY_BYTES_MAX}"))
    } else if value_bytes > u64::from(u32::MAX) {
        Some(format!("a value of {value_bytes} bytes: LevelDB's format ends at {}", u32::MAX))
    } else {
        None
    }
}
