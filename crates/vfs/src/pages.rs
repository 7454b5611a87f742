//! Memory that is allocated from the kernel in whole pages, and returned to the kernel when it is
//! dropped.
//!
//! The allocator of the C library would be worse, because it rarely returns memory to the kernel:
//! after a large block was freed, it takes all later blocks up to that size from heaps that rarely
//! shrink. Measured example: a store that fills and drops memtables of 8 MiB occupies 56 MiB with
//! the allocator of the C library, although it uses only 25 MiB.
#![allow(unsafe_code)]
use std::{io, num::NonZeroUsize, ptr::NonNull};

/// Private memory that is initially zero. The kernel allocates each page at the first write to it.
pub struct Pages {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread; its contents are synchronised by
// its user.
unsafe impl Send for Pages {}
// SAFETY: a shared reference to this type returns an address but gives no access to the memory.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates at least `bytes` bytes, aligned to a page.
    pub fn new(bytes: NonZeroUsize) -> io::Result<Pages> {
        let start = allocate(bytes)?;
        Ok(Pages { start, bytes })
    }

    /// Returns the number of bytes that were requested.
    pub fn bytes(&self) -> NonZeroUsize {
        self.bytes
    }

    /// Overwrites the memory in builds with debug assertions, so that tests notice a use after this
    /// call.
    pub fn spoil(&mut self) {
        if cfg!(debug_assertions) {
            // SAFETY: the range is exactly this mapping, which is writable. `&mut self` excludes
            // other users.
            unsafe { self.start.as_ptr().write_bytes(0xDB, self.bytes.get()) };
        }
    }

    /// Returns the address of the first byte, which is valid until this value is dropped.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` allocated exactly this memory. As with any freed memory, no address in it
        // may be used afterwards.
        unsafe { free(self.start, self.bytes) };
    }
}

/// Allocates whole pages of zeros from the kernel.
#[cfg(unix)]
fn allocate(bytes: NonZeroUsize) -> io::Result<NonNull<u8>> {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: the kernel chooses the address, so no memory in use is replaced.
    Ok(unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE) }?.cast())
}

/// Returns memory to the kernel.
///
/// # Safety
/// [`allocate`] must have returned `start` for `bytes`, and the memory must not be used any more.
#[cfg(unix)]
unsafe fn free(start: NonNull<u8>, bytes: NonZeroUsize) {
    // SAFETY: by the contract of this function. The call fails only for ranges that were never
    // mapped.
    let _ = unsafe { nix::sys::mman::munmap(start.cast(), bytes.get()) };
}

/// The layout of `bytes` bytes in whole pages. Windows' heap takes large blocks from the
/// kernel, page by page, and returns them when they are freed.
#[cfg(windows)]
fn layout(bytes: NonZeroUsize) -> io::Result<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(bytes.get(), 4096).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Allocates zeros from the heap, aligned to a page.
#[cfg(windows)]
fn allocate(bytes: NonZeroUsize) -> io::Result<NonNull<u8>> {
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)?) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Returns memory to the heap.
///
/// # Safety
/// [`allocate`] must have returned `start` for `bytes`, and the memory must not be used any more.
#[cfg(windows)]
unsafe fn free(start: NonNull<u8>, bytes: NonZeroUsize) {
    if let Ok(layout) = layout(bytes) {
        // SAFETY: by the contract of this function; the layout is that of the allocation.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_as_zeros_and_do_not_overlap() {
        const BYTES: NonZeroUsize = NonZeroUsize::new(300_001).unwrap(); // not whole pages
        let pages: Vec<Pages> = (0..4).map(|_| Pages::new(BYTES).unwrap()).collect();
        // SAFETY: the range lies within one mapping, which only this test uses and which outlives
        // the slice.
        let slice = |pages: &Pages| unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), BYTES.get()) };
        for (number, pages) in (1..).zip(&pages) {
            assert!(pages.start().as_ptr().addr().is_multiple_of(4096));
            assert!(slice(pages).iter().all(|byte| *byte == 0));
            slice(pages).fill(number);
        }
        assert!((1..).zip(&pages).all(|(number, pages)| slice(pages).iter().all(|byte| *byte == number)));
    }
}
