//! And the others? Other key-value stores, loaded at run time through their C APIs, behind a safe Rust face.
//!
//! Nothing of them is linked: a machine without LevelDB builds and tests everything else. What a missing library means
//! for a test is decided in one place, [`require()`]. With the feature `lab` the same libraries are targets of the lab;
//! so are stores that are crates, compiled in by a feature of their name: `fjall`, `redb`.
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
