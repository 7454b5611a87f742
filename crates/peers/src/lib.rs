//! A safe Rust interface to other key-value stores. The crate loads their libraries at run time
//! and calls their C APIs.
//!
//! No library is linked at build time. All crates therefore build, and all other tests run, on a
//! machine without LevelDB. If the library that a test needs is missing, [`require()`] alone
//! decides whether the test is skipped or fails. With the feature `lab`, the same libraries are
//! also benchmark targets. Further targets are stores that are Rust crates: `fjall` and `redb`.
//! For each of them, a feature of the same name compiles it in.
#![deny(unsafe_code)]

mod error;
mod ffi;
#[cfg(feature = "lab")]
pub mod lab;
pub mod leveldb;
pub mod library;
mod require;
pub mod rocksdb;
mod store;

pub use error::{PeerError, Result};
pub use require::require;
pub use store::{Batch, Store};
