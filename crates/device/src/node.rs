//! Operations of block devices for which no safe wrapper exists: discards, and flushes of a range.
//!
//! The kernel caches writes to a block device in pages, and `fdatasync` writes all dirty pages.
//! Only `msync` can flush a range: it writes the pages of the range, waits for them, and flushes
//! the drive's cache.
#![allow(unsafe_code)]
use nix::{
    errno::Errno,
    libc::{self, off_t},
    sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap},
};
use std::{ffi::c_void, fs::File, io, num::NonZeroUsize, ops::Range, os::fd::AsRawFd, ptr::NonNull};

// Number of the ioctl BLKDISCARD (linux/fs.h). Its argument is an offset and a length.
nix::ioctl_write_ptr_bad!(blkdiscard, 0x1277, [u64; 2]);

/// Discards `len` bytes of the device and drops the dirty cached pages in the range. A discard
/// writes nothing to the drive. Punching a hole with `fallocate` would make the drive write zeros
/// or an equivalent.
pub fn discard(node: &File, offset: u64, len: u64) -> io::Result<()> {
    // SAFETY: the kernel reads two numbers, which live until the call returns; the descriptor is
    // open.
    Ok(unsafe { blkdiscard(node.as_raw_fd(), &[offset, len]) }.map(drop)?)
}

/// A mapping of a whole device without access rights. The process never accesses the memory. It
/// passes the addresses to `msync`, which flushes the corresponding range of the device.
pub struct Whole {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
    page: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread, and allows no access.
unsafe impl Send for Whole {}
// SAFETY: the mapping belongs to the process, not to a thread, and allows no access.
unsafe impl Sync for Whole {}

impl Whole {
    /// Maps `node`, which has `bytes` bytes.
    pub fn map(node: &File, bytes: u64) -> io::Result<Whole> {
        let bytes = usize::try_from(bytes).ok().and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the call takes and returns a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced. The mapping
        // allows no access, and `self` unmaps it.
        let start = unsafe { mmap(None, bytes, ProtFlags::PROT_NONE, MapFlags::MAP_SHARED, node, 0) }?;
        Ok(Whole { start, bytes, page })
    }

    /// Makes completed writes to `ranges`, which lie within the device, durable. `node` must be
    /// the mapped device.
    pub fn flush(&self, node: &File, ranges: &[Range<u64>]) -> io::Result<()> {
        let (all, first_page) = (self.bytes.get() as u64, 0..self.page);
        let mut ranges: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
        // The flush of any range also flushes the drive's cache. Therefore, if `ranges` is empty,
        // flushing the first page is enough.
        let last = ranges.pop().unwrap_or(&first_page);
        let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        ranges.iter().try_for_each(|range| write_back(node, range, libc::SYNC_FILE_RANGE_WRITE))?;
        ranges.iter().try_for_each(|range| write_back(node, range, wait))?;
        let (from, end) = (last.start - last.start % self.page, last.end.min(all));
        assert!(from < end, "{last:?} is no part of a device of {all} bytes");
        // SAFETY: `from` is less than `self.bytes`, so the range lies within the mapping. No
        // byte of this process is read or changed.
        Ok(unsafe { msync(self.start.byte_add(from as usize), (end - from) as usize, MsFlags::MS_SYNC) }?)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: `map` created this mapping, and only this function unmaps it. No address of the
        // mapping is passed to callers. The call fails only for ranges that were never mapped.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

/// Starts to write the dirty pages of a range. Waits until they are written, if `how` requests it.
/// Does not flush the drive's cache.
fn write_back(node: &File, range: &Range<u64>, how: libc::c_uint) -> io::Result<()> {
    let number = |number: u64| off_t::try_from(number).map_err(|_| io::Error::from(Errno::EFBIG));
    let (offset, len) = (number(range.start)?, number(range.end - range.start)?);
    loop {
        // SAFETY: the call takes numbers and a descriptor, which is open as long as `node` lives.
        // It accesses no memory of this process.
        match Errno::result(unsafe { libc::sync_file_range(node.as_raw_fd(), offset, len, how) }) {
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}
