//! Splits records into fragments.
use super::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, Header, LAST, MIDDLE, OURS_FIRST_BYTES};

/// Maximum number of bytes in one call of `emit`. A longer record is passed in several calls.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// Frames the records of one file, in order, from its beginning.
#[derive(Debug, Default)]
pub struct Framer {
    at: usize,      // position of the next fragment in its block; <= BLOCK_BYTES
    piece: Vec<u8>, // framed but not emitted yet; empty between calls
}

impl Framer {
    /// Starts an empty file.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// Frames `record` and passes it to `emit`. A record of up to 1 MiB is passed in one call, a
    /// longer one in pieces of at most that size. If `emit` fails, the end of the file is unknown,
    /// and the framer must not be used again.
    pub fn frame<E>(&mut self, record: &[u8], emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.fragment(record, usize::MAX, emit)
    }

    /// Frames `record` as [`Framer::frame`] does, as the first record of a file of Terrace: see
    /// [`is_ours`](super::is_ours).
    ///
    /// # Panics
    /// If a record was framed before, or if `record` has fewer than 6 bytes.
    pub fn frame_ours<E>(&mut self, record: &[u8], emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        assert!(self.at == 0, "only the first record of a file tells who wrote it");
        assert!(record.len() > OURS_FIRST_BYTES, "the first record of a file has at least 6 bytes");
        self.fragment(record, OURS_FIRST_BYTES, emit)
    }

    /// Splits `record` at block boundaries. Its first fragment has at most `first_bytes_max` bytes.
    fn fragment<E>(
        &mut self,
        record: &[u8],
        first_bytes_max: usize,
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut left, mut bytes_max, mut begin) = (record, first_bytes_max, true);
        loop {
            let unused = BLOCK_BYTES - self.at;
            let (padding, start) = if unused < HEADER_BYTES { (unused, 0) } else { (0, self.at) };
            // If the rest of the block has room for a header only, the fragment has no payload, as
            // in LevelDB.
            let room = BLOCK_BYTES - start - HEADER_BYTES;
            let (payload, rest) = left.split_at(left.len().min(room).min(bytes_max));
            let kind = match (begin, rest.is_empty()) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            if self.piece.len() + padding + HEADER_BYTES + payload.len() > PIECE_BYTES_MAX {
                self.hand_out(&mut emit)?;
            }
            self.piece.resize(self.piece.len() + padding, 0);
            self.piece.extend_from_slice(&Header::of(kind, payload).encode());
            self.piece.extend_from_slice(payload);
            self.at = start + HEADER_BYTES + payload.len();
            (left, bytes_max, begin) = (rest, usize::MAX, false);
            if left.is_empty() {
                return self.hand_out(&mut emit);
            }
        }
    }

    fn hand_out<E>(&mut self, emit: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let done = emit(&self.piece);
        self.piece.clear();
        done
    }
}
