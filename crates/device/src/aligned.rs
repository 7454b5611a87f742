//! A buffer of aligned memory. Direct I/O requires that the buffer of a read or write begins at an
//! aligned address.
use std::{fs::File, io, os::unix::fs::FileExt};

/// The largest alignment that devices require, in bytes.
const ALIGNMENT: usize = 4096;

/// A buffer aligned to [`ALIGNMENT`].
pub struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    /// Returns a buffer of `len` zeros.
    pub fn new(len: usize) -> Aligned {
        let bytes = vec![0; len + ALIGNMENT];
        let begin = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, begin, len }
    }

    /// Fills `into` with the bytes of `file` from `offset` on. `into` has the buffer's length.
    pub fn read(mut self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let aligned = &mut self.bytes[self.begin..self.begin + self.len];
        file.read_exact_at(aligned, offset)?;
        into.copy_from_slice(aligned);
        Ok(())
    }

    /// Copies `bytes` into the buffer and returns the aligned copy. `bytes` have the buffer's
    /// length.
    pub fn holding(&mut self, bytes: &[u8]) -> &[u8] {
        let aligned = &mut self.bytes[self.begin..self.begin + self.len];
        aligned.copy_from_slice(bytes);
        aligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned() {
        for len in [0, 1, 4096, 1 << 20] {
            let bytes = vec![7; len];
            let mut aligned = Aligned::new(len);
            let held = aligned.holding(&bytes);
            assert_eq!((held.as_ptr().addr() % ALIGNMENT, held), (0, &bytes[..]));
        }
    }
}
