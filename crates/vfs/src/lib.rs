//! File systems: flat directories of append-only files, on whatever keeps bytes.
//!
//! [`FileSystem`] is the interface. [`RealFs`] is a directory of the operating system, [`MemFs`] a
//! directory in memory, [`raw::RawFs`] a block device without a file system, [`SplitFs`] a
//! directory and a device together. The models of `terrace-sim` implement [`FileSystem`] too:
//! crash states, injected faults, and corrupted reads. Nothing here knows tables, values or
//! durability modes. The crate's unsafe code is in `kernel.rs`, `mapped_read.rs`, `pages.rs` and
//! `bpf/kernel.rs` only.
#![deny(unsafe_code)]

pub mod bpf;
mod capacity;
mod file;
mod folders;
mod fs;
mod holders;
mod journal;
#[allow(unsafe_code, reason = "calls the kernel where no safe library does")]
mod kernel;
mod lost;
mod mapped_read;
mod memory;
mod names;
mod pages;
mod precise_sleep;
mod process;
pub mod raw;
pub mod real;
mod split;

pub use capacity::Capacity;
pub use file::{ReadFile, WriteFile};
pub use folders::{Folders, Inside, Room, inside};
pub use fs::{DirEntry, DirectoryLock, FileSystem, FileUse, WalWriteMode, journal_of};
pub use journal::JournalCommit;
pub use kernel::run_in_background;
pub use lost::set_aside_from;
pub use mapped_read::prefetch;
pub use memory::MemFs;
pub use pages::Pages;
pub use precise_sleep::precise_sleep;
pub use process::{KeptFromChildren, Process};
pub use real::{RealFs, SMALL_FILE_BYTES_MAX, TextLog, open_store_file, parent, read_small_file};
pub use split::SplitFs;
