//! Where bytes live, and since when they survive a power cut.
//!
//! [`placement`] is the interface; `backends/` the places; `durability/` the tiers; `sst/` tables of blocks,
//! shared by the backends. No LSM decision is taken here.
#![forbid(unsafe_code)]

pub mod backends;
mod config;
pub mod contract;
pub mod durability;
mod error;
mod io_stats;
mod memory;
pub mod placement;
mod tables;
mod values;
mod watch;

pub use backends::{Location, destroy, layout, lies_in, open, open_files};
pub use config::{FilterForm, StorageConfig};
pub use durability::{Completer, DurabilityHandle, DurabilityMode, State};
pub use error::{Error, Result};
pub use io_stats::{AwaitsOthers, BlockingScope, IoStats, Purpose, SyncKind, Syncs};
pub use memory::{Budget, Held, Holder, PooledPages};
pub use tables::{Adopted, FinishedTable, TableFile, TableFileWriter};
pub use terrace_vfs as vfs;
pub use terrace_vfs::{MemFs as Memory, Pages, Process, WalWriteMode, bpf, give_way, nap, open_own, read_own};
pub use values::ReadCoalescer;
pub use watch::Watch;
