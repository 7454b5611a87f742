//! Measures the cost of the benchmark driver itself: the time to put a random key, with and
//! without latency recording, and the time to check a result. The engine of this measurement does
//! nothing. The measurement runs in the process of the cell (one engine in one round).
use super::{CellSpec, DriverCost};
use crate::{
    engines::null::Null,
    workload::{
        self, Job,
        ops::ExpectedScan,
        store::{Content, Store},
    },
};
use anyhow::Result;
use std::{hint::black_box, time::Instant};

/// Maximum number of operations of one measurement. They take about 0.1 s.
const OPS_MAX: u64 = 1_000_000;
/// Number of entries in the measured scan. It is so small that the processor's cache contains all
/// of these entries. This is also true in a real scan, because the engine has just returned the
/// entries.
const PAIRS_MAX: u64 = 1000;
/// Number of repetitions of each measurement. The fastest repetition is the result, because
/// disturbances by other programs only add time.
const ROUNDS: usize = 3;

/// Measures the driver on one thread, with the keys and values of `spec`.
pub fn driver(spec: &CellSpec) -> Result<DriverCost> {
    let spec = CellSpec { threads: 1, batch: 1, num: spec.num.min(OPS_MAX), ..spec.clone() };
    Ok(DriverCost {
        ns_per_op: fill(&CellSpec { histogram: false, ..spec.clone() })?,
        ns_per_op_with_latency: fill(&CellSpec { histogram: true, ..spec.clone() })?,
        ns_per_check: check(&spec)?,
        ns_per_pair: pair(&spec)?,
        memory_bytes: 0,
    })
}

/// Returns the time of the driver per put of a random key, in ns.
fn fill(spec: &CellSpec) -> Result<f64> {
    let mut store = Store::at(&Null { on_device: false }, spec)?;
    store.open()?;
    let stage = &workload::stages("overwrite")?[0];
    let mut best = f64::INFINITY;
    for round in 0..ROUNDS {
        let job = Job::new(spec, "driver", round);
        stage.prepare(&mut store, &job)?;
        let outcome = stage.run(&mut store, &job, &mut |_| ())?;
        best = best.min(outcome.seconds * 1e9 / outcome.tally.ops as f64);
    }
    Ok(best)
}

/// Returns the time of the driver to check one correct result of a read, in ns.
fn check(spec: &CellSpec) -> Result<f64> {
    let content = Content::decimal(spec, spec.value_size)?;
    let mut rng = Job::new(spec, "check", 0).rng(0);
    let start = Instant::now();
    for _ in 0..spec.num {
        let number = rng.below(spec.num);
        let range = (content.model.floor(number) | 1, content.model.newest(number) | 1);
        black_box(content.values.check(number, range, Some(black_box(content.values.text(number, 1)))));
    }
    Ok(start.elapsed().as_nanos() as f64 / spec.num as f64)
}

/// Returns the time of the driver to check one entry of a scan, in ns.
fn pair(spec: &CellSpec) -> Result<f64> {
    let content = Content::decimal(spec, spec.value_size)?;
    let pairs: Vec<(Vec<u8>, &[u8])> = (0..spec.num.min(PAIRS_MAX))
        .map(|number| {
            let mut key = Vec::new();
            content.keys.write(number, &mut key);
            let change = content.model.begin(number, true);
            content.model.end(change);
            (key, content.values.text(number, change.generation))
        })
        .collect();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut expected = ExpectedScan::new(&content, None, false, Vec::new());
        let start = Instant::now();
        pairs.iter().try_for_each(|(key, value)| expected.check_next(black_box(key), black_box(value)))?;
        best = best.min(start.elapsed().as_nanos() as f64 / pairs.len() as f64);
    }
    Ok(best)
}
