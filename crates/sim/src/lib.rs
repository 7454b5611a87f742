//! What can go wrong with storage, on purpose and by seed: for tests and crash campaigns, never for users.
//!
//! - [`CrashFs`] records what is done to a directory and makes [`Image`]s of what a power cut could leave of it;
//! - [`Folder`] is a second directory in it, which can link to the files of the first;
//! - [`CrashDevice`] does the same for a block device, torn sectors included; [`Yanked`] is one that is pulled out;
//! - [`Medium`] is either of the two, as a parameter;
//! - [`FaultFs`] makes the n-th call fail;
//! - [`NarrowFs`] takes few names, and not every one;
//! - [`SmallFs`] runs full as a device of a given size does;
//! - [`ScrambleFs`] makes bytes unreadable to whoever goes around the seam;
//! - [`LateTracker`] lets tickets mature late, out of order, or not at all; [`LyingTracker`] calls them mature that are not.
//!
//! Everything is a function of its seed: this crate knows no clock and no other randomness than [`Rng`].
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
pub use narrow::{Narrow, NarrowFs};
pub use rng::Rng;
pub use scramble::ScrambleFs;
pub use small::SmallFs;
pub use yanked::Yanked;
