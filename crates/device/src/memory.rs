//! A sparse block device in memory: blocks that were never written take no memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::check_range;
use crate::{BlockDevice, Error, Result, Stream};

const BLOCK: u32 = 4096;
/// Chunk size in bytes. The allocator gets a chunk of this size directly from the operating
/// system. Such memory consists of zero pages that occupy no memory until they are written. When a
/// chunk is freed, its memory returns to the operating system immediately.
const CHUNK: usize = 1 << 20;

/// A block device in memory. Unwritten chunks, and chunks discarded or zeroed as a whole, occupy
/// no memory. The contents are lost with the process.
pub struct Memory {
    len: u64,
    /// One chunk per mebibyte. `None` reads as zeros.
    chunks: Mutex<Vec<Option<Box<[u8]>>>>,
}

/// The part of a byte range that is within one chunk.
struct Part {
    chunk: usize,
    /// Offset of the part within its chunk.
    start: usize,
    /// Offset of the part within the range.
    at: usize,
    len: usize,
}

impl Memory {
    /// Returns a device of `len` zero bytes.
    pub fn new(len: u64) -> Result<Self> {
        let impossible = |why| Error::Impossible { field: "length", why };
        if len == 0 || !len.is_multiple_of(BLOCK.into()) {
            return Err(impossible(format!("{len} bytes: the size must be a positive multiple of {BLOCK}")));
        }
        let (mut chunks, count) = (Vec::new(), len.div_ceil(CHUNK as u64) as usize);
        chunks.try_reserve_exact(count).map_err(|error| impossible(format!("{len} bytes: {error}")))?;
        chunks.resize_with(count, || None);
        Ok(Self { len, chunks: Mutex::new(chunks) })
    }

    /// Checks a range and splits it into parts.
    fn parts(&self, offset: u64, len: u64) -> Result<impl Iterator<Item = Part> + use<>> {
        check_range(offset, len, BLOCK, self.len)?;
        // Offsets within the device fit `usize`.
        let (from, len) = (offset as usize, len as usize);
        let chunks = from / CHUNK..(from + len).div_ceil(CHUNK);
        Ok(chunks.map(move |chunk| {
            let (begin, end) = (from.max(chunk * CHUNK), (from + len).min((chunk + 1) * CHUNK));
            Part { chunk, start: begin % CHUNK, at: begin - from, len: end - begin }
        }))
    }

    fn forget(&self, offset: u64, len: u64) -> Result<()> {
        let parts = self.parts(offset, len)?;
        let mut chunks = self.chunks();
        for Part { chunk, start, len, .. } in parts {
            match &mut chunks[chunk] {
                whole if len == CHUNK => *whole = None,
                Some(bytes) => bytes[start..start + len].fill(0),
                None => {}
            }
        }
        Ok(())
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Option<Box<[u8]>>>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockDevice for Memory {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn block_bytes(&self) -> u32 {
        BLOCK
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let parts = self.parts(offset, into.len() as u64)?;
        let chunks = self.chunks();
        for Part { chunk, start, at, len } in parts {
            let into = &mut into[at..at + len];
            match &chunks[chunk] {
                Some(bytes) => into.copy_from_slice(&bytes[start..start + len]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        let parts = self.parts(offset, bytes.len() as u64)?;
        let mut chunks = self.chunks();
        for Part { chunk, start, at, len } in parts {
            let chunk = chunks[chunk].get_or_insert_with(|| vec![0; CHUNK].into_boxed_slice());
            chunk[start..start + len].copy_from_slice(&bytes[at..at + len]);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.forget(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.forget(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_ranges_read_as_zeros() {
        let device = Memory::new(16 * 4096).unwrap();
        device.write_at(4096, &[7; 8192], Stream::default()).unwrap();
        device.discard(8192, 4096).unwrap();
        let mut read = vec![1; 16 * 4096];
        device.read_at(0, &mut read).unwrap();
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == if at / 4096 == 1 { 7 } else { 0 }));
        device.write_zeroes(0, 16 * 4096).unwrap();
        device.read_at(4096, &mut read[..4096]).unwrap();
        assert_eq!(read[..4096], [0; 4096]);
    }

    /// Tests the device against a vector of bytes, for ranges within a chunk, ranges across chunk
    /// borders, and whole chunks.
    #[test]
    fn ranges_across_chunks_equal_those_within() {
        let (len, mut naive) = (3 * CHUNK + 8192, vec![0; 3 * CHUNK + 8192]);
        let device = Memory::new(len as u64).unwrap();
        for (byte, start, count) in [
            (1, 0, len),
            (0, CHUNK - 4096, 8192),
            (2, 2 * CHUNK - 4096, CHUNK + 8192),
            (0, CHUNK, CHUNK),
            (3, CHUNK + 4096, 4096),
            (0, 4096, 3 * CHUNK),
            (4, len - 4096, 4096),
        ] {
            match byte {
                0 => device.discard(start as u64, count as u64).unwrap(),
                byte => device.write_at(start as u64, &vec![byte; count], Stream::default()).unwrap(),
            }
            naive[start..start + count].fill(byte);
            let mut read = vec![9; len];
            device.read_at(0, &mut read).unwrap();
            assert!(read == naive, "after {byte} from {start} for {count}");
            device.read_at(CHUNK as u64 - 4096, &mut read[..8192]).unwrap();
            assert!(read[..8192] == naive[CHUNK - 4096..][..8192], "after {byte} from {start} for {count}");
        }
    }

    #[test]
    fn unaligned_and_out_of_range_requests_are_rejected() {
        for len in [0, 4095, u64::MAX - 4095] {
            assert!(matches!(Memory::new(len), Err(Error::Impossible { field: "length", .. })), "{len}");
        }
        let device = Memory::new(2 * 4096).unwrap();
        let refused = |offset, len: usize| device.write_at(offset, &vec![1; len], Stream::default()).unwrap_err();
        assert!(matches!(refused(512, 4096), Error::Unaligned { offset: 512, .. }));
        assert!(matches!(refused(4096, 100), Error::Unaligned { len: 100, .. }));
        assert!(matches!(refused(4096, 8192), Error::BeyondEnd { end: 8192, .. }));
        assert!(matches!(device.discard(u64::MAX - 4095, 4096), Err(Error::BeyondEnd { .. })));
    }
}
