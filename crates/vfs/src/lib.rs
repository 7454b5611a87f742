//! File systems: flat directories of append-only files on different media.
//!
//! [`FileSystem`] is the interface. [`RealFs`] is a directory of the operating system, [`MemFs`]
//! is a directory in memory, [`raw::RawFs`] is a block device without a file system, and
//! [`SplitFs`] is a directory together with a device. The models of `terrace-sim` (crash states,
//! injected faults, and corrupted reads) implement [`FileSystem`] too. This crate knows nothing of
//! tables, values or durability modes. Its unsafe code is only in `kernel.rs`, `mapping/`,
//! `pages.rs`, `bpf/kernel.rs`, `process/child.rs` and `portable/system/windows.rs`.
//!
//! On 64-bit Linux, `RealFs` is in `real/` and uses many calls that only Linux has. On other
//! systems it is in `portable/`, which needs little more than the standard library.
#![deny(unsafe_code)]

/// The folder below the directory of a store in which a backup makes its checkpoint. It exists only
/// during the backup, unless the process was killed.
pub const CHECKPOINT_FOLDER: &str = "backup.tmp";
/// The file in [`CHECKPOINT_FOLDER`] by which a backup recognizes a folder that a backup has made.
pub const CHECKPOINT_MARKER: &str = "TERRACE_BACKUP";

mod capacity;
mod file;
mod folders;
mod fs;
mod holders;
mod journal;
mod lock_held;
mod lost;
mod memory;
mod names;
mod pages;
mod paths;
mod process;
pub mod raw;
mod small_file;
mod split;
mod text_log;

// Linux with 64-bit offsets of files: a directory with everything that the kernel offers.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod bpf;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[allow(unsafe_code, reason = "calls the kernel where no safe library does")]
mod kernel;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod mapping;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod precise_sleep;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod real;

// Other systems: a directory by the calls that every system has.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod other;
#[cfg(any(not(all(target_os = "linux", target_pointer_width = "64")), test))]
mod portable;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use kernel::{exchange, run_in_background};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use mapping::Mapping;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use precise_sleep::precise_sleep;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use real::{OpenDirectory, RealFs, open_store_file, read_exact_at, rename, sync_directory};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub use other::{Mapping, exchange, precise_sleep, run_in_background};
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub use portable::{OpenDirectory, PortableFs as RealFs, open_store_file, read_exact_at, rename, sync_directory};

pub use capacity::Capacity;
pub use file::{ReadFile, WriteFile};
pub use folders::{Folders, Inside, Room, inside};
pub use fs::{DirEntry, DirectoryLock, FileSystem, FileUse, WalWriteMode, journal_of};
pub use journal::JournalCommit;
pub use lock_held::LockHeld;
pub use lost::set_aside_from;
pub use memory::MemFs;
pub use pages::Pages;
pub use paths::parent;
#[cfg(unix)]
pub use process::KeptFromChildren;
pub use process::Process;
pub use small_file::{SMALL_FILE_BYTES_MAX, read_small_file};
pub use split::SplitFs;
pub use terrace_device::Descriptor;
pub use text_log::TextLog;
