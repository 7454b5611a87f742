//! The suite that every backend passes: what [`placement`](crate::placement) says, as assertions.
//!
//! Give [`run`] something that makes a new empty place each time; each case opens its place as often as it likes.
//! It panics where the contract is broken. Power cuts are not its business: `terrace-sim` has those.
//!
//! ```
//! use std::sync::Arc;
//! use terrace_storage::{Memory, contract, durability::SyncTracker};
//!
//! contract::run(&|| contract::on_files(Arc::new(Memory::new()), Arc::new(SyncTracker)));
//! ```
use kit::Place;

mod kit;
mod logs;
mod places;
mod tables;

pub use kit::{Opener, on_files, on_files_of};

/// Runs every case, each on a place of its own from `fresh`.
pub fn run(fresh: &dyn Fn() -> Opener) {
    for case in logs::CASES.iter().chain(tables::CASES).chain(places::CASES) {
        case(&Place(fresh()));
    }
}
