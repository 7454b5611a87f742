//! Where the blocks of a table are, and how each is sealed.
//!
//! ```text
//! handle = varint64 offset ++ varint64 bytes (without the trailer)
//! sealed = contents ++ codec id (1 byte) ++ masked CRC-32C of contents and codec id (fixed32)
//! footer, the last 48 bytes of a table:
//! offset  size  field
//!      0    40  handle of the metaindex, handle of the index, zeros up to here
//!     40     8  magic db4775248b80fb57, fixed64
//! ```
//! Source: LevelDB's `table/format.h`; spec: docs/format/table.md.
use crate::{
    Codec, Corrupt,
    coding::{Input, put_fixed32, put_fixed64, put_varint64},
    crc,
};

/// Bytes behind the contents of every block.
pub const BLOCK_TRAILER_BYTES: usize = 5;
/// Bytes of a footer.
pub const FOOTER_BYTES: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const MAGIC_OFFSET: usize = FOOTER_BYTES - 8;

/// Where a block is in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Of its first byte.
    pub offset: u64,
    /// As stored, without the trailer.
    pub bytes: u64,
}

impl Handle {
    /// Appends 2 to 20 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.bytes);
    }

    /// Reads one from the front of `input`.
    pub fn read(input: &mut Input<'_>) -> Result<Handle, Corrupt> {
        Ok(Handle { offset: input.varint64()?, bytes: input.varint64()? })
    }

    /// From an index entry's value. What follows the handle is left alone, as LevelDB leaves it.
    pub fn decode(bytes: &[u8]) -> Result<Handle, Corrupt> {
        Handle::read(&mut Input::new("block handle", bytes))
    }

    /// Where the trailer ends, if that can be said in 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }
}

/// The end of a table, from which everything else is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Block of meta blocks by name.
    pub metaindex: Handle,
    /// Block of data blocks by separating key.
    pub index: Handle,
}

impl Footer {
    /// The last bytes of a table.
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        self.metaindex.encode(&mut out);
        self.index.encode(&mut out);
        out.resize(MAGIC_OFFSET, 0);
        put_fixed64(&mut out, MAGIC);
        out.try_into().expect("two handles take at most 40 bytes")
    }

    /// From the last [`FOOTER_BYTES`] bytes of a table.
    pub fn decode(bytes: &[u8]) -> Result<Footer, Corrupt> {
        let mut input = Input::new("table footer", bytes);
        let mut handles = Input::new("table footer", input.take(MAGIC_OFFSET)?);
        let magic = input.fixed64()?;
        if magic != MAGIC {
            return Err(Corrupt::new("table footer", MAGIC_OFFSET as u64, format!("magic is {magic:016x}: no table")));
        }
        if !input.is_empty() {
            return Err(input.corrupt("longer than a footer"));
        }
        Ok(Footer { metaindex: Handle::read(&mut handles)?, index: Handle::read(&mut handles)? })
    }
}

/// Seals the block `out[from..]`, which was stored with `codec`: appends its trailer.
pub fn seal_block(out: &mut Vec<u8>, from: usize, codec: Codec) {
    out.push(codec as u8);
    let crc = crc::crc32c(&out[from..]);
    put_fixed32(out, crc::mask(crc));
}

/// Takes a stored block apart: codec id and contents. With `verify`, its checksum must be right.
pub fn open_block(bytes_with_trailer: &[u8], verify: bool) -> Result<(u8, &[u8]), Corrupt> {
    let Some(contents_bytes) = bytes_with_trailer.len().checked_sub(BLOCK_TRAILER_BYTES) else {
        return Err(Corrupt::new("block", 0, "shorter than its trailer"));
    };
    let (summed, stored) = bytes_with_trailer.split_at(contents_bytes + 1);
    let stored = u32::from_le_bytes(stored.try_into().expect("a trailer is one byte and a checksum"));
    if verify && crc::mask(crc::crc32c(summed)) != stored {
        return Err(Corrupt::new("block", contents_bytes as u64, "checksum mismatch"));
    }
    Ok((summed[contents_bytes], &summed[..contents_bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_go_there_and_back() {
        let footer = Footer { metaindex: Handle { offset: 300, bytes: 8 }, index: Handle { offset: 313, bytes: 70 } };
        let bytes = footer.encode();
        assert_eq!(bytes[..5], [0xac, 0x02, 0x08, 0xb9, 0x02]);
        assert_eq!(bytes[40..], [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        assert!(Footer::decode(&bytes[1..]).is_err());
        assert!(Footer::decode(&[&bytes[..], &[0]].concat()).is_err());
        let far = Handle { offset: u64::MAX, bytes: u64::MAX };
        let bytes = Footer { metaindex: far, index: far }.encode();
        assert_eq!(Footer::decode(&bytes).map(|footer| footer.index), Ok(far));
        assert_eq!(far.end(), None);
    }

    #[test]
    fn a_footer_without_magic_or_handles_is_none() {
        let mut bytes = Footer::default().encode();
        bytes[47] ^= 1;
        assert!(Footer::decode(&bytes).unwrap_err().to_string().contains("no table"));
        bytes[47] ^= 1;
        bytes[..40].fill(0xff);
        assert!(Footer::decode(&bytes).is_err());
    }

    #[test]
    fn a_sealed_block_shows_any_change() {
        let mut out = b"before".to_vec();
        out.extend_from_slice(b"contents");
        seal_block(&mut out, 6, Codec::Snappy);
        let sealed = out[6..].to_vec();
        assert_eq!(open_block(&sealed, true), Ok((1, &b"contents"[..])));
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 4;
            assert!(open_block(&bad, true).is_err(), "byte {at}");
            assert!(open_block(&bad, false).is_ok());
        }
        assert!(open_block(&sealed[..4], false).is_err());
    }
}
