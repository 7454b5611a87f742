//! Terrace for Python. What users see and read is `python/terracedb`; here is what it is made of.
//!
//! Calls that may wait for storage let go of the interpreter's lock meanwhile.
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

/// The compiled half of the package `terracedb`.
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
