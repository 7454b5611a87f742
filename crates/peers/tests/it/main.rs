//! Integration tests of the interfaces to other engines.
mod leveldb;
#[cfg(feature = "lab")]
mod targets;
