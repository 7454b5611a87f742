//! The format of value-log segments (files with separated values). A segment consists of frames,
//! and each frame stores one batch. A value pointer in an SSTable refers to a single entry of a
//! frame.
//!
//! ```text
//! segment = magic (8 bytes) frame*
//! frame:
//! offset  size  field
//!      0     4  masked CRC-32C of: segment number (fixed64), first 4 bytes of each entry,
//!                 bytes 4..24 of the frame
//!      4     4  number of entries, fixed32; entry i has sequence number first + i
//!      8     8  sequence number of the first entry, fixed64
//!     16     8  total size of the entries in bytes, fixed64
//!     24     …  entries
//! entry:
//!      0     4  masked CRC-32C of: its sequence number (fixed64), and bytes 4..
//!      4     1  01 put, 02 put of a compressed value, 00 delete, 0f range delete
//!      5     …  slice(key) slice(value)   put; a compressed value is codec id (1 byte), bytes
//!               slice(key)                delete
//!               slice(from) slice(to)     range delete
//! ```
//! A frame is a batch and is applied atomically. An entry can be verified alone if its sequence
//! number is known. The segment number is not stored, but the frame's checksum covers it. A frame
//! of another file, or a frame in recycled space, therefore never has a valid checksum. This
//! format is an addition of Terrace; spec: docs/format/value-log.md.
mod read;
mod stored;
mod write;

pub use read::{Frames, read_entry};
pub use stored::{INLINE, StoredValue, ValuePointer, put_inline};
pub use write::Framer;

use crate::{SeqNo, crc};

/// Feature flag of stores whose WALs may have a sidecar: a second file, with the batches that have
/// small values only (docs/format/value-log.md).
pub const WAL_SIDECAR: &str = "small-log";

/// First bytes of a segment. The last of these bytes is the format version.
pub const MAGIC: &[u8; 8] = b"TERRVLG\x01";
/// Size of a frame's header in bytes.
pub const HEADER_BYTES: usize = 24;
/// Size of an entry's checksum in bytes.
const CRC_BYTES: usize = 4;

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_COMPRESSED: u8 = 2;
const DELETE_RANGE: u8 = 0x0f;

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    masked_crc: u32,
    count: u32,
    first: u64,
    entry_bytes: u64,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Header {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Header { masked_crc: half(0), count: half(4), first: word(8), entry_bytes: word(16) }
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&self.masked_crc.to_le_bytes());
        out[4..8].copy_from_slice(&self.count.to_le_bytes());
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..].copy_from_slice(&self.entry_bytes.to_le_bytes());
        out
    }

    /// Returns whether this header is plausible for a frame that starts `left` bytes before the end
    /// of the segment. An entry has at least 6 bytes.
    fn is_plausible(&self, left: u64) -> bool {
        let entries = left.saturating_sub(HEADER_BYTES as u64);
        let fits = self.entry_bytes <= entries && u64::from(self.count) <= self.entry_bytes / 6;
        fits && (self.count == 0) == (self.entry_bytes == 0) && (1..SeqNo::MAX.0).contains(&self.first)
    }

    /// Returns the header with the frame's checksum. `crc` is the checksum state from
    /// [`begin_crc`], extended by the checksums of the entries.
    fn sealed(self, crc: u32) -> Header {
        Header { masked_crc: crc::mask(crc::extend(crc, &self.encode()[4..])), ..self }
    }
}

/// Returns the initial checksum state of a frame in `segment`.
fn begin_crc(segment: u64) -> u32 {
    crc::crc32c(&segment.to_le_bytes())
}

/// Returns the checksum of an entry with sequence number `seq`. `rest` has the bytes of the entry
/// after the checksum.
fn entry_crc(seq: SeqNo, rest: &[u8]) -> u32 {
    crc::mask(crc::extend(crc::crc32c(&seq.0.to_le_bytes()), rest))
}
