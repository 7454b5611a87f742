//! A device in memory, which takes only what was written to it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::check_range;
use crate::{BlockDevice, Error, Result, Stream};

const BLOCK: usize = 4096;

/// A block device in memory. Blocks that read as zeros take no space; nothing survives the process.
pub struct Memory {
    len: u64,
    blocks: Mutex<HashMap<u64, Box<[u8; BLOCK]>>>,
}

impl Memory {
    /// A device of `len` bytes, all zero.
    pub fn new(len: u64) -> Result<Self> {
        if len == 0 || !len.is_multiple_of(BLOCK as u64) {
            return Err(Error::Impossible {
                field: "length",
                why: format!("{len} bytes are not a whole number of {BLOCK} byte blocks, or none"),
            });
        }
        Ok(Self { len, blocks: Mutex::default() })
    }

    /// The numbers of the blocks of a range, once it is known to be one.
    fn blocks(&self, offset: u64, len: u64) -> Result<Range<u64>> {
        check_range(offset, len, BLOCK as u32, self.len)?;
        Ok(offset / BLOCK as u64..(offset + len) / BLOCK as u64)
    }

    fn forget(&self, offset: u64, len: u64) -> Result<()> {
        let range = self.blocks(offset, len)?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if range.end - range.start > blocks.len() as u64 {
            blocks.retain(|number, _| !range.contains(number));
        } else {
            range.for_each(|number| drop(blocks.remove(&number)));
        }
        Ok(())
    }
}

impl BlockDevice for Memory {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = self.blocks(offset, into.len() as u64)?;
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, into) in range.zip(into.chunks_exact_mut(BLOCK)) {
            match blocks.get(&number) {
                Some(block) => into.copy_from_slice(&block[..]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        let range = self.blocks(offset, bytes.len() as u64)?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, bytes) in range.zip(bytes.chunks_exact(BLOCK)) {
            blocks.entry(number).or_insert_with(|| Box::new([0; BLOCK])).copy_from_slice(bytes);
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
    fn reads_what_was_written_and_zeros_elsewhere() {
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

    #[test]
    fn refuses_what_is_not_blocks_of_it() {
        assert!(matches!(Memory::new(0), Err(Error::Impossible { field: "length", .. })));
        let device = Memory::new(2 * 4096).unwrap();
        let refused = |offset, len: usize| device.write_at(offset, &vec![1; len], Stream::default()).unwrap_err();
        assert!(matches!(refused(512, 4096), Error::Unaligned { offset: 512, .. }));
        assert!(matches!(refused(4096, 100), Error::Unaligned { len: 100, .. }));
        assert!(matches!(refused(4096, 8192), Error::BeyondEnd { end: 8192, .. }));
        assert!(matches!(device.discard(u64::MAX - 4095, 4096), Err(Error::BeyondEnd { .. })));
    }
}
