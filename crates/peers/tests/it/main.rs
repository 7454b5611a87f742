//! Integration tests of the interface to other engines.
mod leveldb;
#[cfg(feature = "lab")]
mod targets;
