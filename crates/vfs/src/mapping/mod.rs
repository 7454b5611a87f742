//! Reads of finished files: into uninitialised memory, and through a memory mapping.
//!
//! The standard library has no safe function for three operations: reading into uninitialised
//! memory, mapping a file, and prefetching mapped bytes into the processor's caches.
//!
//! A page of a mapping may be unreadable, because the device failed or because another process
//! truncated the file before the page. The kernel then sends the signal SIGBUS to the thread that
//! accesses the page. The handler in `sigbus.rs` increases the counter [`UNREADABLE`] and replaces
//! the page by zeros. [`Mapping::look`] discards its result if the counter has changed, so that
//! the caller reads the file by a system call, which returns the error of the device. See
//! docs/decisions/0048-mapped-reads-that-fail.md.
#![allow(unsafe_code)]
mod registry;
mod sigbus;

pub(crate) use registry::{Registration, WINDOWS};
pub(crate) use sigbus::watch;

use nix::libc;
use registry::{MAPPINGS, UNREADABLE, page_bytes};
use std::{
    fs::File,
    io::{self, ErrorKind},
    ops::Range,
    os::fd::AsRawFd,
    ptr,
    sync::atomic::{
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// Makes all present mappings of the process unused until their files are mapped again. Must be
/// called after a failed sync: the kernel may have dropped bytes that were never written, and a
/// mapping would then show other bytes than before.
pub(crate) fn distrust() {
    UNREADABLE.fetch_add(1, Release);
}

/// Passes on `result`, the result of a sync. If the sync failed, [distrusts](distrust) all
/// mappings.
pub(crate) fn checked<T, E>(result: Result<T, E>) -> Result<T, E> {
    if result.is_err() {
        distrust();
    }
    result
}

/// Reads `bytes` bytes of `file` from `offset`. Returns `UnexpectedEof` if the file ends earlier.
pub(crate) fn read_at(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer: Vec<u8> = Vec::with_capacity(bytes);
    while buffer.len() < bytes {
        let filled = buffer.len();
        let at = offset.checked_add(filled as u64).and_then(|at| libc::off_t::try_from(at).ok());
        let at = at.ok_or(ErrorKind::InvalidInput)?;
        let room = &mut buffer.spare_capacity_mut()[..bytes - filled];
        // SAFETY: `room` is unused capacity of the vector. The kernel writes at most `room.len()`
        // bytes into it and reads nothing from it.
        let read = unsafe { libc::pread(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), at) };
        match usize::try_from(read) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            // SAFETY: the kernel has initialised `read` bytes after the last one, at most the
            // length of `room`.
            Ok(read) => unsafe { buffer.set_len(filled + read) },
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(buffer)
}

/// A finished file in memory, for reads without system calls. A read of an unreadable page fails;
/// it does not end the process.
pub struct Mapping {
    at: *mut libc::c_void,
    bytes: usize,
    /// The value of [`UNREADABLE`] before the file was mapped. Once the counter has another value,
    /// any page of this mapping may have been replaced, so the mapping is not used any more.
    unreadable_before: u64,
    /// Removed from the registry before the pages are unmapped.
    registration: Option<Registration>,
}

// SAFETY: the pages belong to the process, not to a thread, and the pointer is used only to read
// them and to unmap them once.
unsafe impl Send for Mapping {}
// SAFETY: no method writes the pages, so several threads may read them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all bytes of `file`, which must be finished: nothing writes the file any more. Returns
    /// `None` for an empty file, which the kernel does not map, and if the mapping cannot be
    /// registered for the handler of SIGBUS. The first mapping of the process
    /// installs a handler for SIGBUS.
    pub(crate) fn of(file: &File) -> io::Result<Option<Mapping>> {
        if !watch() {
            return Ok(None);
        }
        let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::InvalidInput)?;
        if bytes == 0 {
            return Ok(None);
        }
        let unreadable_before = UNREADABLE.load(Acquire);
        // SAFETY: the kernel chooses a free address range, so no memory in use is replaced. The
        // pages of this range are only read.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was just mapped. The advice changes no byte. It stops the kernel from
        // reading pages ahead, because point lookups do not need them.
        unsafe { libc::madvise(at, bytes, libc::MADV_RANDOM) };
        let mapping = Mapping { at, bytes, unreadable_before, registration: MAPPINGS.register(at as usize, bytes) };
        // Without a registration an unreadable page would end the process.
        Ok(mapping.registration.is_some().then_some(mapping))
    }

    /// Returns the number of mapped bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Calls `work` with the bytes of the file at `range` and returns its result. Returns `None` if
    /// the file ends earlier or if a page is unreadable; the caller then reads the file by a system
    /// call. In this rare case `work` has seen zeros instead of the bytes of the file, so `work`
    /// must accept any bytes and must have no effect but its result.
    #[inline]
    pub fn look<T>(&self, range: Range<u64>, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if !self.is_trusted() {
            return None;
        }
        let result = work(self.bytes_at(range)?);
        // Orders the reads of `work` before the load of the counter.
        fence(Acquire);
        self.is_trusted().then_some(result)
    }

    /// Returns whether all pages of `range` are in memory, so that a read waits for no device.
    /// Ranges of more than 256 pages count as missing. The process must own the file or
    /// have the permission to write it; otherwise the kernel reports all pages as resident.
    pub fn is_resident(&self, range: Range<u64>) -> bool {
        let Some(bytes) = self.bytes_at(range) else { return false };
        let page = page_bytes();
        let start = bytes.as_ptr() as usize / page * page;
        let length = bytes.as_ptr() as usize + bytes.len() - start;
        if length > PAGES_MAX * page {
            return false;
        }
        let mut pages = [0_u8; PAGES_MAX];
        // SAFETY: the range is part of this mapping and begins at a page boundary. The kernel
        // writes one byte for each page, at most `PAGES_MAX`.
        let answer = unsafe { libc::mincore(start as *mut libc::c_void, length, pages.as_mut_ptr()) };
        answer == 0 && pages[..length.div_ceil(page)].iter().all(|page| page & 1 == 1)
    }

    /// Starts to load the bytes of the file at `range` into the processor's caches, if the
    /// architecture allows. Pages that are not in memory are skipped, and so are bytes after the
    /// first 8 KiB, which would evict others from the caches.
    #[inline]
    pub fn prefetch(&self, range: Range<u64>) {
        let range = range.start..range.end.min(range.start.saturating_add(PREFETCH_BYTES_MAX));
        let lines = self.bytes_at(range).unwrap_or_default().as_ptr_range();
        let mut line = lines.start;
        while line < lines.end {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has the prefetch instruction. The instruction changes
            // no program state and never faults.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(line.cast());
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every AArch64 processor has the prefetch instruction. The instruction never
            // faults, and it changes no register and no flag.
            unsafe {
                std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
            }
            line = line.wrapping_add(CACHE_LINE_BYTES);
        }
    }

    /// Returns whether the mapping may be used: since it was made, no page of any mapping was
    /// unreadable, and no sync has failed.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        UNREADABLE.load(Relaxed) == self.unreadable_before
    }

    fn bytes_at(&self, range: Range<u64>) -> Option<&[u8]> {
        // SAFETY: the pages stay mapped as long as `self` exists, and nothing writes the file. The
        // handler of SIGBUS may replace an unreadable page by zeros. The bytes of the page then
        // change while this reference exists, but only when a device fails in this moment, and
        // `look` discards the result of such a read. The closure of `look` decodes untrusted
        // bytes, with all accesses checked. This relies on the compiler not reading a
        // length again after its check, as every memory-mapped store does.
        let all = unsafe { std::slice::from_raw_parts(self.at.cast::<u8>(), self.bytes) };
        all.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.registration = None;
        // SAFETY: `of` mapped exactly this range, and every reference to it borrows this value.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

const CACHE_LINE_BYTES: usize = 64;
const PREFETCH_BYTES_MAX: u64 = 8 << 10;
/// Maximum number of pages that [`Mapping::is_resident`] checks.
const PAGES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn file_of(bytes: usize) -> (File, Vec<u8>) {
        let file = tempfile::tempfile().unwrap();
        let all: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        file.write_all_at(&all, 0).unwrap();
        (file, all)
    }

    #[test]
    fn reads_and_mappings_show_the_contents_of_the_file() {
        let (file, all) = file_of(10_000);
        let mapping = Mapping::of(&file).unwrap().unwrap();
        for (offset, bytes) in [(0, 0), (0, 1), (17, 4096), (0, 10_000), (9_999, 1)] {
            let wanted = &all[offset as usize..offset as usize + bytes];
            assert_eq!(read_at(&file, offset, bytes).unwrap(), wanted);
            assert_eq!(mapping.look(offset..offset + bytes as u64, <[u8]>::to_vec).as_deref(), Some(wanted));
        }
        assert!(mapping.is_resident(0..10_000) && !mapping.is_resident(0..10_001));
        assert_eq!(mapping.look(9_999..10_001, <[u8]>::to_vec), None);
        assert_eq!(read_at(&file, 9_999, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(read_at(&file, u64::MAX - 5, 2).is_err());
        assert!(Mapping::of(&tempfile::tempfile().unwrap()).unwrap().is_none());
    }

    const CHILD: &str = "TERRACE_TEST_DISTRUST";

    /// Not a test: a child process, because a failed sync concerns all mappings of a process.
    #[test]
    fn child_that_distrusts_its_mappings() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let (file, _) = file_of(10_000);
        let mapping = Mapping::of(&file).unwrap().unwrap();
        assert!(checked(Ok::<(), ()>(())).is_ok() && mapping.look(0..1, <[u8]>::len).is_some());
        assert!(checked(Err::<(), _>(ErrorKind::StorageFull)).is_err());
        assert!(mapping.look(0..1, <[u8]>::len).is_none());
        assert!(Mapping::of(&file).unwrap().unwrap().look(0..1, <[u8]>::len).is_some(), "a new mapping");
        println!("distrusted");
    }

    #[test]
    fn a_failed_sync_ends_the_use_of_mappings() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "mapping::tests::child_that_distrusts_its_mappings", "--nocapture"]).env(CHILD, "");
        let output = child.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("distrusted"), "{shown}");
    }
}
