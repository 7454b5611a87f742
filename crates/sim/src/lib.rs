//! Crash models and fault injection for storage. Only tests and crash campaigns use them. Seeds
//! determine all random choices.
//!
//! - [`CrashFs`] records the operations on a directory. It returns an [`Image`] (the directory
//!   contents) of any state that a power cut may leave.
//! - [`Folder`] is a second directory on the same disk, which can link to files of the first one.
//! - [`CrashDevice`] is the crash model of a block device, with torn writes.
//!   [`DisconnectedDevice`] is a device that gets disconnected.
//! - [`Medium`] selects one of these, or a directory and a device combined, as a test parameter.
//! - [`FaultFs`] lets the n-th call fail.
//! - [`LimitedNamesFs`] restricts the number, length and characters of file names.
//! - [`SmallFs`] runs out of space like a device of a given size.
//! - [`ScrambleFs`] scrambles all bytes. An access that bypasses the file-system interface reads
//!   garbage.
//! - [`LateTracker`] delays durability handles (they say whether files are durable yet), reorders
//!   them or lets them fail. [`LyingTracker`] reports files as durable without a sync.
//!
//! There is no clock, and no randomness other than [`Rng`].
#![forbid(unsafe_code)]

mod crash;
mod device;
mod faults;
mod folder;
mod history;
mod image;
mod late;
mod loss;
mod lying;
mod medium;
mod narrow;
mod pages;
mod rng;
mod scramble;
mod small;
mod together;
mod yanked;

pub use crash::CrashFs;
pub use device::{CrashDevice, DeviceImage};
pub use faults::{Fault, FaultFs, Plan};
pub use folder::Folder;
pub use image::Image;
pub use late::LateTracker;
pub use loss::Rules;
pub use lying::LyingTracker;
pub use medium::{Medium, Recorder, Remains};
pub use narrow::{LimitedNamesFs, NameLimits};
pub use rng::Rng;
pub use scramble::ScrambleFs;
pub use small::SmallFs;
pub use yanked::DisconnectedDevice;
