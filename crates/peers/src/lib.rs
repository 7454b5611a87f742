//! And the others? Other key-value stores, loaded at run time through their C APIs, behind a safe Rust face.
//!
//! Nothing here is linked: a machine without LevelDB builds and tests everything else. What a missing library means for
//! a test is decided in one place, [`require()`].
#![deny(unsafe_code)]

mod error;
pub mod leveldb;
mod require;

pub use error::{PeerError, Result};
pub use require::require;
