//! The classes of the Python module `terracedb.plyvel`, with the interface of the package plyvel.
//!
//! Source of the interface: plyvel 1.5.1, doc/api.rst.
pub mod batch;
pub mod database;
mod error;
pub mod iterator;
mod options;
pub mod raw_iterator;
pub mod reads;
pub mod writes;
