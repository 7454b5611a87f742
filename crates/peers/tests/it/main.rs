//! Other engines behind the same interface.
mod leveldb;
#[cfg(feature = "lab")]
mod targets;
