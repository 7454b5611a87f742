//! Other key-value stores behind a safe Rust interface. Their libraries are loaded at run time
//! through their C APIs.
//!
//! No library is linked at build time. Therefore all crates build, and all other tests run, on a
//! machine without LevelDB. [`require()`] alone decides whether a test whose library is missing is
//! skipped or fails. With the feature `lab`, the same libraries are also benchmark targets.
//! Further targets are stores that are Rust crates: `fjall` and `redb`. A feature of the same name
//! compiles each of them in.
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
