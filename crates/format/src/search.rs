//! Finds sealed blocks by their checksums alone, for tables whose index is lost.
//!
//! A block says nowhere how long it is. But it ends with a codec id and a checksum of all before it, so whoever knows where a
//! block begins finds its end by computing the checksum byte by byte until it is the one that is stored there. The next block
//! begins right behind. Where no end is found, a block is damaged; the next one begins somewhere behind what looks like a
//! trailer. A match by accident happens once in 2^32 tries; callers decode what they find before they believe it.
use crate::{
    Codec, crc,
    footer::{BLOCK_TRAILER_BYTES, Handle},
};

/// No longer block is looked for where one should begin.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;
/// No longer block is looked for behind a damaged one, where every byte might begin it.
pub const BEHIND_DAMAGE_BYTES_MAX: usize = 256 << 10;

/// The blocks in `bytes`, in order; no two share a byte. Takes time in proportion to the bytes, and to those that follow damage
/// and look like the end of a block times [`BEHIND_DAMAGE_BYTES_MAX`].
pub fn sealed_blocks(bytes: &[u8]) -> Vec<Handle> {
    let mut found = Vec::new();
    let (mut at, mut expected) = (0, true);
    while at < bytes.len() {
        let bytes_max = if expected { BLOCK_BYTES_MAX } else { BEHIND_DAMAGE_BYTES_MAX };
        let end = (expected || follows_a_trailer(bytes, at)).then(|| first_end(&bytes[at..], bytes_max)).flatten();
        match end {
            Some(block_bytes) => {
                found.push(Handle { offset: at as u64, bytes: block_bytes as u64 });
                at += block_bytes + BLOCK_TRAILER_BYTES;
            }
            None => at += 1,
        }
        expected = end.is_some();
    }
    found
}

/// Whether a codec id and a checksum may stand before `at`. Zeros are no checksum: they are what lost pages read as.
fn follows_a_trailer(bytes: &[u8], at: usize) -> bool {
    let trailer = at.checked_sub(BLOCK_TRAILER_BYTES).map(|from| &bytes[from..at]);
    trailer.is_some_and(|trailer| is_codec(trailer[0]) && trailer[1..] != [0; 4])
}

/// Bytes of the shortest block that begins with `bytes`, without its trailer.
fn first_end(bytes: &[u8], bytes_max: usize) -> Option<usize> {
    let mut state = !0u32;
    let last = bytes.len().checked_sub(BLOCK_TRAILER_BYTES)?.min(bytes_max);
    for (at, &byte) in bytes[..=last].iter().enumerate() {
        state = state >> 8 ^ TABLE[usize::from(state as u8 ^ byte)];
        if is_codec(byte) && bytes[at + 1..at + BLOCK_TRAILER_BYTES] == crc::mask(!state).to_le_bytes() {
            return Some(at);
        }
    }
    None
}

fn is_codec(byte: u8) -> bool {
    const DEFLATE: u8 = 4;
    byte == DEFLATE || [Codec::None, Codec::Snappy, Codec::Zstd, Codec::Lz4].iter().any(|codec| *codec as u8 == byte)
}

/// CRC-32C of one byte more. The library's is faster for many bytes at once, and slower for one.
const TABLE: [u32; 256] = {
    const POLYNOMIAL: u32 = 0x82f6_3b78; // reflected
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footer::seal_block;

    /// Blocks of these contents, one behind the other, and where they are.
    fn sealed(contents: &[&[u8]]) -> (Vec<u8>, Vec<Handle>) {
        let (mut bytes, mut handles) = (Vec::new(), Vec::new());
        for contents in contents {
            let from = bytes.len();
            bytes.extend_from_slice(contents);
            seal_block(&mut bytes, from, Codec::Snappy);
            handles.push(Handle { offset: from as u64, bytes: contents.len() as u64 });
        }
        (bytes, handles)
    }

    #[test]
    fn blocks_are_found_where_they_are() {
        let contents: [&[u8]; 4] = [b"first block", &[0; 5000], b"", &[1; 3000]];
        let (bytes, handles) = sealed(&contents);
        assert_eq!(sealed_blocks(&bytes), handles);
        assert_eq!(sealed_blocks(&bytes[..bytes.len() - 1]), handles[..3]);
        assert_eq!(sealed_blocks(&[bytes, vec![0; 9000]].concat()), handles);
        assert_eq!(sealed_blocks(&[0; 4]), []);
    }

    #[test]
    fn a_damaged_block_hides_no_other() {
        let long: Vec<u8> = (0..8000u32).map(|n| ((n * n) >> 3) as u8).collect();
        let (bytes, handles) = sealed(&[b"one", &long, b"three", b"four"]);
        for at in (3 + BLOCK_TRAILER_BYTES..bytes.len()).step_by(197) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            let is_hit = |handle: &&Handle| !(handle.offset..handle.end().unwrap()).contains(&(at as u64));
            let whole: Vec<Handle> = handles.iter().filter(is_hit).copied().collect();
            assert_eq!(sealed_blocks(&damaged), whole, "byte {at}");
        }
        let mut zeroed = bytes.clone();
        zeroed[4096..8000].fill(0);
        assert_eq!(sealed_blocks(&zeroed), [handles[0], handles[2], handles[3]]);
    }
}
