//! Write batches: the operations of one atomic write, in the form that the WAL stores.
//!
//! ```text
//! offset  size  field
//!      0     8  sequence number of the first operation, fixed64
//!      8     4  number of operations, fixed32; operation i has sequence number first + i
//!     12     …  operations:  01 slice(key) slice(value)   put
//!                            00 slice(key)                delete
//!                            0f slice(from) slice(to)     range delete; Terrace only
//!                            05 varint32(family) slice(key) slice(value)    put in a column family
//!                            04 varint32(family) slice(key)                 delete
//!                            0e varint32(family) slice(from) slice(to)      range delete
//! ```
//! Operations of the default column family never use the last three forms, which LevelDB does not
//! have. Their tags are RocksDB's.
//!
//! Source: LevelDB's `db/write_batch.cc`; spec: docs/format/batch.md.
use crate::{
    Corrupt, FamilyId, Kind, SeqNo,
    coding::{Input, put_length, put_slice, put_varint32},
};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 12;
/// Tag of a range delete. LevelDB has no range deletes; RocksDB uses the same number.
const DELETE_RANGE: u8 = 0x0f;
/// Tags of the operations on a column family other than the default one, as in RocksDB.
const FAMILY_PUT: u8 = 0x05;
const FAMILY_DELETE: u8 = 0x04;
const FAMILY_DELETE_RANGE: u8 = 0x0e;
/// Maximum size of an encoded key or value length, in bytes.
const LENGTH_BYTES_MAX: usize = 5;

/// A sequence of writes that is applied atomically. A batch is always well-formed: this module
/// either builds it, or decodes and verifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>, // header and operations; the header's count is always right
    has_families: bool,
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets a key to a value.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key.
    Delete(&'a [u8]),
    /// Deletes every key in the range [first, second).
    DeleteRange(&'a [u8], &'a [u8]),
    /// Sets a key of a column family to a value.
    FamilyPut(FamilyId, &'a [u8], &'a [u8]),
    /// Deletes a key of a column family.
    FamilyDelete(FamilyId, &'a [u8]),
    /// Deletes every key of a column family in the range [first, second).
    FamilyDeleteRange(FamilyId, &'a [u8], &'a [u8]),
}

impl<'a> Op<'a> {
    /// Returns the column family of the operation, and the operation without its family.
    pub fn split(self) -> (FamilyId, Op<'a>) {
        match self {
            Op::FamilyPut(family, key, value) => (family, Op::Put(key, value)),
            Op::FamilyDelete(family, key) => (family, Op::Delete(key)),
            Op::FamilyDeleteRange(family, from, to) => (family, Op::DeleteRange(from, to)),
            other => (FamilyId::DEFAULT, other),
        }
    }

    /// Returns the operation, which has no family yet, in `family`.
    pub fn in_family(self, family: FamilyId) -> Op<'a> {
        match self {
            op if family == FamilyId::DEFAULT => op,
            Op::Put(key, value) => Op::FamilyPut(family, key, value),
            Op::Delete(key) => Op::FamilyDelete(family, key),
            Op::DeleteRange(from, to) => Op::FamilyDeleteRange(family, from, to),
            other => other,
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// Returns an empty batch with sequence number 0.
    pub fn new() -> Batch {
        Batch { bytes: vec![0; HEADER_BYTES], has_families: false }
    }

    /// Decodes a batch that was read from storage. Verifies the operations, their count and the
    /// sequence numbers.
    pub fn decode(bytes: Vec<u8>) -> Result<Batch, Corrupt> {
        let mut input = Input::new("batch", &bytes);
        let (sequence, count) = (input.fixed64()?, input.fixed32()?);
        if sequence > SeqNo::MAX.0 - u64::from(count) {
            return Err(Corrupt::new("batch", 0, format!("sequence {sequence} above 56 bits")));
        }
        let (mut found, mut has_families) = (0_u64, false);
        while !input.is_empty() {
            has_families |= read_op(&mut input)?.split().0 != FamilyId::DEFAULT;
            found += 1;
        }
        if found != u64::from(count) {
            return Err(Corrupt::new("batch", 8, format!("{count} operations announced, {found} found")));
        }
        Ok(Batch { bytes, has_families })
    }

    /// Sets `key` to `value`.
    ///
    /// # Panics
    /// If `key` or `value` is longer than `u32::MAX` bytes; see [`Batch::append`] for the number of
    /// operations.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_in_parts(key, &[], value);
    }

    /// Sets `key` to the concatenation of `head` and `tail`.
    ///
    /// # Panics
    /// The panics of [`Batch::put`].
    #[inline]
    pub fn put_in_parts(&mut self, key: &[u8], head: &[u8], tail: &[u8]) {
        self.count_more(1);
        let bytes = head.len() + tail.len();
        // Reserves memory for the whole operation, so that the buffer grows at most once.
        self.bytes.reserve(1 + 2 * LENGTH_BYTES_MAX + key.len() + bytes);
        self.bytes.push(Kind::Put as u8);
        put_slice(&mut self.bytes, key);
        put_length(&mut self.bytes, bytes);
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
    }

    /// Deletes `key`.
    ///
    /// # Panics
    /// The panics of [`Batch::put`].
    pub fn delete(&mut self, key: &[u8]) {
        self.count_more(1);
        self.bytes.push(Kind::Delete as u8);
        put_slice(&mut self.bytes, key);
    }

    /// Deletes every key in [`from`, `to`). Only for stores with the feature flag `range-deletes`.
    ///
    /// # Panics
    /// The panics of [`Batch::put`].
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.count_more(1);
        self.bytes.push(DELETE_RANGE);
        put_slice(&mut self.bytes, from);
        put_slice(&mut self.bytes, to);
    }

    /// Appends one operation.
    ///
    /// # Panics
    /// The panics of [`Batch::put`].
    #[inline]
    pub fn add(&mut self, op: Op<'_>) {
        match op {
            Op::Put(key, value) => self.put(key, value),
            Op::Delete(key) => self.delete(key),
            Op::DeleteRange(from, to) => self.delete_range(from, to),
            other => self.add_family_op(other),
        }
    }

    #[cold]
    fn add_family_op(&mut self, op: Op<'_>) {
        match op {
            Op::FamilyPut(family, key, value) => self.add_in(family, FAMILY_PUT, key, Some(value)),
            Op::FamilyDelete(family, key) => self.add_in(family, FAMILY_DELETE, key, None),
            Op::FamilyDeleteRange(family, from, to) => self.add_in(family, FAMILY_DELETE_RANGE, from, Some(to)),
            Op::Put(..) | Op::Delete(_) | Op::DeleteRange(..) => self.add(op),
        }
    }

    fn add_in(&mut self, family: FamilyId, tag: u8, first: &[u8], second: Option<&[u8]>) {
        self.has_families = true;
        self.count_more(1);
        self.bytes.push(tag);
        put_varint32(&mut self.bytes, family.0);
        put_slice(&mut self.bytes, first);
        second.into_iter().for_each(|second| put_slice(&mut self.bytes, second));
    }

    /// Returns whether the batch has operations on column families other than the default one.
    #[inline]
    pub fn has_families(&self) -> bool {
        self.has_families
    }

    /// Removes all operations and sets the sequence number to 0. Keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        self.has_families = false;
    }

    /// Appends the operations of `other`.
    ///
    /// # Panics
    /// If the batch would have more than `u32::MAX` operations, which would take at least 8 GiB.
    pub fn append(&mut self, other: &Batch) {
        self.count_more(other.len());
        self.has_families |= other.has_families;
        self.bytes.extend_from_slice(&other.bytes[HEADER_BYTES..]);
    }

    fn count_more(&mut self, more: u32) {
        let count = self.len().checked_add(more).expect("a batch holds at most u32::MAX operations");
        self.bytes[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// Returns the number of operations.
    #[inline]
    pub fn len(&self) -> u32 {
        u32::from_le_bytes(self.bytes[8..HEADER_BYTES].try_into().expect("four bytes of the header"))
    }

    /// Returns whether the batch has no operations.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sequence number of the first operation.
    pub fn sequence(&self) -> SeqNo {
        SeqNo(u64::from_le_bytes(self.bytes[..8].try_into().expect("eight bytes of the header")))
    }

    /// Assigns the sequence number of the first operation. It determines the numbers of all other
    /// operations.
    pub fn set_sequence(&mut self, first: SeqNo) {
        self.bytes[..8].copy_from_slice(&first.0.to_le_bytes());
    }

    /// Returns the encoded batch including its header. The encoded batch is the contents of one WAL
    /// record.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the encoded batch, as [`Batch::decode`] reads it.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the allocated capacity, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the length of [`Batch::as_bytes`].
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Iterates over the operations in order.
    #[inline]
    pub fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let mut input = Input::new("batch", &self.bytes[HEADER_BYTES..]);
        std::iter::from_fn(move || {
            (!input.is_empty()).then(|| read_op(&mut input).expect("operations were made here or checked by decode"))
        })
    }
}

#[inline(always)] // the result has seven words, which a call would return through memory
fn read_op<'a>(input: &mut Input<'a>) -> Result<Op<'a>, Corrupt> {
    match input.byte()? {
        1 => Ok(Op::Put(input.slice()?, input.slice()?)),
        0 => Ok(Op::Delete(input.slice()?)),
        DELETE_RANGE => Ok(Op::DeleteRange(input.slice()?, input.slice()?)),
        tag => read_family_op(tag, input),
    }
}

#[cold] // most batches have no such operation
fn read_family_op<'a>(tag: u8, input: &mut Input<'a>) -> Result<Op<'a>, Corrupt> {
    let at = input.offset() - 1;
    if !matches!(tag, FAMILY_PUT | FAMILY_DELETE | FAMILY_DELETE_RANGE) {
        return Err(Corrupt::new("batch", at, format!("unknown operation {tag}")));
    }
    let family = FamilyId(input.varint32()?);
    if family == FamilyId::DEFAULT {
        return Err(Corrupt::new("batch", at, "the default column family is named, which no writer does"));
    }
    let first = input.slice()?;
    Ok(match tag {
        FAMILY_PUT => Op::FamilyPut(family, first, input.slice()?),
        FAMILY_DELETE => Op::FamilyDelete(family, first),
        _ => Op::FamilyDeleteRange(family, first, input.slice()?),
    })
}

/// Returns a durable mark: an empty batch that is not the first record of its WAL.
///
/// The mark states that every write with a sequence number below `next`, in this WAL and in older
/// ones, was synced before the mark was appended. LevelDB reads the mark as an empty batch.
pub fn durable_mark(next: SeqNo) -> [u8; HEADER_BYTES] {
    head(next)
}

/// Returns the head of a WAL: the empty batch with which each of Terrace's WALs begins. `first` is
/// the WAL's first sequence number. Terrace recognizes its own WALs by the head; LevelDB reads the
/// head as an empty batch.
pub fn head(first: SeqNo) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&first.0.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Batch {
        let mut batch = Batch::new();
        batch.put(b"k", b"value");
        batch.delete(b"gone");
        batch.set_sequence(SeqNo(100));
        batch
    }

    #[test]
    fn bytes_are_leveldbs() {
        assert_eq!(sample().as_bytes(), b"\x64\0\0\0\0\0\0\0\x02\0\0\0\x01\x01k\x05value\x00\x04gone");
        assert_eq!(head(SeqNo(7)), *b"\x07\0\0\0\0\0\0\0\0\0\0\0");
        assert!(Batch::decode(head(SeqNo(7)).to_vec()).unwrap().is_empty());
    }

    #[test]
    fn append_and_clear() {
        let mut batch = sample();
        batch.append(&sample());
        let ops: Vec<_> = batch.ops().collect();
        assert_eq!((batch.len(), batch.sequence()), (4, SeqNo(100)));
        assert_eq!(ops[1..3], [Op::Delete(b"gone"), Op::Put(b"k", b"value")]);
        batch.clear();
        assert_eq!(batch, Batch::default());
    }

    #[test]
    fn family_operations_have_rocksdbs_tags() {
        let (ops, family) = ([Op::Put(b"k", b"v"), Op::Delete(b"k"), Op::DeleteRange(b"a", b"b")], FamilyId(300));
        let mut batch = Batch::new();
        ops.iter().for_each(|op| batch.add(op.in_family(family)));
        assert_eq!(&batch.as_bytes()[HEADER_BYTES..], b"\x05\xac\x02\x01k\x01v\x04\xac\x02\x01k\x0e\xac\x02\x01a\x01b");
        let mut all = sample();
        all.append(&batch);
        let decoded = Batch::decode(all.as_bytes().to_vec()).unwrap();
        assert!(decoded == all && all.has_families() && !sample().has_families());
        assert!(decoded.ops().skip(2).map(Op::split).eq(ops.map(|op| (family, op))));
        all.clear();
        assert!(!all.has_families());
    }

    #[test]
    fn damage_is_found() {
        let good = sample().as_bytes().to_vec();
        assert_eq!(Batch::decode(good.clone()), Ok(sample()));
        for end in 0..good.len() {
            assert!(Batch::decode(good[..end].to_vec()).is_err(), "cut at {end}");
        }
        for (at, byte, what) in
            [(8, 3, "2 found"), (8, 1, "2 found"), (12, 2, "unknown operation 2"), (7, 1, "56 bits")]
        {
            let mut bad = good.clone();
            bad[at] = byte;
            let error = Batch::decode(bad).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
