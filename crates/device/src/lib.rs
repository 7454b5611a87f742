//! What is a block device? Something with a length that reads, writes, flushes and forgets, and no more: it never heard of a
//! key or a file. Everything that can stand in for a drive implements [`BlockDevice`].
#![deny(unsafe_code)]

mod aligned;
mod cached;
mod deaf;
mod error;
mod file;
mod flushers;
pub mod loops;
mod memory;
mod node;
pub mod process;
#[cfg(feature = "lab")]
pub mod record;
#[cfg(feature = "lab")]
pub mod serve;
mod slow;
#[cfg(feature = "lab")]
pub mod smart;
#[cfg(feature = "lab")]
pub mod ssd;

pub use cached::Cached;
pub use deaf::Deaf;
pub use error::{Error, Result};
pub use file::File;
pub use memory::Memory;
pub use slow::{Pace, Slow};

use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Which of the drive's write frontiers a write goes to: data of one lifetime together, so that it dies together. A device
/// without streams ignores it. Zero is where unlabelled writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream(pub u8);

/// A block device. Offsets and lengths are bytes and multiples of [`block_bytes`](Self::block_bytes); other ones, and ranges
/// beyond the end, are refused. A completed write survives the loss of power once a later [`flush`](Self::flush) has returned,
/// and may survive without.
pub trait BlockDevice: Send + Sync {
    /// The device's length.
    fn len_bytes(&self) -> u64;

    /// The unit of reading and writing: 512 or 4096.
    fn block_bytes(&self) -> u32;

    /// Fills `into` from `offset`. What was never written, or zeroed, reads as zeros.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Fills `into`, which need be no whole blocks.
    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        reread(self, offset, into)
    }

    /// Says that these bytes, which need be no whole blocks, will be read soon. A hint.
    fn expect(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()>;

    /// Writes bytes that need be no whole blocks. What else is in their blocks is read first: here, or by the kernel.
    fn write_part(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        rewrite(self, offset, bytes, stream)
    }

    /// Returns when every write, discard and zeroing that had returned before is durable.
    fn flush(&self) -> Result<()>;

    /// Returns when every write within `ranges` that had returned before is durable. Others need not be: what waits in memory to be written
    /// may wait on. A device that cannot tell them apart flushes all. Of flushes at the same time each hears of what failed within its ranges.
    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        let _ = ranges;
        self.flush()
    }

    /// From now on reads of these bytes show what the device has of them, but for what still waits to be written: a flush that failed may
    /// have left others in memory which the device never got, and which no later flush saves. Does nothing where reads come from the
    /// device anyway.
    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// Says that nobody will read these bytes again. A real device may read as it did, or as it likes; others read as zeros afterwards.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// Makes these bytes read as zeros.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()>;

    /// A file with the very same bytes, if reads and writes may go there past this device; nothing else may.
    fn backing(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Reads the blocks that `into` lies in.
fn reread(device: &(impl BlockDevice + ?Sized), offset: u64, into: &mut [u8]) -> Result<()> {
    let block = u64::from(device.block_bytes());
    let (first, within) = (offset - offset % block, (offset % block) as usize);
    let mut blocks = vec![0; (within + into.len()).next_multiple_of(block as usize)];
    device.read_at(first, &mut blocks)?;
    into.copy_from_slice(&blocks[within..][..into.len()]);
    Ok(())
}

/// Reads the blocks that `bytes` lie in, and writes them with `bytes` in them.
fn rewrite(device: &(impl BlockDevice + ?Sized), offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
    let block = u64::from(device.block_bytes());
    let (first, within) = (offset - offset % block, (offset % block) as usize);
    let mut blocks = vec![0; (within + bytes.len()).next_multiple_of(block as usize)];
    device.read_at(first, &mut blocks)?;
    blocks[within..within + bytes.len()].copy_from_slice(bytes);
    device.write_at(first, &blocks, stream)
}
