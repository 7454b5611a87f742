//! Memory for reads and writes past the page cache: it begins where the device wants it to.
use std::{fs::File, io, os::unix::fs::FileExt};

/// No device wants more.
const ALIGNMENT: usize = 4096;

/// So many bytes, from a multiple of [`ALIGNMENT`] on.
pub struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    pub fn new(len: usize) -> Aligned {
        let bytes = vec![0; len + ALIGNMENT];
        let begin = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, begin, len }
    }

    /// Fills `into`, which is as long, from `offset` of `file`.
    pub fn read(mut self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let aligned = &mut self.bytes[self.begin..self.begin + self.len];
        file.read_exact_at(aligned, offset)?;
        into.copy_from_slice(aligned);
        Ok(())
    }

    /// The memory, with a copy of `bytes`, which are as many.
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
    fn it_begins_where_it_must() {
        for len in [0, 1, 4096, 1 << 20] {
            let bytes = vec![7; len];
            let mut aligned = Aligned::new(len);
            let held = aligned.holding(&bytes);
            assert_eq!((held.as_ptr().addr() % ALIGNMENT, held), (0, &bytes[..]));
        }
    }
}
