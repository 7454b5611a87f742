//! Tests that the shares of operations, scans and keys in a workload are those that the workload's
//! authors published. The chi-square statistic decides whether a difference can be chance.
use crate::common;
use common::{Operations, operations};
use terrace_lab::cell::CellSpec;

const OPS: u64 = 50_000;

/// Returns the chi-square statistic of counts. Each count is paired with the expected count.
fn chi_square(pairs: impl IntoIterator<Item = (u64, f64)>) -> f64 {
    pairs.into_iter().map(|(count, expected)| (count as f64 - expected).powi(2) / expected).sum()
}

/// Runs `workloads` in order and returns the recorded operations of the last one.
fn last(num: u64, workloads: &[&str]) -> Operations {
    let spec = CellSpec { num, reads: Some(OPS), ..CellSpec::default() };
    operations(spec, workloads).pop().expect("there is one")
}

/// Tests the shares of operations against the published ones. Those of YCSB are in its package,
/// those of mixgraph in section 6 of its paper (FAST 2020). A read-modify-write is counted only as
/// a put.
#[test]
fn operations_have_their_published_shares() {
    for (load, name, [gets, puts, scans]) in [
        ("ycsb-load", "ycsb-a", [0.5, 0.5, 0.0]),
        ("ycsb-load", "ycsb-b", [0.95, 0.05, 0.0]),
        ("ycsb-load", "ycsb-c", [1.0, 0.0, 0.0]),
        ("ycsb-load", "ycsb-d", [0.95, 0.05, 0.0]),
        ("ycsb-load", "ycsb-e", [0.0, 0.05, 0.95]),
        ("ycsb-load", "ycsb-f", [0.5, 0.5, 0.0]),
        ("ycsb-load", "ycsb-write:80", [0.2, 0.8, 0.0]),
        ("ycsb-load", "ycsb-write-uniform:40", [0.6, 0.4, 0.0]),
        ("mixgraph-load", "mixgraph", [0.85, 0.14, 0.01]),
    ] {
        let operations = last(5000, &[load, name]);
        let gets_of_puts = if name == "ycsb-f" { operations.puts } else { 0 };
        let counts =
            [operations.gets.values().sum::<u64>() - gets_of_puts, operations.puts, operations.scans.len() as u64];
        assert_eq!(counts.iter().sum::<u64>(), OPS, "{name}: {counts:?}");
        let shares = [gets, puts, scans];
        let never = counts.iter().zip(shares).filter(|(_, share)| *share == 0.0);
        assert_eq!(never.map(|(count, _)| count).sum::<u64>(), 0, "{name}: {counts:?}");
        let pairs = counts.into_iter().zip(shares).filter(|(_, share)| *share > 0.0);
        let chi = chi_square(pairs.map(|(count, share)| (count, share * OPS as f64)));
        // The chi-square statistic has at most two degrees of freedom. One statistic in a million
        // exceeds 27.6.
        assert!(chi < 27.6, "{name}: {chi}, {counts:?}");
        assert_eq!(operations.deletes, 0, "{name}");
    }
}

#[test]
fn scan_lengths_of_ycsb_are_uniform_from_1_to_100() {
    let operations = last(50_000, &["ycsb-load", "ycsb-e"]);
    let mut counts = [0u64; 100];
    operations.scans.iter().for_each(|pairs| counts[*pairs as usize - 1] += 1);
    let expected = operations.scans.len() as f64 / 100.0;
    // The chi-square statistic has 99 degrees of freedom, so its standard deviation is 14.1. The
    // bound is five deviations above the mean. About one scan in a thousand starts near the last
    // record and is shorter than its drawn length.
    let chi = chi_square(counts.map(|count| (count, expected)));
    assert!(chi < 169.5, "{chi}: {counts:?}");
}

/// Tests that `readrandom` reads all keys with equal probability.
#[test]
fn keys_of_db_bench_are_read_uniformly() {
    let operations = last(1000, &["fillseq", "readrandom"]);
    assert_eq!(operations.gets.values().sum::<u64>(), OPS);
    let expected = OPS as f64 / 1000.0;
    let never = (1000 - operations.gets.len() as u64) as f64 * expected;
    let chi = chi_square(operations.gets.values().map(|count| (*count, expected))) + never;
    // The chi-square statistic has 999 degrees of freedom, so its standard deviation is 44.7. The
    // bounds are five deviations from the mean.
    assert!((775.0..1223.0).contains(&chi), "{chi}");
}
