//! File systems: flat directories of append-only files on different media.
//!
//! [`FileSystem`] is the interface. [`RealFs`] is a directory of the operating system, [`MemFs`]
//! is a directory in memory, [`raw::RawFs`] is a block device without a file system, and
//! [`SplitFs`] is a directory together with a device. The models of `terrace-sim` (crash states,
//! injected faults, and corrupted reads) implement [`FileSystem`] too. This crate knows nothing of
//! tables, values or durability modes. Its unsafe code is only in `kernel.rs`, `mapping/`,
//! `pages.rs` and `bpf/kernel.rs`.
#![deny(unsafe_code)]

/// The folder below the directory of a store in which a backup makes its checkpoint. It exists only
/// during the backup, unless the process was killed.
pub const CHECKPOINT_FOLDER: &str = "backup.tmp";
/// The file in [`CHECKPOINT_FOLDER`] by which a backup recognizes a folder that a backup has made.
pub const CHECKPOINT_MARKER: &str = "TERRACE_BACKUP";

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
mod mapping;
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
pub use mapping::Mapping;
pub use memory::MemFs;
pub use pages::Pages;
pub use precise_sleep::precise_sleep;
pub use process::{KeptFromChildren, Process};
pub use real::{LockHeld, RealFs, SMALL_FILE_BYTES_MAX, TextLog, open_store_file, parent, read_small_file};
pub use split::SplitFs;
