//! What the node of a block device can do and no safe library offers: a discard, and a flush of some bytes without the others.
//!
//! The kernel keeps in pages what is written to a node, and `fdatasync` writes all of them, whatever they are for. Only `msync` asks for a
//! part: of a node it writes the pages of that part, waits for them, and has the drive empty its cache.
#![allow(unsafe_code)]
use nix::{
    errno::Errno,
    libc::{self, off_t},
    sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap},
};
use std::{ffi::c_void, fs::File, io, num::NonZeroUsize, ops::Range, os::fd::AsRawFd, ptr::NonNull};

nix::ioctl_write_ptr_bad!(blkdiscard, 0x1277, [u64; 2]); // BLKDISCARD of linux/fs.h: offset and length

/// Says that nobody will read `len` bytes of the device again; pages of them that wait to be written are dropped. No write: punching a hole,
/// which is one too, has a drive write zeros, or what counts as such.
pub fn discard(node: &File, offset: u64, len: u64) -> io::Result<()> {
    // SAFETY: the kernel reads two numbers, which live until the call returns; the descriptor is open.
    Ok(unsafe { blkdiscard(node.as_raw_fd(), &[offset, len]) }.map(drop)?)
}

/// All of a device, as addresses that nobody may touch: they only say which part is meant.
pub struct Whole {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
    page: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread, and allows no access.
unsafe impl Send for Whole {}
// SAFETY: as above.
unsafe impl Sync for Whole {}

impl Whole {
    /// Of the device `node`, which has `bytes`.
    pub fn map(node: &File, bytes: u64) -> io::Result<Whole> {
        let bytes = usize::try_from(bytes).ok().and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: takes and gives a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced. No access is allowed to any byte, and `self` unmaps it.
        let start = unsafe { mmap(None, bytes, ProtFlags::PROT_NONE, MapFlags::MAP_SHARED, node, 0) }?;
        Ok(Whole { start, bytes, page })
    }

    /// Makes what was written to `ranges`, which lie within the device, durable. `node` is the one that it is of.
    pub fn flush(&self, node: &File, ranges: &[Range<u64>]) -> io::Result<()> {
        let (all, first_page) = (self.bytes.get() as u64, 0..self.page);
        let mut ranges: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
        let last = ranges.pop().unwrap_or(&first_page); // any part will do where only the drive has something to do
        let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        ranges.iter().try_for_each(|range| write_back(node, range, libc::SYNC_FILE_RANGE_WRITE))?;
        ranges.iter().try_for_each(|range| write_back(node, range, wait))?;
        let (from, end) = (last.start - last.start % self.page, last.end.min(all));
        assert!(from < end, "{last:?} is no part of a device of {all} bytes");
        // SAFETY: `from` is less than `self.bytes`, so the address is within the mapping, as is its end. No byte of ours is read or changed.
        Ok(unsafe { msync(self.start.byte_add(from as usize), (end - from) as usize, MsFlags::MS_SYNC) }?)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, mapped by `map` and by nobody else, and no address in it is ever given away.
        let _ = unsafe { munmap(self.start, self.bytes.get()) }; // fails only for ranges that were never mapped
    }
}

/// Begins to write pages of `range`, and waits for them if `how` says so. Does not make the drive empty its cache.
fn write_back(node: &File, range: &Range<u64>, how: libc::c_uint) -> io::Result<()> {
    let number = |number: u64| off_t::try_from(number).map_err(|_| io::Error::from(Errno::EFBIG));
    let (offset, len) = (number(range.start)?, number(range.end - range.start)?);
    loop {
        // SAFETY: takes a descriptor, which is open as long as `node` lives, and numbers; touches no memory of ours.
        match Errno::result(unsafe { libc::sync_file_range(node.as_raw_fd(), offset, len, how) }) {
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}
