//! Integers and byte strings, as all other formats encode them.
//!
//! ```text
//! fixed32, fixed64    4 or 8 bytes, little-endian
//! varint32, varint64  seven bits per byte, low bits first, top bit set on all but the last byte;
//!                     at most 5 or 10 bytes
//! slice               varint32 length ++ bytes
//! ```
//! Source: LevelDB's `util/coding.h`; spec: docs/format/coding.md.
use crate::Corrupt;

/// Appends `value` in 1 to 5 bytes.
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

/// Appends `value` in 1 to 10 bytes.
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` in 4 bytes.
pub fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in 8 bytes.
pub fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the length of `bytes`, then `bytes`.
///
/// # Panics
/// If `bytes` is longer than `u32::MAX`. The engine checks the sizes of keys and values before it
/// calls this function.
#[inline]
pub fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the length that precedes the bytes of a slice.
///
/// # Panics
/// If `bytes` is larger than `u32::MAX`.
#[inline]
pub fn put_length(out: &mut Vec<u8>, bytes: usize) {
    match bytes {
        short @ 0..0x80 => out.push(short as u8), // the common case
        long => put_varint32(out, u32::try_from(long).expect("callers limit keys and values to u32::MAX bytes")),
    }
}

/// Reads untrusted bytes from front to back. Errors name the structure that is being decoded and
/// the offset of the invalid field.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize, // <= bytes.len()
}

impl<'a> Input<'a> {
    /// Returns a reader at the first byte of `bytes`. `what` names the structure that `bytes`
    /// should contain.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Input<'a> {
        Input { what, bytes, at: 0 }
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Returns whether all bytes are read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Returns the remaining bytes without consuming them.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns an error that names the structure and the current offset.
    pub fn corrupt(&self, detail: impl Into<String>) -> Corrupt {
        Corrupt::new(self.what, self.offset(), detail)
    }

    /// Reads one byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.take(1)?[0])
    }

    /// Reads a fixed32 (four bytes).
    pub fn fixed32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("took four bytes")))
    }

    /// Reads a fixed64 (eight bytes).
    pub fn fixed64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("took eight bytes")))
    }

    /// Reads a varint32 of up to five bytes. Accepts padded encodings (`80 00` for 0) and rejects
    /// values above `u32::MAX`.
    #[inline]
    pub fn varint32(&mut self) -> Result<u32, Corrupt> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1; // most lengths are short
                Ok(byte.into())
            }
            _ => self.long_varint32(),
        }
    }

    fn long_varint32(&mut self) -> Result<u32, Corrupt> {
        let start = self.clone();
        u32::try_from(self.varint(5)?).map_err(|_| start.corrupt("varint32 above 32 bits"))
    }

    /// Reads a varint64 of up to ten bytes. Accepts padded encodings and rejects values above
    /// `u64::MAX`.
    pub fn varint64(&mut self) -> Result<u64, Corrupt> {
        self.varint(10)
    }

    fn varint(&mut self, bytes_max: usize) -> Result<u64, Corrupt> {
        let mut value = 0;
        for (i, &byte) in self.rest().iter().take(bytes_max).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if i == 9 && bits > 1 {
                return Err(self.corrupt("varint64 above 64 bits"));
            }
            value |= bits << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        let left = self.rest().len();
        Err(self.corrupt(if left < bytes_max { "varint runs past the end" } else { "varint without an end" }))
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Corrupt> {
        let Some(taken) = self.rest().get(..n) else { return Err(self.too_short(n)) };
        self.at += n;
        Ok(taken)
    }

    #[cold]
    fn too_short(&self, n: usize) -> Corrupt {
        self.corrupt(format!("{n} bytes needed, {} left", self.rest().len()))
    }

    /// Reads a slice: a length as varint32, and that many bytes.
    #[inline]
    pub fn slice(&mut self) -> Result<&'a [u8], Corrupt> {
        let bytes = self.varint32()?;
        self.take(bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leveldbs() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            (u64::from(u32::MAX), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Input::new("t", bytes).varint64(), Ok(value));
        }
    }

    #[test]
    fn overlong_and_overflowing_varints_are_rejected() {
        assert!(Input::new("t", &[0x80]).varint32().is_err());
        assert!(Input::new("t", &[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32().is_err());
        assert!(Input::new("t", &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).varint32().is_err());
        assert_eq!(Input::new("t", &[0x80, 0x00]).varint32(), Ok(0));
        let mut ten = [0xff; 10];
        ten[9] = 0x02;
        assert!(Input::new("t", &ten).varint64().is_err());
    }

    #[test]
    fn a_truncated_slice_is_rejected() {
        let mut out = Vec::new();
        put_slice(&mut out, b"abc");
        put_fixed32(&mut out, 0x0403_0201);
        assert_eq!(out, b"\x03abc\x01\x02\x03\x04");
        let mut input = Input::new("t", &out);
        assert_eq!(input.slice(), Ok(&b"abc"[..]));
        assert_eq!(input.fixed32(), Ok(0x0403_0201));
        assert!(input.is_empty());
        let error = Input::new("thing", b"\x04abc").slice().unwrap_err();
        assert_eq!(error.to_string(), "corrupt thing at byte 1: 4 bytes needed, 3 left");
    }
}
