//! Segments of the value log: batches as frames, whose entries tables may point to.
//!
//! ```text
//! segment = magic (8 bytes) frame*
//! frame:
//! offset  size  field
//!      0     4  masked CRC-32C of: segment number (fixed64), the first 4 bytes of each entry, bytes 4..24 of the frame
//!      4     4  count of entries, fixed32; the i-th has sequence + i
//!      8     8  sequence of the first entry, fixed64
//!     16     8  bytes of the entries, fixed64
//!     24     …  entries
//! entry:
//!      0     4  masked CRC-32C of: its sequence (fixed64), and bytes 4..
//!      4     1  01 put, 02 put of a compressed value, 00 delete, 0f delete of a range
//!      5     …  slice(key) slice(value)   put; a compressed value is a codec's number (1 byte) and what it made
//!               slice(key)                delete
//!               slice(from) slice(to)     delete of a range
//! ```
//! A frame is a batch: whole or absent. An entry can be verified by itself, by whoever knows its sequence. The segment's number
//! is in no frame, but in its checksum, so that one from another file, or from recycled space, never passes.
//! Ours; spec: docs/format/value-log.md.
mod read;
mod stored;
mod write;

pub use read::{Frames, read_entry};
pub use stored::{INLINE, StoredValue, ValuePointer, put_inline};
pub use write::Framer;

use crate::{SeqNo, crc};

/// The feature of stores in which a log may have a part beside its segment (docs/format/value-log.md).
pub const WAL_SIDECAR: &str = "small-log";

/// What a segment begins with; its last byte is the version of all this.
pub const MAGIC: &[u8; 8] = b"TERRVLG\x01";
/// Bytes of a frame before its first entry.
pub const HEADER_BYTES: usize = 24;
/// Bytes of an entry that its checksum does not cover, being it.
const CRC_BYTES: usize = 4;

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_COMPRESSED: u8 = 2;
const DELETE_RANGE: u8 = 0x0f;

/// A frame's header, taken apart.
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

    /// Whether this can be the header of a frame, `left` bytes before the end of the segment: an entry has 6 at least.
    fn is_plausible(&self, left: u64) -> bool {
        let entries = left.saturating_sub(HEADER_BYTES as u64);
        let fits = self.entry_bytes <= entries && u64::from(self.count) <= self.entry_bytes / 6;
        fits && (self.count == 0) == (self.entry_bytes == 0) && (1..SeqNo::MAX.0).contains(&self.first)
    }

    /// The header whose frame has entries with checksums that add up to `crc`, which began with [`begin_crc`].
    fn sealed(self, crc: u32) -> Header {
        Header { masked_crc: crc::mask(crc::extend(crc, &self.encode()[4..])), ..self }
    }
}

/// Where the checksum of a frame of `segment` begins.
fn begin_crc(segment: u64) -> u32 {
    crc::crc32c(&segment.to_le_bytes())
}

/// What an entry of sequence `seq` that goes on with `rest` has for a checksum.
fn entry_crc(seq: SeqNo, rest: &[u8]) -> u32 {
    crc::mask(crc::extend(crc::crc32c(&seq.0.to_le_bytes()), rest))
}
