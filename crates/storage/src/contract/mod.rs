//! The conformance suite of [`Storage`](crate::placement::Storage): every backend passes these
//! cases.
//!
//! [`run`] takes a function that makes a new empty store location each time; a case may open its
//! location repeatedly. A violated contract panics. Power cuts are not covered here; `terrace-sim`
//! simulates them.
//!
//! ```
//! use std::sync::Arc;
//! use terrace_storage::{Memory, contract, durability::SyncTracker};
//!
//! contract::run(&|| contract::on_files(Arc::new(Memory::new()), Arc::new(SyncTracker)));
//! ```
use kit::Fixture;

mod kit;
mod logs;
mod places;
mod tables;

pub use kit::{Opener, on_files, on_files_of};

/// Runs every case, each in a new location made by `fresh`.
pub fn run(fresh: &dyn Fn() -> Opener) {
    for case in logs::CASES.iter().chain(tables::CASES).chain(places::CASES) {
        case(&Fixture(fresh()));
    }
}
