//! Benchmarks and crash tests for Terrace and its peers (other engines): workloads, cost ledger,
//! runs and reports.
//!
//! | module | contents |
//! |---|---|
//! | `target` | the interface to an engine |
//! | `engines` | Terrace's presets, and fakes with known costs |
//! | `workload` | operations, keys and values |
//! | `cell` | the work of one child process: one engine in one round |
//! | `ledger` | bytes, syncs and resources at each layer below the user |
//! | `device` | the device under a store while it is measured |
//! | `crash` | crash tests |
//! | `plan` | the order of cells, resumption, repetition of disturbed rounds |
//! | `report` | medians, intervals, tables |
//! | `experiment` | questions, sizes and expectations |
//! | `study` | experiments: runs, verdicts and reports |
#![forbid(unsafe_code)]

pub mod cell;
pub mod crash;
pub mod device;
pub mod engines;
pub mod experiment;
pub mod ledger;
pub mod machine;
pub mod measure;
pub mod plan;
pub mod report;
pub mod study;
pub mod target;
pub mod workload;
