//! A virtual SSD with observable internals.
//!
//! ```text
//!   write, trim, flush ──▶ Ftl ─┬─ map      logical page → slot, and back
//!                               ├─ pool     superblocks: free, open (one per frontier), closed
//!                               ├─ victims  which closed one is collected next
//!                               └─ counts   bytes programmed, by cause
//! ```
//! Flash is programmed sequentially and erased one *superblock* at a time. A superblock is one
//! erase block of each channel. A rewritten page is placed elsewhere and leaves garbage at its old
//! location. [`Ftl`] (flash translation layer) simulates this without the data. [`Ssd`] is a block
//! device that adds an `Ftl` to any other device, which stores the data.
//!
//! A *slot* is the allocation unit of flash: a page, or 512 bytes if the controller compresses. A
//! *frontier* is a write position with its own open superblock.
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
