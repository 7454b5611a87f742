//! Stores on a raw device, and split stores, whose WALs and tables are on a raw device. This
//! module formats and opens such stores, and copies their files to and from a directory.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod place;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[path = "place_unsupported.rs"]
mod place;
mod salvage;
pub mod split;
mod transfer;

pub use place::{is_device, make_file, open, prepare};
pub use salvage::salvage;
pub use split::DATA;
pub use terrace_vfs::raw::{RawFile, RawFs, Sizes, Superblock, find, format, found};
pub use transfer::{Copied, export, import};
