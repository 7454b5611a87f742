//! Framing of WAL and manifest records in blocks of 32 KiB.
//!
//! ```text
//! file     = block*              blocks of 32,768 bytes; the last one may be shorter
//! block    = fragment* padding   padding: fewer than 7 zeros, where no header fits
//! fragment:
//! offset  size  field
//!      0     4  masked CRC-32C of bytes 6.. (type and payload), fixed32
//!      4     2  payload length, little-endian
//!      6     1  type: 1 FULL (a whole record), 2 FIRST, 3 MIDDLE, 4 LAST
//!      7     n  payload
//! ```
//! Terrace splits the first record of each file: its first fragment has type FIRST and a payload
//! of 5 bytes. LevelDB's writer never writes such a fragment, because it splits a record only at
//! the end of a block. Every LevelDB reader accepts the fragment. [`is_ours`] recognizes the files
//! of Terrace by this fragment. Source: LevelDB's `db/log_format.h`, `log_writer.cc`,
//! `log_reader.cc`; spec: docs/format/log.md.
mod read;
mod write;

pub use read::{Event, RecordDecoder};
pub use write::Framer;

use crate::crc;

/// Size of a block in bytes.
pub const BLOCK_BYTES: usize = 32768;
/// Size of a fragment's header in bytes.
pub const HEADER_BYTES: usize = 7;
/// Payload size of the first fragment in files of Terrace.
pub const OURS_FIRST_BYTES: usize = 5;
/// Number of bytes that [`is_ours`] inspects: two headers and the payload between them.
pub const OURS_HEAD_BYTES: usize = HEADER_BYTES + OURS_FIRST_BYTES + HEADER_BYTES;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A fragment's header.
struct Header {
    masked_crc: u32,
    payload_bytes: usize,
    kind: u8,
}

impl Header {
    fn of(kind: u8, payload: &[u8]) -> Header {
        Header { masked_crc: masked_crc(kind, payload), payload_bytes: payload.len(), kind }
    }

    /// Parses `bytes`, which has at least [`HEADER_BYTES`] bytes.
    fn parse(bytes: &[u8]) -> Header {
        Header {
            masked_crc: u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")),
            payload_bytes: usize::from(u16::from_le_bytes([bytes[4], bytes[5]])),
            kind: bytes[6],
        }
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&self.masked_crc.to_le_bytes());
        let bytes = u16::try_from(self.payload_bytes).expect("a payload fits in a block");
        out[4..6].copy_from_slice(&bytes.to_le_bytes());
        out[6] = self.kind;
        out
    }

    fn vouches_for(&self, payload: &[u8]) -> bool {
        self.masked_crc == masked_crc(self.kind, payload)
    }
}

/// The checksum of each possible type byte of a fragment. It is a table because computing this
/// checksum for each record would take as long as computing the checksum of a short record.
const KIND_CRCS: [u32; 256] = {
    let (mut crcs, mut kind) = ([0; 256], 0);
    while kind < crcs.len() {
        crcs[kind] = crc::of_byte(kind as u8);
        kind += 1;
    }
    crcs
};

fn masked_crc(kind: u8, payload: &[u8]) -> u32 {
    crc::mask(crc::extend(KIND_CRCS[usize::from(kind)], payload))
}

/// Returns whether Terrace's writer began the file that starts with `start_of_file`. Returns false
/// for fewer than [`OURS_HEAD_BYTES`] bytes: the head is then torn and no record follows it, so it
/// does not matter which program wrote the file.
pub fn is_ours(start_of_file: &[u8]) -> bool {
    if start_of_file.len() < OURS_HEAD_BYTES {
        return false;
    }
    let (first, second) = start_of_file.split_at(HEADER_BYTES + OURS_FIRST_BYTES);
    let (header, next) = (Header::parse(first), Header::parse(second));
    header.kind == FIRST
        && header.payload_bytes == OURS_FIRST_BYTES
        && header.vouches_for(&first[HEADER_BYTES..])
        && matches!(next.kind, MIDDLE | LAST)
        && (1..=BLOCK_BYTES - OURS_HEAD_BYTES).contains(&next.payload_bytes)
}

#[cfg(test)]
mod tests;
