//! Whole keys, one behind the other, each made of a part of another one and of new bytes.
use crate::{KeyOrder, key::TRAILER_BYTES};
use std::ops::Range;

/// Bytes copied at a time. Keys are short, and a copy whose length is known beforehand is a move or two; what it writes
/// too much is written over by the next key.
const CHUNK: usize = 32;

/// The keys. `bytes` is longer than what is used, by at least a chunk once a key was added.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    end: usize,
}

impl Keys {
    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.end
    }

    /// Bytes of memory taken.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The bytes of one key, or of a part.
    #[inline]
    pub fn get(&self, key: Range<usize>) -> &[u8] {
        &self.bytes[key]
    }

    /// The byte of an internal key that tells its kind.
    #[inline]
    pub fn kind_byte(&self, key: &Range<usize>) -> u8 {
        self.bytes[key.end - TRAILER_BYTES]
    }

    /// Whether the user keys of two internal keys, whose first `shared` bytes are alike, differ as bytes. Keys too short to
    /// be internal ones have none.
    #[inline]
    pub fn users_differ(&self, a: Range<usize>, b: Range<usize>, shared: usize) -> bool {
        let user_bytes = a.len().saturating_sub(TRAILER_BYTES);
        let (a, b) = (&self.bytes[a], &self.bytes[b]);
        a.len() != b.len()
            || shared < user_bytes && (a[shared] != b[shared] || a[shared..user_bytes] != b[shared..user_bytes])
    }

    /// Whether internal key `b` follows `a`, whose first `shared` bytes it begins with. Mostly the byte behind those tells.
    #[inline]
    pub fn follows(&self, order: &KeyOrder, a: Range<usize>, b: Range<usize>, shared: usize) -> bool {
        let (a, b) = (&self.bytes[a], &self.bytes[b]);
        let users = a.len().min(b.len()) - TRAILER_BYTES;
        if shared < users && order.is_bytewise() && a[shared] != b[shared] {
            return a[shared] < b[shared];
        }
        order.internal(a, b).is_lt()
    }

    /// Forgets the keys from `at` on; their bytes can still begin the key that is added next.
    #[inline]
    pub fn cut(&mut self, at: usize) {
        self.end = at;
    }

    /// Forgets all keys. Keeps the memory.
    pub fn clear(&mut self) {
        self.end = 0;
    }

    /// Forgets all but `key`, and says where it is now.
    pub fn keep(&mut self, key: Range<usize>) -> Range<usize> {
        self.end = key.len();
        self.bytes.copy_within(key, 0);
        0..self.end
    }

    /// Forgets all keys but the one that these two parts make.
    pub fn replace(&mut self, front: &[u8], rest: &[u8]) -> Range<usize> {
        self.bytes.clear();
        self.bytes.reserve_exact(front.len() + rest.len()); // many a seek reads no more than what it finds
        self.bytes.extend_from_slice(front);
        self.bytes.extend_from_slice(rest);
        self.end = self.bytes.len();
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

    /// Adds the key that begins with the `shared` bytes at `from`, which are among the keys, and goes on with `rest`, with
    /// which `from_rest` begins.
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
