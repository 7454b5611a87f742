//! Integration tests of the other engines through one interface.
mod leveldb;
#[cfg(feature = "lab")]
mod targets;
