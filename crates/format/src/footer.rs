//! Block handles, block trailers and the footer of an SSTable.
//!
//! ```text
//! handle = varint64 offset ++ varint64 bytes (without the trailer)
//! sealed = contents ++ codec id (1 byte) ++ masked CRC-32C of contents and codec id (fixed32)
//! footer, the last 48 bytes of an SSTable:
//! offset  size  field
//!      0    40  handle of the metaindex, handle of the index, zero padding
//!     40     8  magic db4775248b80fb57, fixed64
//! ```
//! Source: LevelDB's `table/format.h`; spec: docs/format/table.md.
use crate::{
    Codec, Corrupt,
    coding::{Input, put_fixed32, put_fixed64, put_varint64},
    crc,
};

/// Size of a block trailer in bytes.
pub const BLOCK_TRAILER_BYTES: usize = 5;
/// Size of the footer in bytes.
pub const FOOTER_BYTES: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const MAGIC_OFFSET: usize = FOOTER_BYTES - 8;

/// Location of a block in its SSTable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Offset of the block's first byte in the SSTable.
    pub offset: u64,
    /// Stored size in bytes, without the trailer.
    pub bytes: u64,
}

impl Handle {
    /// Appends 2 to 20 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.bytes);
    }

    /// Reads a handle from `input`.
    pub fn read(input: &mut Input<'_>) -> Result<Handle, Corrupt> {
        Ok(Handle { offset: input.varint64()?, bytes: input.varint64()? })
    }

    /// Decodes the value of an index entry. Ignores bytes after the handle, as LevelDB does.
    pub fn decode(bytes: &[u8]) -> Result<Handle, Corrupt> {
        Handle::read(&mut Input::new("block handle", bytes))
    }

    /// Returns the end offset of the trailer, or `None` on overflow.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }
}

/// The footer of an SSTable. It locates the metaindex block and the index block, which locate all
/// other blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Block that maps names to meta blocks.
    pub metaindex: Handle,
    /// Block that maps separator keys to data blocks.
    pub index: Handle,
}

impl Footer {
    /// Encodes the last bytes of an SSTable.
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        self.metaindex.encode(&mut out);
        self.index.encode(&mut out);
        out.resize(MAGIC_OFFSET, 0);
        put_fixed64(&mut out, MAGIC);
        out.try_into().expect("two handles take at most 40 bytes")
    }

    /// Decodes the last [`FOOTER_BYTES`] bytes of an SSTable.
    pub fn decode(bytes: &[u8]) -> Result<Footer, Corrupt> {
        let mut input = Input::new("table footer", bytes);
        let mut handles = Input::new("table footer", input.take(MAGIC_OFFSET)?);
        let magic = input.fixed64()?;
        if magic != MAGIC {
            return Err(Corrupt::new(
                "table footer",
                MAGIC_OFFSET as u64,
                format!("magic number {magic:016x}: not an SSTable"),
            ));
        }
        if !input.is_empty() {
            return Err(input.corrupt("surplus bytes after the footer"));
        }
        Ok(Footer { metaindex: Handle::read(&mut handles)?, index: Handle::read(&mut handles)? })
    }
}

/// Appends the trailer of the block `out[from..]`, which is stored with `codec`.
pub fn seal_block(out: &mut Vec<u8>, from: usize, codec: Codec) {
    out.push(codec as u8);
    let crc = crc::crc32c(&out[from..]);
    put_fixed32(out, crc::mask(crc));
}

/// Splits a stored block into codec id and contents. Verifies the checksum if `verify` is set.
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
    fn footers_round_trip() {
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
    fn a_footer_without_magic_or_handles_is_rejected() {
        let mut bytes = Footer::default().encode();
        bytes[47] ^= 1;
        assert!(Footer::decode(&bytes).unwrap_err().to_string().contains("not an SSTable"));
        bytes[47] ^= 1;
        bytes[..40].fill(0xff);
        assert!(Footer::decode(&bytes).is_err());
    }

    #[test]
    fn any_change_to_a_sealed_block_is_detected() {
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
