//! Terrace for Python: the extension module of the package in `python/terracedb`.
//!
//! Calls that may wait for storage release the interpreter's lock.
#![deny(unsafe_code)]

mod arguments;
mod batch;
mod db;
mod error;
mod manage;
mod pairs;
mod range;
mod report;
mod snapshot;
mod updates;
mod walk;

use pyo3::prelude::*;

/// The extension module of the package `terracedb`.
#[pymodule]
mod _terracedb {
    #[pymodule_export]
    use crate::{
        batch::WriteBatch,
        db::Db,
        manage::{destroy, open, open_in_memory, repair},
        pairs::Pairs,
        snapshot::Snapshot,
        updates::Updates,
    };
}
