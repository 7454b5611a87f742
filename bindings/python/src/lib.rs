//! Terrace for Python: the extension module of the package in `python/terracedb`.
//!
//! Calls that may wait for storage release the interpreter's lock.
#![deny(unsafe_code)]

mod arguments;
mod backups;
mod batch;
mod chunk;
mod column_family;
mod db;
mod error;
mod manage;
mod order;
mod pairs;
mod plyvel;
mod range;
mod reader;
mod reads;
mod report;
mod snapshot;
mod space;
mod steps;
mod store;
mod transaction;
mod transaction_scan;
mod updates;
mod walk;
mod writes;

use pyo3::prelude::*;

/// The extension module of the package `terracedb`.
#[pymodule]
mod _terracedb {
    #[pymodule_export]
    use crate::{
        backups::Backups,
        batch::WriteBatch,
        column_family::ColumnFamily,
        db::Db,
        manage::{destroy, repair},
        pairs::Pairs,
        reads::Reads,
        snapshot::Snapshot,
        transaction::Transaction,
        updates::Updates,
        writes::Writes,
    };

    /// The classes of `terracedb.plyvel`.
    #[pyo3::pymodule]
    mod plyvel {
        #[pymodule_export]
        use crate::plyvel::{
            batch::WriteBatch,
            database::{Handle, close_all, destroy, repair},
            iterator::Iterator,
            raw_iterator::RawIterator,
            reads::Reads,
            writes::Writes,
        };
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name of Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
