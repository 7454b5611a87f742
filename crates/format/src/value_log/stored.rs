//! The stored form of a value, in SSTables and memtables of stores with a value log.
//!
//! ```text
//! 00 value                                              inline
//! 01 varint64 segment, varint64 offset, varint64 bytes  value pointer to an entry of a WAL segment
//! 02 varint64 segment, varint64 offset, varint64 bytes  value pointer to a relocated value
//! ```
//! Tombstones store nothing. Spec: docs/format/value-log.md.
use super::HEADER_BYTES;
use crate::{
    Corrupt,
    coding::{Input, put_varint64},
};

/// Prefix of an inline value.
pub const INLINE: &[u8] = &[IN_TABLE];

const IN_TABLE: u8 = 0;
const IN_LOG: u8 = 1;
const MOVED: u8 = 2;

/// A value pointer: the location in the value log of an entry with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValuePointer {
    /// Whether the segment contains relocated values. If false, the segment was a WAL.
    pub moved: bool,
    /// Number of the segment.
    pub segment: u64,
    /// Offset of the entry in the segment, in bytes.
    pub offset: u64,
    /// Length of the entry in bytes.
    pub bytes: u64,
}

/// A decoded stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue<'a> {
    /// An inline value.
    Inline(&'a [u8]),
    /// A value in the value log.
    At(ValuePointer),
}

/// Appends the stored form of an inline value.
pub fn put_inline(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(INLINE);
    out.extend_from_slice(value);
}

impl ValuePointer {
    /// Maximum encoded size in bytes.
    pub const BYTES_MAX: usize = 31;

    /// Returns the number of bytes of the segment that this pointer keeps live. In a segment of
    /// relocated values each entry has its own frame, so the number includes the header of the
    /// frame. In a segment that was a WAL, frame headers and inline values are garbage, so only the
    /// entry counts.
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.saturating_add(if self.moved { HEADER_BYTES as u64 } else { 0 })
    }

    /// Appends the stored form of a pointer.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.moved { MOVED } else { IN_LOG });
        for number in [self.segment, self.offset, self.bytes] {
            put_varint64(out, number);
        }
    }
}

impl<'a> StoredValue<'a> {
    /// Parses the stored form of a put.
    #[inline]
    pub fn parse(stored: &'a [u8]) -> Result<StoredValue<'a>, Corrupt> {
        match stored.split_first() {
            Some((&IN_TABLE, value)) => Ok(StoredValue::Inline(value)),
            Some((&kind @ (IN_LOG | MOVED), rest)) => pointer(kind == MOVED, rest).map(StoredValue::At),
            Some((other, _)) => Err(Corrupt::new("stored value", 0, format!("unknown form {other}"))),
            None => Err(Corrupt::new("stored value", 0, "nothing, not even its form")),
        }
    }
}

fn pointer(moved: bool, bytes: &[u8]) -> Result<ValuePointer, Corrupt> {
    let mut input = Input::new("pointer", bytes);
    let pointer =
        ValuePointer { moved, segment: input.varint64()?, offset: input.varint64()?, bytes: input.varint64()? };
    if !input.is_empty() {
        return Err(input.corrupt(format!("{} surplus bytes", input.rest().len())));
    }
    if pointer.offset.checked_add(pointer.bytes).is_none() {
        return Err(Corrupt::new("pointer", 0, "it ends beyond any file"));
    }
    Ok(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_round_trip() {
        let mut inline = Vec::new();
        put_inline(&mut inline, b"value");
        assert_eq!((&inline[..], StoredValue::parse(&inline)), (&b"\0value"[..], Ok(StoredValue::Inline(b"value"))));
        for (moved, first) in [(false, 1), (true, 2)] {
            for number in [0, 300, u64::MAX] {
                let (mut out, pointer) =
                    (Vec::new(), ValuePointer { moved, segment: number, offset: number, bytes: 0 });
                pointer.put(&mut out);
                assert!(out.len() <= ValuePointer::BYTES_MAX && out[0] == first);
                assert_eq!(StoredValue::parse(&out), Ok(StoredValue::At(pointer)));
                assert!((1..out.len()).all(|end| StoredValue::parse(&out[..end]).is_err()), "cut short");
                assert!(StoredValue::parse(&[&out[..], &[0]].concat()).is_err(), "too long");
            }
        }
        let mut beyond = vec![IN_LOG, 1];
        put_varint64(&mut beyond, u64::MAX);
        for bad in [&b""[..], b"\x03\x01\x01\x01", &[&beyond[..], &[1]].concat()] {
            assert!(StoredValue::parse(bad).is_err(), "{bad:?}");
        }
    }
}
