//! On-disk structures of a store on a raw device, without a file system.
//!
//! The [`superblock`] locates everything; the slot [`journal`] records which slots belong to
//! which file, as a sequence of [`change`]s that is complete after a power cut at any moment;
//! each WAL [`page`] states how far its WAL extends. Spec: docs/format/raw.md.
//!
//! ```text
//! 0          superblock                       4096 bytes
//! 64 KiB     superblock copy                  4096 bytes
//! 128 KiB    journal: half A, half B          journal_bytes each
//! data       slots, from the next multiple of a unit
//! ```
//! A *slot* is the unit of allocation. A *unit* is about as many slots as the device erases
//! together, aligned to its size. All numbers are little-endian.
pub mod change;
pub mod journal;
pub mod page;
pub mod salvage;
pub mod superblock;

pub use change::{Change, Form};
pub use superblock::{Sizes, Superblock};

/// Size of the pages in which the device is read and written, in bytes.
pub const PAGE: usize = 4096;
