//! Block devices: the interface [`BlockDevice`], which every drive implements, real or simulated.
//! This crate has no knowledge of a store's files and keys.
#![deny(unsafe_code)]

mod cached;
mod deaf;
mod descriptor;
mod error;
mod memory;
mod slow;

// Devices of the operating system, which need Linux with 64-bit offsets of files.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod aligned;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod file;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod flushers;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod loops;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod node;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod process;

// The laboratory, which needs the same.
#[cfg(all(feature = "lab", target_os = "linux", target_pointer_width = "64"))]
pub mod record;
#[cfg(all(feature = "lab", target_os = "linux", target_pointer_width = "64"))]
pub mod serve;
#[cfg(all(feature = "lab", target_os = "linux", target_pointer_width = "64"))]
pub mod smart;
#[cfg(all(feature = "lab", target_os = "linux", target_pointer_width = "64"))]
pub mod ssd;

pub use cached::Cached;
pub use deaf::Deaf;
pub use descriptor::Descriptor;
pub use error::{Error, Result};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use file::File;
pub use memory::Memory;
pub use slow::{Pace, Slow};

use std::ops::Range;

/// A write stream of a drive. Data with similar lifetimes should be written to one stream, so that
/// all data of an erase unit becomes obsolete at about the same time. Drives without streams
/// ignore the stream. Unlabelled writes use stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream(pub u8);

/// A block device. Offsets and lengths are in bytes and must be multiples of
/// [`block_bytes`](Self::block_bytes). The device rejects unaligned ranges and ranges beyond its
/// end. A completed write is durable once a later [`flush`](Self::flush) has returned, and may
/// become durable earlier.
pub trait BlockDevice: Send + Sync {
    /// Returns the size of the device in bytes.
    fn len_bytes(&self) -> u64;

    /// Returns the block size in bytes: 512 or 4096.
    fn block_bytes(&self) -> u32;

    /// Fills `into` from `offset`. Blocks that were never written, or were zeroed, read as
    /// zeros.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Reads as [`read_at`](Self::read_at) does, for an unaligned range.
    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        reread(self, offset, into)
    }

    /// Hints that the caller will soon read this range, which may be unaligned.
    fn expect(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()>;

    /// Writes as [`write_at`](Self::write_at) does, for an unaligned range. The device or the
    /// kernel first reads the blocks that the range touches in part.
    fn write_part(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        rewrite(self, offset, bytes, stream)
    }

    /// Makes every write, discard and zeroing durable that returned before this call.
    fn flush(&self) -> Result<()>;

    /// Makes every write within `ranges` durable that returned before this call. Writes elsewhere
    /// may stay in volatile memory. A device that cannot flush ranges flushes everything. Several
    /// flushes may run at the same time; each reports the failures within its own ranges.
    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        let _ = ranges;
        self.flush()
    }

    /// Drops the clean cached pages of a range, so that reads return the device's contents. Dirty
    /// pages stay in the cache. A caller needs this after a failed flush: the page cache may then
    /// have clean pages that the device never received, and no later flush writes them. The call
    /// has no effect on devices without a cache.
    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// Declares that the caller does not need the contents of the range any more. Afterwards a read
    /// of the range may return old or arbitrary bytes on a real device; other devices return zeros.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// Zeroes a range.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()>;

    /// Returns a file with the same contents as this device, if callers may read and write that
    /// file directly instead of this device. All other operations must still use the device.
    fn backing(&self) -> Option<Descriptor<'_>> {
        None
    }
}

/// Reads all blocks that `into` covers in part or as a whole, and copies the requested bytes to
/// `into`.
fn reread(device: &(impl BlockDevice + ?Sized), offset: u64, into: &mut [u8]) -> Result<()> {
    let block = u64::from(device.block_bytes());
    let (first, within) = (offset - offset % block, (offset % block) as usize);
    let mut blocks = vec![0; (within + into.len()).next_multiple_of(block as usize)];
    device.read_at(first, &mut blocks)?;
    into.copy_from_slice(&blocks[within..][..into.len()]);
    Ok(())
}

/// Reads all blocks that `bytes` covers in part or as a whole, replaces the covered bytes, and
/// writes the blocks back.
fn rewrite(device: &(impl BlockDevice + ?Sized), offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
    let block = u64::from(device.block_bytes());
    let (first, within) = (offset - offset % block, (offset % block) as usize);
    let mut blocks = vec![0; (within + bytes.len()).next_multiple_of(block as usize)];
    device.read_at(first, &mut blocks)?;
    blocks[within..within + bytes.len()].copy_from_slice(bytes);
    device.write_at(first, &blocks, stream)
}
