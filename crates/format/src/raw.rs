//! On-disk structures of a store on a raw device, without a file system.
//!
//! The [`superblock`] has the geometry of the device. The slot [`journal`] records which slots
//! belong to which file; it is a sequence of [`change`]s that is consistent after a power cut at
//! any moment. Each WAL [`page`] records the length of its part of the WAL. Spec:
//! docs/format/raw.md.
//!
//! ```text
//! 0          superblock                       4096 bytes
//! 64 KiB     superblock copy                  4096 bytes
//! 128 KiB    journal: half A, half B          journal_bytes each
//! data       slots, from the next multiple of a unit
//! ```
//! A *slot* is the unit of allocation. A *unit* is a group of slots, about as many as the device
//! erases together, aligned to its own size. All numbers are little-endian.
pub mod change;
pub mod journal;
pub mod page;
pub mod salvage;
pub mod superblock;

pub use change::{Change, Form};
pub use superblock::{Sizes, Superblock};

/// Size in bytes of the pages in which the device is read and written.
pub const PAGE: usize = 4096;
