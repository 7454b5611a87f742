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
pub mod contract;
mod cursor;
pub mod durability;
mod error;
mod nap;
mod pages;
pub mod placement;
mod process;
mod setup;
pub mod shape;
mod spare;
mod sst;
mod stretch;
mod table_file;
mod table_writer;
mod ticket;
mod traffic;
mod watch;

pub use backends::{
    Location, Tier, destroy, files::give_way, files::open_own, files::read_own, lies_in, memory::Memory, open,
    open_files,
};
pub use budget::{Budget, Held, Holder};
pub use error::{Error, Result};
pub use nap::nap;
pub use pages::Pages;
pub use process::Process;
pub use setup::{FilterForm, LogWrites, Setup};
pub use spare::Lent;
pub use stretch::Stretches;
pub use table_file::{Adopted, TableFile};
pub use table_writer::{FinishedTable, TableFileWriter};
pub use ticket::{Maturity, State, Ticket};
pub use traffic::{Awaited, AwaitsOthers, Purpose, SyncKind, Syncs, Traffic};
pub use watch::Watch;
