//! Other key-value stores behind a safe Rust interface, loaded at run time through their C APIs.
//!
//! None of them is linked: everything else builds and runs its tests on a machine without LevelDB.
//! [`require()`] alone decides whether a test without its library is skipped or fails. With the
//! feature `lab`, the same libraries are benchmark targets. So are stores that are Rust crates,
//! each compiled in by a feature of its name: `fjall`, `redb`.
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
