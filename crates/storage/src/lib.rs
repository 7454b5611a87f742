//! Storage: reads and writes the files of a store, and reports when they survive a power cut.
//!
//! [`placement`] has the interface of a store. In the following list, each module uses only
//! modules of rows above it:
//!
//! ```text
//! io_stats, config, error     counters, parameters, errors
//! memory                      the memory budget, the block cache, pools of buffers and pages
//! durability                  durability modes, handles, trackers
//! tables                      SSTables: names, writers, readers, cursors, salvage
//! values                      logs and segments, and how scans read them
//! placement                   the interface: the trait `Storage`
//! backends                    stores in directories, on devices, in memory; value log
//! contract                    the test suite that every backend passes
//! ```
//! File systems are in the crate `terrace-vfs`. This crate makes no decision about the LSM-tree.
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
#[cfg(unix)]
mod watch;

pub use backends::{Location, destroy, destroy_with_replaced, layout, lies_in, open, open_files, replace_directory};
pub use config::{FilterForm, StorageConfig};
pub use durability::{Completer, DurabilityHandle, DurabilityMode, State};
pub use error::{Error, Result};
pub use io_stats::{BlockingScope, IoStats, Purpose, SyncKind, SyncWaitScope, Syncs};
pub use memory::{Budget, Held, Holder, PooledPages, SAMPLE_EVERY, is_sample};
pub use tables::{Adopted, FinishedTable, TableFile, TableFileWriter};
pub use terrace_vfs as vfs;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use terrace_vfs::bpf;
pub use terrace_vfs::{
    MemFs as Memory, Pages, Process, WalWriteMode, open_store_file, precise_sleep, read_exact_at, read_small_file,
    run_in_background,
};
pub use values::ReadCoalescer;
#[cfg(unix)]
pub use watch::Watch;
