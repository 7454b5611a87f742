//! Tests that the benchmark driver itself allocates no memory per operation. `cargo xtask counts`
//! measures the driver's instructions.
#[path = "../../../engine/tests/it/common/alone.rs"]
mod alone;
#[path = "../../../engine/tests/it/common/counting.rs"]
mod counting;

use terrace_lab::{
    cell::CellSpec,
    engines::null::Null,
    workload::{self, Job, store::Store},
};

/// Returns how many allocations one stage makes with an engine that does nothing.
fn allocations(name: &str, num: u64, histogram: bool) -> u64 {
    let spec = CellSpec { num, histogram, ..CellSpec::default() };
    let mut store = Store::at(&Null { on_device: false }, &spec).expect("the sizes fit");
    store.open().expect("it opens nothing");
    let stage = &workload::stages(name).expect("it is listed")[0];
    let job = Job::new(&spec, name, 0);
    let before = counting::of_process();
    stage.run(&mut store, &job, &mut |_| ()).expect("it does nothing");
    counting::of_process() - before
}

#[test]
fn an_operation_allocates_nothing() {
    alone::in_own_process(|| {
        for name in ["fillseq", "fillrandom", "deleterandom", "readmissing"] {
            for histogram in [false, true] {
                let (few, many) = (allocations(name, 1000, histogram), allocations(name, 101_000, histogram));
                // Threads of the test harness may allocate memory, too. The 100,000 additional
                // operations would cause many more allocations.
                assert!(many < few + 100, "{name}: {few} allocations, then {many}");
            }
        }
    });
}
