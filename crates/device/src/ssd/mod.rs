//! A virtual SSD with observable internals.
//!
//! ```text
//!   write, trim, flush ──▶ Ftl ─┬─ map      logical page → slot, and back
//!                               ├─ pool     superblocks: free, open (one per frontier), closed
//!                               ├─ victims  which closed one is collected next
//!                               └─ counts   bytes programmed, by cause
//! ```
//! Flash is programmed sequentially and erased one *superblock* at a time (one erase block per
//! channel). A rewritten page is placed elsewhere and leaves garbage at its old location.
//! [`Ftl`] does this bookkeeping without data; [`Ssd`] is a block device that stores its data in
//! any other device.
//!
//! A *slot* is the allocation unit of flash: a page, or 512 bytes if the controller compresses.
mod chance;
mod compress;
mod counts;
mod drive;
mod ftl;
mod image;
mod map;
mod pool;
mod profile;
mod profiles;
mod ranges;
mod report;
mod steady;
mod timeline;
mod trace;
mod victims;
mod windows;

pub use counts::{Cause, Counts};
pub use drive::Ssd;
pub use ftl::{Ftl, PageWrite};
pub use image::Image;
pub use profile::{Collection, GcFrontier, Profile};
pub use report::Report;
pub use steady::Progress;
pub use timeline::Latency;
pub use trace::Command;
pub use windows::{Window, Windows};
