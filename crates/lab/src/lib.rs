//! What did it cost? Workloads, ledger, runs and reports, for Terrace and its peers alike.
//!
//! | module | question |
//! |---|---|
//! | `target` | what is asked of an engine? |
//! | `engines` | Terrace's presets, and fakes with known costs |
//! | `workload` | which operations, on which keys and values? |
//! | `cell` | one engine, one round: what one child process does and reports |
//! | `ledger` | what was written, synced, used, at each layer below the user? |
//! | `device` | where does a store live while it is measured? |
//! | `crash` | what is left after a power cut? |
//! | `plan` | which cell when; resuming; disturbed rounds |
//! | `report` | medians, intervals, tables |
//! | `experiment` | what is asked, at which size, and what should come out? |
//! | `study` | experiments carried out, judged and shown |
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
