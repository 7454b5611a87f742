//! What tables and memtables hold in the place of a value, where values lie in a log.
//!
//! ```text
//! 00 value                                              the value itself
//! 01 varint64 segment, varint64 offset, varint64 bytes  an entry of a segment that was a log
//! 02 likewise                                           an entry of a segment into which values were moved
//! ```
//! Deletes have nothing. Spec: docs/format/value-log.md.
use super::HEADER_BYTES;
use crate::{
    Corrupt,
    coding::{Input, put_varint64},
};

/// What stands in front of a value that lies in the table itself.
pub const INLINE: &[u8] = &[IN_TABLE];

const IN_TABLE: u8 = 0;
const IN_LOG: u8 = 1;
const MOVED: u8 = 2;

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValuePointer {
    /// Whether the segment holds values that were moved there; else it was a log.
    pub moved: bool,
    /// The segment's number.
    pub segment: u64,
    /// Where in it the entry begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A stored value taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue<'a> {
    /// The value.
    Inline(&'a [u8]),
    /// It is in an entry of a segment.
    At(ValuePointer),
}

/// Appends what is stored for a value that lies in the table itself.
pub fn put_inline(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(INLINE);
    out.extend_from_slice(value);
}

impl ValuePointer {
    /// Longest form in bytes.
    pub const BYTES_MAX: usize = 31;

    /// Bytes of the segment that this keeps alive: where values were moved to, each entry has a frame of its own, whose header
    /// goes with it; in a log the headers are garbage, as are small values.
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.saturating_add(if self.moved { HEADER_BYTES as u64 } else { 0 })
    }

    /// Appends what is stored for a value that lies there.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.moved { MOVED } else { IN_LOG });
        for number in [self.segment, self.offset, self.bytes] {
            put_varint64(out, number);
        }
    }
}

impl<'a> StoredValue<'a> {
    /// Takes what is stored for a put apart.
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
        return Err(input.corrupt(format!("{} bytes too many", input.rest().len())));
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
    fn forms_go_there_and_back() {
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
