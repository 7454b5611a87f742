//! A virtual solid-state drive whose inside can be seen.
//!
//! ```text
//!   write, trim, flush ──▶ Ftl ─┬─ map      logical page → slot, and back
//!                               ├─ pool     superblocks: free, open (one per frontier), closed
//!                               ├─ victims  which closed one is collected next
//!                               └─ counts   bytes programmed, by cause
//! ```
//! Flash is programmed in order and erased a whole *superblock* at a time (one erase block of every channel). A page that is
//! written again goes to another place; what it leaves behind is garbage. [`Ftl`] keeps that book and moves no data;
//! [`Ssd`] is a block device that does, over any other.
//!
//! A *slot* is the unit of space in flash: a page, or 512 bytes of it where the controller compresses.
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
