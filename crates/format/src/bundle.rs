//! Bundles: files with several SSTables. Each SSTable in a bundle (a member) is complete and in
//! LevelDB's format; its offsets are relative to its own start.
//!
//! ```text
//! bundle    = (SSTable, zeros up to a multiple of 4096)*  directory  footer
//! directory = (varint64 number, varint64 offset, varint64 bytes)*      by increasing offset
//! footer    = fixed64 directory offset, fixed32 masked crc32c of the directory, fixed64 magic
//! ```
//! Members start at multiples of the file system's block size. When a member is obsolete, its
//! space can therefore be deallocated (by punching a hole in the file) without touching its
//! neighbours. The manifest records the members that are in use. The directory is for a repair
//! without a manifest. It lists all members with which the bundle was created, including obsolete
//! members, whose space may read as zeros. Spec: docs/format/bundle.md.
use crate::{
    Corrupt, TableId,
    coding::{Input, put_varint64},
    crc,
};

/// Alignment of members and of the directory, in bytes.
pub const ALIGNMENT: u64 = 4096;
/// Size of the footer in bytes.
pub const FOOTER_BYTES: usize = 20;
/// Last eight bytes of every bundle: the first eight bytes of the SHA-1 of `terrace.bundle`,
/// little-endian.
pub const MAGIC: u64 = 0x8db1_ae43_a9d1_d803;

/// Location of an SSTable within a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// The bundle. Its number is that of its first member.
    pub bundle: TableId,
    /// Offset of the SSTable within the bundle, in bytes.
    pub offset: u64,
}

/// An entry of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The SSTable.
    pub id: TableId,
    /// Offset of the SSTable in the bundle, in bytes.
    pub offset: u64,
    /// Size of the SSTable in bytes.
    pub bytes: u64,
}

impl Member {
    /// Returns the aligned offset after this table of the bundle. The next table or the bundle's
    /// directory starts there. `None` on overflow.
    pub fn end(self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_next_multiple_of(ALIGNMENT)
    }
}

/// Encodes the directory, which starts at `offset`, and the footer.
pub fn encode(members: &[Member], offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for member in members {
        put_varint64(&mut out, member.id.0);
        put_varint64(&mut out, member.offset);
        put_varint64(&mut out, member.bytes);
    }
    let crc = crc::mask(crc::crc32c(&out));
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out
}

/// Returns the offset of the directory in a bundle of `bundle_bytes` bytes. `footer` has the last
/// [`FOOTER_BYTES`] bytes of the file.
pub fn directory_offset(footer: &[u8; FOOTER_BYTES], bundle_bytes: u64) -> Result<u64, Corrupt> {
    let at = bundle_bytes.saturating_sub(FOOTER_BYTES as u64);
    let (offset, magic) = (fixed64(&footer[..8]), fixed64(&footer[12..]));
    if magic != MAGIC {
        return Err(Corrupt::new("bundle", at, "no bundle ends here"));
    }
    if offset > at {
        return Err(Corrupt::new("bundle", at, format!("its directory would begin at byte {offset}")));
    }
    Ok(offset)
}

/// Decodes the members of a bundle. `end` has the bytes from the directory, at offset `offset`, to
/// the end of the file.
pub fn decode(end: &[u8], offset: u64) -> Result<Vec<Member>, Corrupt> {
    let Some((directory, footer)) = end.split_last_chunk::<FOOTER_BYTES>() else {
        return Err(Corrupt::new("bundle", offset, "it ends within its directory"));
    };
    if crc::mask(crc::crc32c(directory)).to_le_bytes() != footer[8..12] {
        return Err(Corrupt::new("bundle", offset, "the checksum of its directory is wrong"));
    }
    let mut input = Input::new("bundle", directory);
    let (mut members, mut begins) = (Vec::new(), 0);
    while !input.is_empty() {
        let start = input.clone();
        let member = Member { id: TableId(input.varint64()?), offset: input.varint64()?, bytes: input.varint64()? };
        match member.end().filter(|end| member.offset == begins && *end <= offset && member.bytes > 0) {
            Some(end) => begins = end,
            None => return Err(start.corrupt(format!("table {} does not follow the one before it", member.id))),
        }
        members.push(member);
    }
    Ok(members)
}

fn fixed64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<Member> {
        let member = |id, offset, bytes| Member { id: TableId(id), offset, bytes };
        vec![member(7, 0, 5000), member(8, 8192, 4096), member(11, 12288, 1)]
    }

    fn read(end: &[u8], offset: u64) -> Result<Vec<Member>, Corrupt> {
        let footer = end[end.len() - FOOTER_BYTES..].try_into().unwrap();
        assert_eq!(directory_offset(footer, offset + end.len() as u64)?, offset);
        decode(end, offset)
    }

    #[test]
    fn round_trips() {
        assert_eq!(read(&encode(&members(), 16384), 16384), Ok(members()));
        assert_eq!(read(&encode(&[], 0), 0), Ok(vec![]));
    }

    /// Tests that the encoder returns the example of docs/format/bundle.md.
    #[test]
    fn bytes_are_as_specified() {
        let members = [(7, 0, 5000), (8, 8192, 1)].map(|(id, offset, bytes)| Member { id: TableId(id), offset, bytes });
        let want = b"\x07\x00\x88\x27\x08\x80\x40\x01\x00\x30\x00\x00\x00\x00\x00\x00\x55\x7e\x70\x88\x03\xd8\xd1\xa9\x43\xae\xb1\x8d";
        assert_eq!(encode(&members, 12288), want);
    }

    #[test]
    fn invalid_input_is_rejected() {
        let good = encode(&members(), 16384);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let footer = bad[bad.len() - FOOTER_BYTES..].try_into().unwrap();
            let answer = directory_offset(footer, 16384 + bad.len() as u64).and_then(|offset| match offset {
                16384 => decode(&bad, offset),
                _ => Err(Corrupt::new("bundle", 0, "elsewhere")),
            });
            assert!(answer.is_err(), "byte {at}");
        }
        for (id, offset, bytes) in [(9, 4096, 10), (9, 0, 0), (9, 0, 20_000), (9, u64::MAX, 1), (9, 0, u64::MAX)] {
            let error = decode(&encode(&[Member { id: TableId(id), offset, bytes }], 16384), 16384).unwrap_err();
            assert!(error.to_string().contains("table 000009"), "{error}");
        }
        assert!(decode(&[0; FOOTER_BYTES - 1], 0).is_err());
    }
}
