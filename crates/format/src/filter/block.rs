//! LevelDB's filter block: one filter per 2 KiB of data blocks.
use super::FilterPolicy;
use crate::{block::Bytes, coding::put_fixed32};
use std::{fmt, sync::Arc};

/// The base-2 logarithm of the length in bytes of the file range that one filter covers.
const COVERED_LOG2: u8 = 11;

/// Builds the filter block of an SSTable while the SSTable is written. Methods are called in the
/// order `(start_block add_key*)* finish`.
pub struct FilterBlockBuilder {
    policy: Arc<dyn FilterPolicy>,
    keys: Vec<u8>,        // concatenated keys of the next filter
    key_ends: Vec<usize>, // end offset of each key
    filters: Vec<u8>,
    offsets: Vec<u32>, // offset of each filter in `filters`
}

impl fmt::Debug for FilterBlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilterBlockBuilder({}, {} filters)", self.policy.name(), self.offsets.len())
    }
}

impl FilterBlockBuilder {
    /// Starts the filter block of an empty SSTable.
    pub fn new(policy: Arc<dyn FilterPolicy>) -> FilterBlockBuilder {
        FilterBlockBuilder { policy, keys: Vec::new(), key_ends: Vec::new(), filters: Vec::new(), offsets: Vec::new() }
    }

    /// Starts the data block at `offset`, which must not decrease from call to call. LevelDB also
    /// calls this function at the end of the last block.
    pub fn start_block(&mut self, offset: u64) {
        while (self.offsets.len() as u64) < offset >> COVERED_LOG2 {
            self.end_filter();
        }
    }

    /// Adds `user_key`, an entry of the current data block.
    pub fn add_key(&mut self, user_key: &[u8]) {
        self.keys.extend_from_slice(user_key);
        self.key_ends.push(self.keys.len());
    }

    /// Returns the contents of the filter block.
    ///
    /// # Panics
    /// If the filters of one SSTable exceed 4 GiB, which the format cannot express.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.key_ends.is_empty() {
            self.end_filter();
        }
        let offsets_at = self.here();
        for offset in &self.offsets {
            put_fixed32(&mut self.filters, *offset);
        }
        put_fixed32(&mut self.filters, offsets_at);
        self.filters.push(COVERED_LOG2);
        self.filters
    }

    /// Ends the current filter. The filter is empty if no data block in its range has a key.
    fn end_filter(&mut self) {
        self.offsets.push(self.here());
        if self.key_ends.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        let keys: Vec<&[u8]> = starts.zip(&self.key_ends).map(|(start, &end)| &self.keys[start..end]).collect();
        self.policy.create(&keys, &mut self.filters);
        self.keys.clear();
        self.key_ends.clear();
    }

    fn here(&self) -> u32 {
        u32::try_from(self.filters.len()).expect("the filters of one table stay below 4 GiB")
    }
}

/// A filter block that was read from an SSTable. A malformed filter block matches every key, so
/// lookups stay correct: they only search some data blocks without need.
pub struct FilterBlock {
    policy: Arc<dyn FilterPolicy>,
    bytes: Bytes,
    offsets_at: usize, // end of the filters, start of their offsets
    filters: usize,
    covered_log2: u8,
}

impl fmt::Debug for FilterBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilterBlock({}, {} filters, {} bytes)", self.policy.name(), self.filters, self.bytes.len())
    }
}

impl FilterBlock {
    /// Opens the contents of a filter block written with `policy`.
    pub fn new(policy: Arc<dyn FilterPolicy>, bytes: impl Into<Bytes>) -> FilterBlock {
        let bytes = bytes.into();
        let frame = bytes.last_chunk::<5>().and_then(|&[a, b, c, d, covered_log2]| {
            let offsets_at = u32::from_le_bytes([a, b, c, d]) as usize;
            let offsets_bytes = (bytes.len() - 5).checked_sub(offsets_at)?;
            (covered_log2 < 64).then_some((offsets_at, offsets_bytes / 4, covered_log2))
        });
        let (offsets_at, filters, covered_log2) = frame.unwrap_or_default();
        FilterBlock { policy, bytes, offsets_at, filters, covered_log2 }
    }

    /// Returns whether the data block at `block_offset` may contain `user_key`. If it returns
    /// false, the block does not contain the key.
    pub fn may_match(&self, block_offset: u64, user_key: &[u8]) -> bool {
        let index = block_offset >> self.covered_log2;
        if index >= self.filters as u64 {
            return true;
        }
        // The last filter ends at the offset that is stored after the filters' offsets.
        let (filters, offsets) = self.bytes.split_at(self.offsets_at);
        let ends: Option<&[u8; 8]> = offsets[4 * index as usize..].first_chunk();
        let filter = ends.and_then(|&[a, b, c, d, e, f, g, h]| {
            filters.get(u32::from_le_bytes([a, b, c, d]) as usize..u32::from_le_bytes([e, f, g, h]) as usize)
        });
        filter.is_none_or(|filter| self.policy.may_match(user_key, filter))
    }

    /// Returns the size in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy whose filters are lists of their keys, so that tests can inspect them.
    struct Listing;

    impl FilterPolicy for Listing {
        fn name(&self) -> &str {
            "listing"
        }
        fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
            out.extend(keys.join(&b' '));
        }
        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            filter.split(|&byte| byte == b' ').any(|listed| listed == key && !filter.is_empty())
        }
    }

    #[test]
    fn bytes_are_leveldbs() {
        assert_eq!(FilterBlockBuilder::new(Arc::new(Listing)).finish(), b"\0\0\0\0\x0b");
        let mut builder = FilterBlockBuilder::new(Arc::new(Listing));
        builder.start_block(0);
        builder.add_key(b"foo");
        builder.start_block(2000);
        builder.add_key(b"bar");
        builder.start_block(6200); // filters 1 and 2 are empty
        builder.add_key(b"box");
        let bytes = builder.finish();
        assert_eq!(bytes, b"foo barbox\0\0\0\0\x07\0\0\0\x07\0\0\0\x07\0\0\0\x0a\0\0\0\x0b");

        let block = FilterBlock::new(Arc::new(Listing), bytes);
        for (offset, key, want) in [
            (0, "foo", true),
            (2000, "bar", true),
            (0, "box", false),
            (3000, "foo", false),
            (4100, "box", false),
            (6200, "box", true),
            (6200, "foo", false),
            (9000, "anything", true),
        ] {
            assert_eq!(block.may_match(offset, key.as_bytes()), want, "{key} at {offset}");
        }
    }

    #[test]
    fn nonsense_admits_everything() {
        for bytes in [&b""[..], b"\0\0\0\x0b", b"\x01\0\0\0\x0b", b"\0\0\0\0\x40", b"\x09\0\0\0\x04\0\0\0\0\0\0\0\x0b"]
        {
            assert!(FilterBlock::new(Arc::new(Listing), bytes.to_vec()).may_match(0, b"k"), "{bytes:?}");
        }
        assert!(!FilterBlock::new(Arc::new(Listing), b"\0\0\0\0\0\0\0\0\x0b".to_vec()).may_match(0, b"k"));
    }
}
