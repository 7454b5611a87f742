//! A write by itself allocates nothing but the memory of the memtable, block by block.
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};
use terrace::{Db, Options, WriteBatch, WriteOptions};

/// Counts what it hands out to this thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1)); // none while a thread ends
}

// SAFETY: every call goes to the system's allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread during `n` calls.
fn allocations(n: u64, mut call: impl FnMut(u64)) -> u64 {
    let before = ALLOCATIONS.get();
    (0..n).for_each(&mut call);
    ALLOCATIONS.get() - before
}

#[test]
fn a_lone_write_allocates_nothing_of_its_own() {
    const WRITES: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    for preset in ["leveldb", "terrace-block"] {
        let mut options = Options::preset(preset).unwrap();
        options.memtable_bytes = 1 << 30; // no flush meanwhile
        let db = Db::open(directory.path().join(preset), options).unwrap();
        db.put("the first", "write").unwrap();
        let value = [7; 100];
        let puts = allocations(WRITES, |n| db.put(n.wrapping_mul(0x9e37_79b9).to_be_bytes(), value).unwrap());
        let deletes = allocations(WRITES, |n| db.delete(n.to_be_bytes()).unwrap());
        // Blocks of the memtable: fewer than one for each 200 writes
        assert!(puts < WRITES / 200 && deletes < WRITES / 200, "{preset}: {puts} for puts, {deletes} for deletes");
        let batches = allocations(1000, |n| {
            let mut batch = WriteBatch::new();
            batch.put(n.to_be_bytes(), value).delete("another");
            db.write(batch, WriteOptions::default()).unwrap();
        });
        assert!(batches <= 4 * 1000, "{preset}: {batches} for 1000 batches, which grow as they are filled");
    }
}
