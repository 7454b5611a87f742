//! Tests that the same seed yields the same workload operations, for every engine and in every
//! version of Terrace.
use crate::common;
use common::operations;
use terrace_lab::{cell::CellSpec, workload::ycsb::Update};

/// Runs the workloads and returns a checksum for each stage, over all operations of the stage.
fn checksums(seed: u64, workloads: &[&str]) -> Vec<u64> {
    operations(CellSpec { num: 2000, seed, ..CellSpec::default() }, workloads)
        .into_iter()
        .map(|stage| stage.sum)
        .collect()
}

#[test]
fn operations_are_frozen() {
    let workloads = [
        "fillseq",
        "fillrandom",
        "overwrite",
        "fillbatch",
        "readrandom",
        "readmissing",
        "readhot",
        "seekrandom",
        "deleterandom",
        "write-delete-write:30",
        "ycsb-load",
        "ycsb-a",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "ycsb-write:80",
        "ycsb-write-uniform:80",
        "forestdb-load",
        "forestdb-update:16",
        "forestdb-read",
        "mixgraph-load",
        "mixgraph",
        "chainstate-load",
        "chainstate",
    ];
    let sums = checksums(1, &workloads);
    assert_eq!(sums, checksums(1, &workloads));
    let other = checksums(2, &workloads);
    for (name, (sum, other)) in workloads.iter().zip(sums.iter().zip(&other)) {
        assert_ne!(sum, other, "{name} does not depend on the seed");
    }
    // Each stage has one checksum. `fillbatch` and `fillseq` have equal checksums, because they
    // have the same operations.
    let frozen: [u64; 26] = [
        12996551020806265073,
        14604687796308256605,
        11795907030924892014,
        12996551020806265073,
        1834497033394104668,
        8305281860467668964,
        14846135349452184825,
        3756892432620755947,
        9855543859183043507,
        11754852756638254883,
        1733580542596622268,
        6899957849913321207,
        9476962742095952489,
        4033794766719304431,
        9750279106032639148,
        3778035974912702346,
        8850508517196442920,
        11797584024448086241,
        9644265455717515687,
        12336199820576237845,
        15304082240965947607,
        13334158367667888827,
        17420778733760717755,
        3850991744805600962,
        8379615131341010920,
        785554269758647679,
    ];
    assert_eq!(sums, frozen);
}

/// Tests the operations that `operations_are_frozen` lacks: synced writes and large values (a
/// thousandth of `num`), updates with a merge, and reads of the whole store.
#[test]
fn rarer_operations_are_frozen() {
    let workloads = ["fill100K", "fillsync", "ycsb-load", "ycsb-b", "ycsb-c", "write-delete-read:30", "deleteseq"];
    let sums = checksums(1, &workloads);
    assert_eq!(sums, checksums(1, &workloads));
    let frozen: [u64; 9] = [
        6497691987867871406,
        7953899885260166139,
        9476962742095952489,
        9380081721966834325,
        17135216380118380480,
        6215396184949583796,
        673527648316700827,
        691029303918515356,
        16907106239710854525,
    ];
    assert_eq!(sums, frozen);
    let merging = CellSpec { num: 2000, ycsb_update: Update::Merge, ..CellSpec::default() };
    let merged = operations(merging, &["ycsb-load", "ycsb-a", "ycsb-f"]);
    assert_eq!(
        merged.iter().map(|stage| stage.sum).collect::<Vec<_>>(),
        [9476962742095952489, 16384390879021319271, 10844429444591190155]
    );
    assert_eq!(merged[1].gets.values().sum::<u64>(), 2000, "an update reads what it merges into");
    let in_order = operations(CellSpec { num: 2000, ..CellSpec::default() }, &["fillseq", "readseq", "readreverse"]);
    assert_eq!(in_order.iter().map(|stage| stage.scans.clone()).collect::<Vec<_>>(), [vec![], vec![2000], vec![2000]]);
}
