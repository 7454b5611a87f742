//! Helpers that several suites share.
pub mod alone;
pub mod corrupt_entries;
pub mod counting;
pub mod cuts;
pub mod damage;
pub mod files;
#[cfg(target_os = "linux")]
pub mod fork;
pub mod golden;
pub mod history;
pub mod kit;
pub mod leveldb;
pub mod loop_fs;
pub mod ops;
pub mod separated;
pub mod versions;
