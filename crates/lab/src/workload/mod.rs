//! The workloads by name, with their operations, keys and values.
//!
//! | module | contents |
//! |---|---|
//! | `db_bench` `deletes` `ycsb` `forestdb` `mixgraph` `chainstate` `bare` | the workloads |
//! | `stage` | the interface to one measured part of a workload |
//! | `ops` | single operations, which the driver performs, checks and counts |
//! | `store` `model` | expected contents of the store |
//! | `keys` `values` `rng` `zipf` | keys, values and random numbers |
//!
//! A workload has one or more stages. Each stage is measured separately and has its own row in the
//! results. The same seed gives the same operations for every engine.
pub mod bare;
pub mod chainstate;
#[cfg(test)]
pub(crate) mod chi_square;
pub mod db_bench;
pub mod deletes;
pub mod forestdb;
pub mod keys;
pub mod mixgraph;
pub mod model;
pub mod ops;
pub mod rng;
mod stage;
pub mod store;
mod update;
pub mod values;
pub mod ycsb;
pub mod zipf;

pub use stage::{Job, Stage};

use crate::cell::CellSpec;
use anyhow::{Result, bail, ensure};

/// Returns the name and the description of every workload. A name that ends with a colon must be
/// followed by a number.
pub fn list() -> Vec<(&'static str, &'static str)> {
    let bench = db_bench::LIST.iter().map(|bench| (bench.name, bench.help));
    let others = forestdb::LIST.into_iter().chain(mixgraph::LIST).chain(chainstate::LIST).chain(bare::LIST);
    bench.chain(deletes::LIST).chain(ycsb::LIST).chain(others).collect()
}

/// Returns the stages of the workload called `name`. For an unknown name, the error lists the
/// existing names.
pub fn stages(name: &str) -> Result<Vec<Box<dyn Stage>>> {
    if let Some(bench) = db_bench::LIST.iter().find(|bench| bench.name == name) {
        return Ok(vec![Box::new(bench)]);
    }
    if let Some(stages) = deletes::stages(name)? {
        return Ok(stages);
    }
    if let Some(stage) = ycsb::stage(name)? {
        return Ok(vec![Box::new(stage)]);
    }
    if let Some(stage) = forestdb::stage(name)? {
        return Ok(vec![Box::new(stage)]);
    }
    if let Some(stage) = mixgraph::stage(name) {
        return Ok(vec![Box::new(stage)]);
    }
    if let Some(stage) = chainstate::stage(name) {
        return Ok(vec![Box::new(stage)]);
    }
    if let Some(stage) = bare::stage(name) {
        return Ok(vec![Box::new(stage)]);
    }
    let names: Vec<_> = list().into_iter().map(|(name, _)| name).collect();
    bail!("unknown workload {name:?}; the workloads are {}", names.join(", "))
}

/// Returns the names of the rows that `workloads` produce, in order.
pub fn rows(workloads: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for workload in workloads {
        names.extend(stages(workload)?.iter().map(|stage| stage.name()));
    }
    Ok(names)
}

/// Minimum memory limit of a cell in bytes. No engine works with less memory.
const MEMORY_MIN: u64 = 16 << 20;

/// Checks that every workload can run with the parameters of `spec`, so that an invalid cell is
/// rejected before a store is opened.
pub fn validate(spec: &CellSpec) -> Result<()> {
    ensure!(!spec.workloads.is_empty(), "no workload given");
    ensure!(spec.num > 0 && spec.threads > 0 && spec.batch > 0, "num, threads and batch must be at least 1");
    let pending = (spec.threads + 1).saturating_mul(spec.batch.max(db_bench::FILLBATCH));
    ensure!(pending <= model::PENDING_MAX, "threads × batch is too large: the maximum is {}", model::PENDING_MAX);
    ensure!(spec.value_size <= 1 << 30, "values of {} bytes: the maximum is 1 GiB", spec.value_size);
    let ratio = spec.compression_ratio;
    ensure!(ratio > 0.0 && ratio <= 1.0, "compression ratio {ratio}: must be above 0 and at most 1");
    keys::Keys::decimal(spec.key_size, spec.num)?;
    let mut limited = false;
    for workload in &spec.workloads {
        limited |= stages(workload)?.iter().any(|stage| stage.only_reads());
    }
    ensure!(spec.memory.is_none() || limited, "a memory limit needs a workload that only reads");
    ensure!(spec.memory.is_none_or(|memory| memory >= MEMORY_MIN), "memory: the minimum is {MEMORY_MIN} bytes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_accepted_and_unknown_ones_are_refused() {
        for (name, help) in list() {
            let name = if name.ends_with(':') { format!("{name}30") } else { name.into() };
            assert!(!stages(&name).unwrap().is_empty() && !help.is_empty(), "{name}");
        }
        let error = stages("fillrandum").err().unwrap().to_string();
        assert!(error.contains("fillrandum") && error.contains("fillrandom") && error.contains("ycsb-a"), "{error}");
    }

    #[test]
    fn impossible_specs_are_refused_by_name() {
        let spec = CellSpec { workloads: vec!["fillseq".into()], ..CellSpec::default() };
        validate(&spec).unwrap();
        for (bad, word) in [
            (CellSpec { workloads: vec![], ..spec.clone() }, "workload"),
            (CellSpec { num: 0, ..spec.clone() }, "num"),
            (CellSpec { key_size: 3, ..spec.clone() }, "key size 3"),
            (CellSpec { threads: 100_000, ..spec.clone() }, "threads"),
            (CellSpec { compression_ratio: 0.0, ..spec.clone() }, "ratio"),
            (CellSpec { memory: Some(1 << 30), ..spec.clone() }, "only reads"),
            (CellSpec { memory: Some(1), workloads: vec!["readseq".into()], ..spec.clone() }, "the minimum"),
        ] {
            let text = validate(&bad).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
