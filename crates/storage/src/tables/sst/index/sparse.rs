//! A sparse index: the last key of every partition of an index block. A partition is read from the
//! file when a lookup needs it.
//!
//! The checksum of the index block was verified when the table was opened. It does not cover a
//! partition alone, so the sparse index has a checksum for each partition.
use super::{super::ByteSource, Partition};
use crate::{Error, Result};
use terrace_format::{
    Corrupt, KeyOrder,
    block::{self, Block, Bytes},
    crc,
    fences::Fences,
    footer::Handle,
};

/// Number of entries of a partition. A partition has about a kilobyte, so one or two pages.
pub(super) const PARTITION_ENTRIES: usize = 32;

/// A sparse index, see the module documentation.
pub(in crate::tables::sst) struct Sparse {
    /// The offset of the index block in the file, and the number of its entries.
    offset: u64,
    entries: usize,
    /// The last key of each partition.
    last_keys: Fences,
    partitions: Vec<Stored>,
}

/// A partition in the file.
struct Stored {
    /// The end of its entries in the index block.
    end: u32,
    /// The CRC-32C of its entries.
    checksum: u32,
}

impl Sparse {
    /// Returns the sparse form of `all`, the decoded entries of the index block with these
    /// `contents`. Returns `None` if a part of the block cannot be decoded alone.
    pub fn of(order: &KeyOrder, handle: Handle, contents: &[u8], all: &Partition) -> Option<Sparse> {
        let block = Block::of_borrowed_keys(contents).ok()?;
        // Otherwise some keys share a prefix with the previous key.
        let are_whole = block.restarts() == all.end() && block.check_restarts().is_ok();
        if !are_whole {
            return None;
        }
        let (mut keys, mut ends, mut partitions, mut end) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for first in (0..all.end()).step_by(PARTITION_ENTRIES) {
            let next = (first + PARTITION_ENTRIES).min(all.end());
            let entries = block.entries_between(first..next);
            end += entries.len() as u32;
            keys.extend_from_slice(all.key(next - 1));
            ends.push(keys.len());
            partitions.push(Stored { end, checksum: crc::crc32c(entries) });
        }
        keys.shrink_to_fit();
        let last_keys = Fences::new(order, keys, ends);
        Some(Sparse { offset: handle.offset, entries: all.end(), last_keys, partitions })
    }

    /// Returns the number of entries of the index.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns the position and the handle of the first entry at or after `key`; `None` if there is
    /// no such entry.
    pub fn find(&self, source: &dyn ByteSource, order: &KeyOrder, key: &[u8]) -> Result<Option<(usize, Handle)>> {
        let number = self.last_keys.first_at_or_after(order, key);
        if number == self.partitions.len() {
            return Ok(None);
        }
        let search = |entries: &[u8]| {
            for (at, entry) in block::whole_entries(entries).enumerate() {
                let (listed, handle) = entry?;
                if order.internal(listed, key).is_ge() {
                    return Ok(Some((number * PARTITION_ENTRIES + at, Handle::decode(handle)?)));
                }
            }
            Ok(None)
        };
        self.look(source, number, search)
    }

    /// Reads the partition with the first entry at or after `key`; the last partition if there is
    /// no such entry.
    pub fn partition_for(&self, source: &dyn ByteSource, order: &KeyOrder, key: &[u8]) -> Result<Partition> {
        self.partition(source, order, self.last_keys.first_at_or_after(order, key))
    }

    /// Reads the partition with the entry at position `at`; the last partition if there is no such
    /// entry.
    pub fn partition_at(&self, source: &dyn ByteSource, order: &KeyOrder, at: usize) -> Result<Partition> {
        self.partition(source, order, at / PARTITION_ENTRIES)
    }

    fn partition(&self, source: &dyn ByteSource, order: &KeyOrder, number: usize) -> Result<Partition> {
        let number = number.min(self.partitions.len() - 1);
        let before = number.checked_sub(1).map_or_else(Vec::new, |previous| self.last_keys.key(previous).to_vec());
        let first = number * PARTITION_ENTRIES;
        self.look(source, number, |entries| Partition::decode(order, block::whole_entries(entries), first, before))
    }

    /// Calls `work` with the entries of partition `number`, whose checksum is verified.
    fn look<T>(
        &self,
        source: &dyn ByteSource,
        number: usize,
        work: impl FnOnce(&[u8]) -> std::result::Result<T, Corrupt>,
    ) -> Result<T> {
        let begin = number.checked_sub(1).map_or(0, |previous| self.partitions[previous].end);
        let Stored { end, checksum } = self.partitions[number];
        let range = self.offset + u64::from(begin)..self.offset + u64::from(end);
        // A comparator of the user must not see bytes that may change, so they are copied first.
        let mapped = source.mapping().and_then(|mapping| mapping.look(range.clone(), <[u8]>::to_vec));
        let entries = mapped.map_or_else(|| source.read(range.clone()), |entries| Ok(Bytes::from(entries)))?;
        let found = match crc::crc32c(&entries) == checksum {
            true => work(&entries),
            false => Err(Corrupt::new("index", 0, "its bytes have changed since the table was opened")),
        };
        found.map_err(|found| Error::corrupt(source.name(), range.start, found))
    }

    /// Returns the size in memory, in bytes.
    pub fn byte_len(&self) -> usize {
        self.last_keys.byte_len() + size_of::<Stored>() * self.partitions.capacity()
    }
}
