//! Integration tests of the other engines through their common interface.
mod leveldb;
#[cfg(feature = "lab")]
mod targets;
