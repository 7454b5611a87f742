//! The conformance suite of [`Storage`](crate::placement::Storage): every backend must pass these
//! cases.
//!
//! The argument of [`run`] is a function that returns a new empty store location at each call. A
//! case may open its location several times. A case panics if the backend violates the contract.
//! The suite does not test power cuts; `terrace-sim` simulates them.
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
