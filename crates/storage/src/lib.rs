//! Where bytes live, and since when they survive a power cut.
//!
//! [`placement`] is the interface; `backends/` the places; `durability/` the tiers; `sst/` tables of blocks,
//! shared by the backends. No LSM decision is taken here.
//! Unsafe code is in `backends/files/kernel.rs`, `backends/files/mapped_read.rs`, `bpf/kernel.rs` and `pages.rs` and nowhere
//! else.
#![deny(unsafe_code)]

pub mod backends;
pub mod bpf;
mod budget;
mod config;
pub mod contract;
mod cursor;
pub mod durability;
mod durability_handle;
mod error;
mod io_stats;
pub mod layout;
mod page_pool;
mod pages;
pub mod placement;
mod precise_sleep;
mod process;
mod read_coalescer;
mod sst;
mod table_file;
mod table_writer;
mod watch;

pub use backends::{
    DurabilityMode, Location, destroy, files::give_way, files::open_own, files::read_own, lies_in, memory::Memory,
    open, open_files,
};
pub use budget::{Budget, Held, Holder};
pub use config::{FilterForm, StorageConfig, WalWriteMode};
pub use durability_handle::{Completer, DurabilityHandle, State};
pub use error::{Error, Result};
pub use io_stats::{AwaitsOthers, BlockingScope, IoStats, Purpose, SyncKind, Syncs};
pub use page_pool::PooledPages;
pub use pages::Pages;
pub use precise_sleep::nap;
pub use process::Process;
pub use read_coalescer::ReadCoalescer;
pub use table_file::{Adopted, TableFile};
pub use table_writer::{FinishedTable, TableFileWriter};
pub use watch::Watch;
