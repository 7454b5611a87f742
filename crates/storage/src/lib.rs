//! Where bytes live, and since when they survive a power cut.
//!
//! [`placement`] is the interface; `backends/` the places; `durability/` the tiers; `sst/` tables of blocks,
//! shared by the backends. No LSM decision is taken here.
#![forbid(unsafe_code)]

pub mod backends;
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
pub mod placement;
mod read_coalescer;
mod sst;
mod table_file;
mod table_writer;
mod watch;

pub use backends::{DurabilityMode, Location, destroy, lies_in, open, open_files};
pub use budget::{Budget, Held, Holder};
pub use config::{FilterForm, StorageConfig};
pub use durability_handle::{Completer, DurabilityHandle, State};
pub use error::{Error, Result};
pub use io_stats::{AwaitsOthers, BlockingScope, IoStats, Purpose, SyncKind, Syncs};
pub use page_pool::PooledPages;
pub use read_coalescer::ReadCoalescer;
pub use table_file::{Adopted, TableFile};
pub use table_writer::{FinishedTable, TableFileWriter};
pub use terrace_vfs as vfs;
pub use terrace_vfs::{MemFs as Memory, Pages, Process, WalWriteMode, bpf, give_way, nap, open_own, read_own};
pub use watch::Watch;
