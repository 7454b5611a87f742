//! A global allocator that counts allocations per thread and per process. Every program that
//! includes this file uses this allocator.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static OF_PROCESS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Returns the count of allocations that this thread has made so far.
pub fn of_thread() -> u64 {
    OF_THREAD.get()
}

/// Returns the count of allocations that all threads have made so far.
pub fn of_process() -> u64 {
    OF_PROCESS.load(Relaxed)
}

/// Returns the number of bytes that the process has allocated and not freed.
pub fn live_bytes() -> usize {
    LIVE_BYTES.load(Relaxed)
}

/// Returns the highest value of [`live_bytes`] so far.
pub fn peak_bytes() -> usize {
    PEAK_BYTES.load(Relaxed)
}

/// Counts one allocation of `more` bytes. The thread-local counters have no destructor, so
/// counting does not allocate.
fn count(more: usize) {
    OF_PROCESS.fetch_add(1, Relaxed);
    OF_THREAD.set(OF_THREAD.get() + 1);
    let live = LIVE_BYTES.fetch_add(more, Relaxed).wrapping_add(more);
    PEAK_BYTES.fetch_max(live, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged. The count allocates nothing and
// cannot unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfils the contract of `alloc`, which is the same for `System`.
        unsafe { System.alloc(layout) }
    }

    // The default implementation writes the zeros, so all pages become resident.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfils the contract of `alloc_zeroed`, which is the same for
        // `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: by the caller's contract, `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.wrapping_sub(layout.size()));
        // SAFETY: `pointer` came from `System` with this layout, and the caller fulfils the
        // contract of `realloc` for `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
