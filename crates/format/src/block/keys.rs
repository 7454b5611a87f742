//! A buffer of whole keys. Each key is made of a prefix of an earlier key and of new bytes.
use crate::{KeyOrder, key::TRAILER_BYTES};
use std::ops::Range;

/// The number of bytes that the copy of a short key moves, even if the key has fewer: a copy of
/// constant length compiles to one or two move instructions. The next key overwrites the surplus
/// bytes. Longer keys are copied with their own length.
const CHUNK: usize = 32;

/// The key buffer. Once it contains a key, `bytes` has at least [`CHUNK`] spare bytes after `end`.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    end: usize,
}

impl Keys {
    /// Returns the number of bytes in use.
    pub fn len(&self) -> usize {
        self.end
    }

    /// Returns the allocated capacity in bytes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the bytes of a key, or of a part of one.
    #[inline]
    pub fn get(&self, key: Range<usize>) -> &[u8] {
        &self.bytes[key]
    }

    /// Returns the kind byte of an internal key.
    #[inline]
    pub fn kind_byte(&self, key: &Range<usize>) -> u8 {
        self.bytes[key.end - TRAILER_BYTES]
    }

    /// Returns whether the user keys of two internal keys differ bytewise. Their first `shared`
    /// bytes are known to be equal. A key shorter than a trailer has an empty user key.
    #[inline]
    pub fn users_differ(&self, a: Range<usize>, b: Range<usize>, shared: usize) -> bool {
        let user_bytes = a.len().saturating_sub(TRAILER_BYTES);
        let (a, b) = (&self.bytes[a], &self.bytes[b]);
        a.len() != b.len()
            || shared < user_bytes && (a[shared] != b[shared] || a[shared..user_bytes] != b[shared..user_bytes])
    }

    /// Returns whether internal key `b` sorts after `a`. Their first `shared` bytes are known to be
    /// equal; the byte after them decides most comparisons.
    #[inline]
    pub fn follows(&self, order: &KeyOrder, a: Range<usize>, b: Range<usize>, shared: usize) -> bool {
        let (a, b) = (&self.bytes[a], &self.bytes[b]);
        let users = a.len().min(b.len()) - TRAILER_BYTES;
        if shared < users && order.is_bytewise() && a[shared] != b[shared] {
            return a[shared] < b[shared];
        }
        order.internal(a, b).is_lt()
    }

    /// Discards the keys from offset `at` on. The next key may still copy its prefix from the
    /// discarded bytes.
    #[inline]
    pub fn cut(&mut self, at: usize) {
        self.end = at;
    }

    /// Discards all keys. Keeps the allocation.
    pub fn clear(&mut self) {
        self.end = 0;
    }

    /// Discards all keys except `key`, and returns its new range.
    pub fn keep(&mut self, key: Range<usize>) -> Range<usize> {
        self.end = key.len();
        self.bytes.copy_within(key, 0);
        0..self.end
    }

    /// Replaces all keys with the concatenation of `front` and `rest`. Stores `behind` after this
    /// key, until the next key is added.
    pub fn replace(&mut self, front: &[u8], rest: &[u8], behind: &[u8]) -> Range<usize> {
        self.bytes.clear();
        // Many seeks read only the entry that they find, so the buffer reserves no memory for
        // further keys.
        self.bytes.reserve_exact(front.len() + rest.len() + behind.len());
        self.bytes.extend_from_slice(front);
        self.bytes.extend_from_slice(rest);
        self.end = self.bytes.len();
        self.bytes.extend_from_slice(behind);
        0..self.end
    }

    #[inline(always)]
    fn make_room(&mut self, end: usize) {
        if self.bytes.len() < end + 2 * CHUNK {
            self.grow(end);
        }
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((2 * end).next_power_of_two().max(16 * CHUNK), 0);
    }

    /// Appends a key that consists of the `shared` bytes at offset `from` of the buffer, followed
    /// by `rest`. `from_rest` starts with `rest` and may be longer.
    #[inline(always)]
    pub fn add(&mut self, from: usize, shared: usize, rest: &[u8], from_rest: &[u8]) -> Range<usize> {
        let (start, middle) = (self.end, self.end + shared);
        let end = middle + rest.len();
        self.make_room(end);
        match self.bytes[from..].first_chunk::<CHUNK>() {
            Some(&chunk) if shared <= CHUNK => self.bytes[start..start + CHUNK].copy_from_slice(&chunk),
            _ => self.bytes.copy_within(from..from + shared, start),
        }
        match from_rest.first_chunk::<CHUNK>() {
            Some(chunk) if rest.len() <= CHUNK => self.bytes[middle..middle + CHUNK].copy_from_slice(chunk),
            _ => self.bytes[middle..end].copy_from_slice(rest),
        }
        self.end = end;
        start..end
    }
}
