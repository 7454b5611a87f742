//! Finds sealed blocks (blocks with their trailer) by their checksums alone, to salvage SSTables
//! whose index block is lost.
//!
//! A block does not store its length, but it ends with a codec id and a checksum of everything
//! before. If the start of a block is known, the block ends where the stored checksum matches. The
//! next block starts directly after it. If the checksum matches at no position, the block is
//! corrupt. The next block then starts after some position that looks like a trailer. A false
//! match happens once in 2^32 attempts, so callers decode a found block before they use it.
//!
//! Each byte is checksummed only once, because the state of a CRC is linear in its input. Let
//! `S(p)` be the state before byte `p`, if the state at the start of the bytes is 0. Let `x8` be
//! the step over one zero byte. The state over the bytes from `b` to `e` is then
//! `S(e) ^ x8^(e-b) (S(b) ^ !0)`. Let `T` be the state that the checksum stored at `e` requires.
//! The block that starts at `b` ends at `e` if
//!
//! ```text
//! x8^-b (S(b) ^ !0)  =  x8^-e (S(e) ^ T)
//! ```
//! The right side is computed once for each possible end, because it does not depend on the start.
//! It is stored in `Ends`. Finding the end of a block is then a lookup in `Ends`. (The step over a
//! zero byte multiplies polynomials by x^8, and this operation can be inverted.)
use crate::{
    Codec,
    crc::{self, POLYNOMIAL},
    footer::{BLOCK_TRAILER_BYTES, Handle},
};

/// Maximum length in bytes of a block that starts where a block is expected.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Maximum length in bytes of a block that is found after a corrupt one, where any byte might be
/// the start of a block.
pub const BEHIND_DAMAGE_BYTES_MAX: usize = 256 << 10;
/// Size of the pieces to search, in bytes: more than two of the longest blocks.
pub const PIECE_BYTES: usize = 2 * BLOCK_BYTES_MAX + (1 << 20);

/// Finds blocks in a file. The caller passes the file in pieces.
#[derive(Debug)]
pub struct Search {
    /// File offset where the search continues.
    at: u64,
    /// Whether a block must start at `at`, because `at` is the start of the file or directly
    /// follows another block.
    expected: bool,
}

impl Default for Search {
    fn default() -> Search {
        Search { at: 0, expected: true }
    }
}

impl Search {
    /// Returns the file offset of the next piece that the caller must pass to
    /// [`blocks`](Search::blocks). The offset is slightly before the first byte that has not been
    /// searched yet.
    pub fn wants(&self) -> u64 {
        self.at.saturating_sub(BLOCK_TRAILER_BYTES as u64)
    }

    /// Returns the blocks in `piece`, sorted and without overlap. `piece` starts at the offset that
    /// [`wants`](Search::wants) returned and has [`PIECE_BYTES`] bytes. If `last` is set, `piece`
    /// ends at the end of the file and may be shorter.
    ///
    /// The search takes a few nanoseconds for each byte, whatever the input. It needs memory for
    /// each possible end of a block; in random bytes one byte in fifty is a possible end.
    pub fn blocks(&mut self, piece: &[u8], last: bool) -> Vec<Handle> {
        let begin = self.wants();
        let mut found = Vec::new();
        let ends = Ends::of(piece);
        let mut place = Place::default();
        let mut at = (self.at - begin) as usize;
        (0..at).for_each(|before| place.pass(piece[before]));
        while at < piece.len() {
            if !self.expected && !follows_a_trailer(piece, at) {
                place.pass(piece[at]);
                at += 1;
                continue;
            }
            let bytes_max = if self.expected { BLOCK_BYTES_MAX } else { BEHIND_DAMAGE_BYTES_MAX };
            let end = ends.of_block(at, place);
            if end.is_none() && !last && piece.len() - at < bytes_max + BLOCK_TRAILER_BYTES {
                break; // the block may end in the next piece
            }
            let next = match end.filter(|end| end - at <= bytes_max) {
                Some(end) => {
                    found.push(Handle { offset: begin + at as u64, bytes: (end - at) as u64 });
                    self.expected = true;
                    end + BLOCK_TRAILER_BYTES
                }
                None => {
                    self.expected = false;
                    at + 1
                }
            };
            piece[at..next].iter().for_each(|byte| place.pass(*byte));
            at = next;
        }
        self.at = begin + at as u64;
        found
    }
}

/// Returns whether the bytes before `at` may be a block trailer: a codec id and a checksum. Zeros
/// are not accepted as a checksum, because lost pages read as zeros.
fn follows_a_trailer(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(BLOCK_TRAILER_BYTES).is_some_and(|from| is_trailer(&bytes[from..at]))
}

fn is_trailer(bytes: &[u8]) -> bool {
    is_codec(bytes[0]) && bytes[1..] != [0; 4]
}

fn is_codec(byte: u8) -> bool {
    const DEFLATE: u8 = 4;
    byte == DEFLATE || [Codec::None, Codec::Snappy, Codec::Zstd, Codec::Lz4].iter().any(|codec| *codec as u8 == byte)
}

/// A position in the bytes, with the values that the equation in the module documentation needs.
#[derive(Clone, Copy)]
struct Place {
    /// `S(p)`: the state of the CRC before the position.
    state: u32,
    /// x^-8p, the factor of the equation.
    back: u32,
}

impl Default for Place {
    fn default() -> Place {
        Place { state: 0, back: ONE }
    }
}

impl Place {
    /// Advances by one byte.
    fn pass(&mut self, byte: u8) {
        self.state = self.state >> 8 ^ TABLE[usize::from(self.state as u8 ^ byte)];
        self.back = self.back << 8 ^ BACK[(self.back >> 24) as usize];
    }

    /// Returns x^-8p (`S(p)` ^ `state`): the left side of the equation if `state` is `!0`, the
    /// right side if `state` is `T`.
    fn side(self, state: u32) -> u32 {
        multiply(self.state ^ state, self.back)
    }
}

/// Possible ends of blocks, as pairs of the right side of the equation and the position.
struct Ends(Vec<(u32, u32)>);

impl Ends {
    /// Collects the possible ends of blocks: all positions followed by a codec id and a checksum.
    fn of(bytes: &[u8]) -> Ends {
        let (mut ends, mut place) = (Vec::new(), Place::default());
        for (at, trailer) in bytes.windows(BLOCK_TRAILER_BYTES).enumerate() {
            place.pass(trailer[0]);
            if is_trailer(trailer) {
                let stored = u32::from_le_bytes([trailer[1], trailer[2], trailer[3], trailer[4]]);
                ends.push((place.side(!crc::unmask(stored)), at as u32));
            }
        }
        ends.sort_unstable();
        Ends(ends)
    }

    /// Returns the end, without the trailer, of the shortest block that starts at `at`. `place` has
    /// the values of the equation (see the module documentation) for this position.
    fn of_block(&self, at: usize, place: Place) -> Option<usize> {
        let begin = (place.side(!0), at as u32);
        let (side, end) = *self.0.get(self.0.partition_point(|end| *end < begin))?;
        (side == begin.0).then_some(end as usize)
    }
}

/// The polynomial 1, bit-reversed as all polynomials in this module.
const ONE: u32 = 1 << 31;

/// Returns the product of two polynomials modulo that of CRC-32C.
fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = times_x(b);
        bit >>= 1;
    }
    product
}

const fn times_x(a: u32) -> u32 {
    if a & 1 == 1 { a >> 1 ^ POLYNOMIAL } else { a >> 1 }
}

const fn over_x(a: u32) -> u32 {
    if a >> 31 == 1 { (a ^ POLYNOMIAL) << 1 | 1 } else { a << 1 }
}

/// The CRC step over one byte, which is a multiplication by x^8. The CRC library is faster for
/// long inputs but slower for single bytes.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = times_x(crc);
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The CRC step backwards over one byte, which is a division by x^8. Entry `b` is the contribution
/// of `b` as the highest byte of the state.
const BACK: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut quotient, mut bit) = ((byte as u32) << 24, 0);
        while bit < 8 {
            quotient = over_x(quotient);
            bit += 1;
        }
        table[byte] = quotient;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footer::seal_block;

    fn sealed_blocks(bytes: &[u8]) -> Vec<Handle> {
        Search::default().blocks(bytes, true)
    }

    /// Returns contiguous sealed blocks with these contents, and their handles.
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
    fn all_blocks_are_found() {
        let contents: [&[u8]; 4] = [b"first block", &[0; 5000], b"", &[1; 3000]];
        let (bytes, handles) = sealed(&contents);
        assert_eq!(sealed_blocks(&bytes), handles);
        assert_eq!(sealed_blocks(&bytes[..bytes.len() - 1]), handles[..3]);
        assert_eq!(sealed_blocks(&[bytes, vec![0; 9000]].concat()), handles);
        assert_eq!(sealed_blocks(&[0; 4]), []);
    }

    #[test]
    fn a_corrupt_block_hides_no_other() {
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

    fn noise(bytes: usize) -> Vec<u8> {
        let (mut state, mut noise) = (7_u64, vec![0; bytes]);
        noise.fill_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        });
        noise
    }

    #[test]
    fn a_block_among_noise_is_found() {
        let (block, _) = sealed(&[b"a block among noise"]);
        let mut bytes = noise(3 << 20);
        bytes.splice(1 << 20..1 << 20, [&[0, 1, 2, 3, 4], &block[..]].concat());
        let found = sealed_blocks(&bytes);
        assert!(found.contains(&Handle { offset: (1 << 20) + 5, bytes: 19 }) && found.len() < 5, "{found:?}");
    }

    #[test]
    fn blocks_across_pieces_are_found() {
        let (short, long) = (noise(1000), noise(10 << 20));
        let contents: Vec<&[u8]> = (0..40).map(|n| if n % 3 == 0 { &long[..] } else { &short }).collect();
        let (mut bytes, mut handles) = sealed(&contents);
        bytes[handles.remove(19).offset as usize + 9] ^= 1;
        let (mut search, mut found, mut pieces) = (Search::default(), Vec::new(), 0);
        loop {
            let from = search.wants() as usize;
            let piece = &bytes[from..bytes.len().min(from + PIECE_BYTES)];
            let last = from + piece.len() == bytes.len();
            found.extend(search.blocks(piece, last));
            pieces += 1;
            if last {
                break;
            }
        }
        assert_eq!((found, pieces), (handles, 2));
    }

    #[test]
    fn a_step_back_undoes_a_step() {
        let mut place = Place::default();
        (0..1000).for_each(|at| place.pass((at * 7) as u8));
        let ahead = (0..8000).fold(ONE, |power, _| times_x(power));
        assert_eq!(multiply(place.back, ahead), ONE);
        assert_eq!(multiply(0x1234_5678, ONE), 0x1234_5678);
    }
}
