//! The driver's own cost: no allocation for an operation, and a time that can be told from an engine's.
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_lab::{
    cell::{CellSpec, driver_cost},
    engines::null::Null,
    workload::{self, Job, store::Store},
};

/// Counts what it hands out.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Allocations are counted for the whole process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call goes to the system's allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of one stage over an engine that does nothing.
fn allocations(name: &str, num: u64, histogram: bool) -> u64 {
    let spec = CellSpec { num, histogram, ..CellSpec::default() };
    let mut store = Store::at(&Null, &spec).expect("the sizes fit");
    store.open().expect("it opens nothing");
    let stage = &workload::stages(name).expect("it is listed")[0];
    let job = Job::new(&spec, name, 0);
    let before = ALLOCATIONS.load(Relaxed);
    stage.run(&mut store, &job, &mut |_| ()).expect("it does nothing");
    ALLOCATIONS.load(Relaxed) - before
}

#[test]
fn an_operation_allocates_nothing() {
    let _alone = ALONE.lock();
    for name in ["fillseq", "fillrandom", "deleterandom", "readmissing"] {
        for histogram in [false, true] {
            let (few, many) = (allocations(name, 1000, histogram), allocations(name, 101_000, histogram));
            // threads of the harness may allocate beside; 100,000 operations would be seen
            assert!(many < few + 100, "{name}: {few} allocations, then {many}");
        }
    }
}

/// Timing, so only by `cargo test --release -p terrace-lab --test driver -- --ignored --nocapture`.
#[test]
#[ignore = "a figure of this machine; in release mode"]
fn the_driver_costs_little() {
    let _alone = ALONE.lock();
    let cost = driver_cost(&CellSpec::default()).expect("db_bench's own numbers can be carried out");
    println!("{cost:?}");
    assert!(cost.ns_per_op <= 150.0 * 2.0, "0.15 µs is the aim; twice that even on a busy machine: {cost:?}");
}
