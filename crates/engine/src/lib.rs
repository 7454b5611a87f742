//! Terrace: an LSM-tree key-value store on LevelDB's own files, right in every crash.
//!
//! ```
//! use terrace::{Db, Options, ReadOptions, WriteBatch, WriteOptions};
//!
//! # fn main() -> terrace::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("store");
//! let db = Db::open(&path, Options::default())?;
//! db.put("city/lima", "10 million")?;
//! let mut batch = WriteBatch::new();
//! batch.put("city/oslo", "0.7 million").delete("city/lima");
//! db.write(batch, WriteOptions::synced())?; // both or neither, and durable at return
//! for pair in db.scan(ReadOptions::new().prefix("city/")) {
//!     let (key, value) = pair?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()
//! # }
//! ```
//!
//! # The house
//! In the order data flows; imports run one way only.
//!
//! | module | question |
//! |---|---|
//! | `options` `presets` `batch` `sorted_table` `error` `events` `stats` `clock` | what can be said, and what is answered |
//! | `sync` | what do threads meet at? |
//! | `mem` | where are the newest writes? |
//! | `reserve` | what is left when the device is full? |
//! | `closed_logs` | which logs are not needed for writing any more, but for surviving? |
//! | `version` | which tables make up each level, live and durable; what may be removed when? |
//! | `read` | what does a reader at one moment see? |
//! | `compact` | what is merged when, and what may be left out? |
//! | `state` `work` | what do the parts share, under which lock; which thread runs a job? |
//! | `jobs` | flush, compact, release: what happens in the background? |
//! | `write` | how does a write become visible and durable? |
//! | `bulk` | how are many tables written at once, without a log? |
//! | `recover` | what does an open find? |
//! | `check` `db` | is everything as it was written; the face |
//!
//! The contract on durability is `docs/durability.md`; where bytes live is `terrace_storage::placement`.
#![deny(unsafe_code)] // but for the memtable's arena and the list in it
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs, clippy::missing_errors_doc)]

mod batch;
mod bounds;
mod bulk;
mod check;
mod clock;
mod closed_logs;
mod compact;
mod db;
mod enospc;
mod error;
mod events;
mod jobs;
mod mem;
mod options;
mod presets;
mod rate_limit;
mod read;
mod recover;
mod reserve;
mod sorted_table;
mod state;
mod stats;
mod sync;
mod version;
mod waiters;
mod work;
mod write;

pub use batch::WriteBatch;
pub use check::{CheckReport, check, check_on};
pub use db::{Checkpoint, Copied, Db, Durable, Ingested, LevelInfo, TableInfo};
pub use error::{Error, Result};
pub use events::{Damage, Event, Listener};
pub use options::{CompactionPri, GcMode, OptionInfo, Options, Recovery, WriteOptions};
pub use presets::{PAPER_PRESETS, PRESETS};
pub use read::{
    pinned::PinnedValue,
    scan::{Cursor, ReadOptions, Scan},
    snapshot::Snapshot,
    updates::{Update, Updates},
};
pub use recover::{
    repair::{RepairReport, repair as repair_on},
    survey::Lost,
};
pub use sorted_table::{SortedTable, SortedTableWriter};
pub use stats::{LevelStatistics, MemoryStatistics, Statistics, ValueLogStatistics, WorkStatistics};
pub use terrace_format::{
    Comparator, KeyOrder, Layout, Medium, TableForm, Values,
    batch::Op,
    compress::Codec,
    filter::{Bloom, FilterPolicy, HashPolicy},
};
pub use terrace_storage::{DurabilityMode, FilterForm, StorageConfig, Syncs, WalWriteMode, placement::Storage};

/// The book's blocks of Rust, each page's under its name.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/guide/leveldb.md")]
    struct LevelDb;
    #[doc = include_str!("../../../docs/guide/open.md")]
    struct Open;
    #[doc = include_str!("../../../docs/guide/recover.md")]
    struct Recover;
    #[doc = include_str!("../../../docs/guide/tune.md")]
    struct Tune;
    #[doc = include_str!("../../../docs/tutorial.md")]
    struct Tutorial;
}
