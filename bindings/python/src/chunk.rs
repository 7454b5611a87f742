//! Pairs that were fetched together, so that the interpreter's lock is released once for many.
use terrace::Error;

/// The number of pairs in the first chunk of a reader. Each further chunk has twice as many pairs
/// as the chunk before it, up to [`PAIRS_MAX`].
pub const PAIRS_FIRST: usize = 4;
/// The largest number of pairs in a chunk.
pub const PAIRS_MAX: usize = 256;
/// The number of bytes after which a chunk is full, so that large values do not fill memory.
const BYTES_MAX: usize = 64 << 10;

/// Pairs that follow each other in the direction of a reader.
#[derive(Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// The ends of each pair's key and value in `bytes`. A pair begins where the one before ends.
    ends: Vec<(usize, usize)>,
    /// The number of pairs that `take` has returned.
    taken: usize,
    /// Whether no pair follows the last one.
    pub is_last: bool,
    /// The error that prevented the read of the next pair.
    pub error: Option<Error>,
}

impl Chunk {
    /// Removes all pairs. Keeps the memory, except that of large values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
        self.ends.clear();
        (self.taken, self.is_last, self.error) = (0, false, None);
    }

    /// Appends a pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Returns whether the chunk has `pairs` pairs, or so many bytes that it should have no more.
    pub fn is_full(&self, pairs: usize) -> bool {
        self.ends.len() >= pairs || self.bytes.len() >= BYTES_MAX
    }

    /// Returns whether all pairs are taken.
    pub fn is_used_up(&self) -> bool {
        self.taken == self.ends.len()
    }

    /// Takes the next pair.
    pub fn take(&mut self) -> Option<(&[u8], &[u8])> {
        (!self.is_used_up()).then(|| {
            self.taken += 1;
            self.pair(self.taken - 1)
        })
    }

    /// Returns the key of the pair that was taken last.
    pub fn last_key(&self) -> Option<&[u8]> {
        Some(self.pair(self.taken.checked_sub(1)?).0)
    }

    fn pair(&self, index: usize) -> (&[u8], &[u8]) {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (key_end, end) = self.ends[index];
        (&self.bytes[begin..key_end], &self.bytes[key_end..end])
    }
}
