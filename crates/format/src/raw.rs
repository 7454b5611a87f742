//! What stands on a device that holds a store without a file system: where things lie ([`superblock`]), which slots belong to
//! which file ([`change`] says what changes, [`journal`] frames that so that a power cut at any moment leaves a whole history),
//! and how far a log goes ([`page`]). Spec: docs/format/raw.md.
//!
//! ```text
//! 0          superblock                       4096 bytes
//! 64 KiB     the same again                   4096 bytes
//! 128 KiB    journal: half A, half B          journal_bytes each
//! data       slots, from the next multiple of a unit
//! ```
//! A *slot* is the unit of allocation; a *unit* is as many slots as the device erases at a time, about, and begins at a
//! multiple of its size. All numbers are little-endian.
pub mod change;
pub mod journal;
pub mod page;
pub mod salvage;
pub mod superblock;

pub use change::{Change, Form};
pub use superblock::{Sizes, Superblock};

/// Everything on the device is read and written in pages of this size.
pub const PAGE: usize = 4096;
