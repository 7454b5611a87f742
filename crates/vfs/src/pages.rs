//! Memory from the kernel, page by page, that goes back to it at once when it is dropped.
//!
//! The C library's allocator keeps what large blocks leave behind: once one has been freed, it takes all later ones up to
//! that size from heaps that hardly ever shrink. A store that fills and drops memtables of 8 MiB held 56 MiB that way where
//! it used 25 MiB.
#![allow(unsafe_code)]
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::{ffi::c_void, io, num::NonZeroUsize, ptr::NonNull};

/// Private memory, zeros at first. Its pages take room when they are first written.
pub struct Pages {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread; what is in it is its user's business.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared reference gives an address and no access.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes`, page-aligned.
    pub fn new(bytes: NonZeroUsize) -> io::Result<Pages> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced; `self` unmaps it.
        let start = unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE) }?;
        Ok(Pages { start, bytes })
    }

    /// How much was asked for.
    pub fn bytes(&self) -> NonZeroUsize {
        self.bytes
    }

    /// Whoever still looks at what was there is to see nonsense, in builds with debug assertions.
    pub fn spoil(&mut self) {
        if cfg!(debug_assertions) {
            // SAFETY: the range is this mapping, writable, and `&mut self` says that nobody uses it.
            unsafe { self.start.cast::<u8>().as_ptr().write_bytes(0xDB, self.bytes.get()) };
        }
    }

    /// Where they are, until they are dropped.
    pub fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, mapped by `new` and by nobody else. Who holds an address in it may not use it
        // any more, as with any memory that is freed.
        let _ = unsafe { munmap(self.start, self.bytes.get()) }; // fails only for ranges that were never mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_zero_and_stays_as_it_was_written_beside_other_pages() {
        const BYTES: NonZeroUsize = NonZeroUsize::new(300_001).unwrap(); // not whole pages
        let pages: Vec<Pages> = (0..4).map(|_| Pages::new(BYTES).unwrap()).collect();
        // SAFETY: the range lies within one mapping, which nobody else knows and which outlives the slice.
        let slice = |pages: &Pages| unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), BYTES.get()) };
        for (number, pages) in (1..).zip(&pages) {
            assert!(pages.start().as_ptr().addr().is_multiple_of(4096));
            assert!(slice(pages).iter().all(|byte| *byte == 0));
            slice(pages).fill(number);
        }
        assert!((1..).zip(&pages).all(|(number, pages)| slice(pages).iter().all(|byte| *byte == number)));
    }
}
