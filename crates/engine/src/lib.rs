//! Terrace is an embedded LSM-tree key-value store that uses LevelDB's file formats. Its first
//! goal is crash safety.
//!
//! A store maps byte keys to byte values in key order. Terrace opens directories of LevelDB in
//! place, and LevelDB opens them again after a clean close. A [`Db`] is a handle to an open store.
//! Its clones, which are cheap, let several threads share the store.
//!
//! # Open
//!
//! [`Db::open`] opens a directory or a prepared device, and creates a store if there is none.
//! [`Db::open_read_only`] changes nothing, and [`Db::open_in_memory`] needs no disk.
//!
//! ```
//! use terrace::{Db, Options};
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("store");
//! let db = Db::open(&path, Options::default())?;
//! db.close()?;
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Write
//!
//! When a write returns, it is in the write-ahead log (WAL), so it survives the end of the
//! process. A write with [`WriteOptions::synced`] also survives a power cut, together with all
//! earlier writes.
//!
//! ```
//! use terrace::{Db, Options, WriteOptions};
//! let db = Db::open_in_memory(Options::default())?;
//! db.put("city/oslo", "709 000")?;
//! db.put_with("city/bergen", "291 000", WriteOptions::synced())?;
//! db.delete("city/oslo")?;
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Read
//!
//! [`Db::get`] returns a copy of a value, [`Db::get_pinned`] returns a reference to the value in a
//! block, and [`Db::multi_get`] looks up many keys in one call.
//!
//! ```
//! # use terrace::{Db, Options};
//! let db = Db::open_in_memory(Options::default())?;
//! db.put("key", "value")?;
//! assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
//! assert_eq!(db.get("absent")?, None);
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Iterate
//!
//! [`Db::scan`] and [`Db::scan_reverse`] are Rust iterators over a key range or a prefix.
//! [`Db::cursor`] seeks and moves in both directions. Scans and cursors see the store at the moment
//! of their creation.
//!
//! ```
//! # use terrace::{Db, Options, ReadOptions};
//! let db = Db::open_in_memory(Options::default())?;
//! ["a/1", "a/2", "b/1"].iter().try_for_each(|key| db.put(key, "value"))?;
//! let keys = db.scan(ReadOptions::new().prefix("a/")).map(|pair| Ok(pair?.0));
//! assert_eq!(keys.collect::<terrace::Result<Vec<_>>>()?, [b"a/1", b"a/2"]);
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Batch
//!
//! The operations of a [`WriteBatch`] are applied in order. They become visible and durable
//! together, or not at all.
//!
//! ```
//! # use terrace::{Db, Options, WriteBatch, WriteOptions};
//! let db = Db::open_in_memory(Options::default())?;
//! let mut batch = WriteBatch::new();
//! batch.put("from", "90").put("to", "110").delete("pending");
//! db.write(batch, WriteOptions::synced())?;
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Snapshot
//!
//! A [`Snapshot`] makes the state of the store at one moment readable until the snapshot is
//! dropped.
//!
//! ```
//! # use terrace::{Db, Options, ReadOptions};
//! let db = Db::open_in_memory(Options::default())?;
//! db.put("key", "old")?;
//! let snapshot = db.snapshot();
//! db.put("key", "new")?;
//! let old = db.get_with("key", &ReadOptions::new().snapshot(&snapshot))?;
//! assert_eq!(old.as_deref(), Some(&b"old"[..]));
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Durability
//!
//! Every write has a sequence number. All writes up to [`Db::durable_sequence`] survive a power
//! cut. [`Db::wait_durable`] waits until a given write is durable, and [`Db::when_durable`]
//! returns a future that does the same. The durability mode ([`Options::durability`]) determines
//! how flushed and compacted data becomes durable.
//!
//! ```
//! # use terrace::{Db, Options};
//! let db = Db::open_in_memory(Options::default())?;
//! (0..100).try_for_each(|number| db.put(format!("key {number}"), "value"))?;
//! db.wait_durable(db.last_sequence())?; // one sync for all of them
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Options
//!
//! [`Options`] are made from a preset ([`PRESETS`]). They are fields that can be assigned, or set
//! by name. [`Options::describe`] lists all of them.
//!
//! ```
//! # use terrace::{Db, Options};
//! let mut options = Options::preset("leveldb")?;
//! options.block_cache_size = 256 << 20;
//! options.set("write_buffer_size", "64MiB")?;
//! let db = Db::open_in_memory(options)?;
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Errors
//!
//! Every operation that can fail returns an [`Error`]. Its text names the object and a remedy.
//! After a failed write or sync the store stops writes but continues to serve reads.

// Modules, in the order of data flow. Imports run one way only, from the end of the list towards
// its beginning; `cargo xtask tidy` checks that.
//
//   options presets batch bounds sorted_table error events stats clock  values that callers see
//   closed_wals reserve bulk waiters work sync locks                    shared services
//   mem          memtables
//   version      tables of each level, live and durable; obsolete files
//   compact      compaction policy: which tables are compacted, which entries may be dropped
//   read         snapshots, iterators, point lookups
//   state        shared state, its lock, and the scheduling of jobs
//   rate_limit enospc
//   jobs         flush, compaction, commit of pending edits
//   write        group commit, write stalls, memtable rotation, tail GC
//   recover      recovery, repair, survey of damage
//   check db     verification; the public handle
//   transaction  transactions
#![deny(unsafe_code)] // except in the memtable's arena and skip list
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs, clippy::missing_errors_doc)]

mod batch;
mod bounds;
mod bulk;
mod check;
mod clock;
mod closed_wals;
mod compact;
mod db;
mod enospc;
mod error;
mod events;
mod info_log;
mod jobs;
mod locks;
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
mod transaction;
mod version;
mod waiters;
mod work;
mod write;

pub use batch::WriteBatch;
pub use check::{CheckReport, check, check_on};
pub use db::{Checkpoint, ColumnFamily, Copied, Db, Durable, Ingested, LevelInfo, TableInfo};
pub use error::{Error, Result};
pub use events::{Damage, Event, Listener};
pub use info_log::line as log_line;
pub use options::{CompactionPri, CompactionStyle, GcMode, OptionInfo, Options, Recovery, WriteOptions, parse_size};
pub use presets::{PAPER_PRESETS, PRESETS};
pub use read::{
    pinned::PinnedValue,
    range::Range,
    scan::{Cursor, ReadOptions, Scan},
    snapshot::Snapshot,
    updates::{Update, Updates},
};
pub use recover::{
    repair::{RepairReport, repair as repair_on},
    salvage_scan::Lost,
};
pub use sorted_table::{SortedTable, SortedTableWriter};
pub use stats::{LevelStatistics, MemoryStatistics, ReadStatistics, Statistics, ValueLogStatistics, WorkStatistics};
pub use terrace_format::{
    Comparator, FamilyId, KeyOrder, Layout, Medium, TableForm, Values,
    batch::Op,
    compress::Codec,
    filter::{Bloom, FilterPolicy, HashPolicy},
};
pub use terrace_storage::{DurabilityMode, FilterForm, StorageConfig, Syncs, WalWriteMode, placement::Storage};
pub use transaction::{Isolation, Locking, Transaction, TransactionOptions, TransactionScan};

/// The Rust examples in the documentation pages.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/guide/families.md")]
    struct Families;
    #[doc = include_str!("../../../docs/guide/leveldb.md")]
    struct LevelDb;
    #[doc = include_str!("../../../docs/guide/open.md")]
    struct Open;
    #[doc = include_str!("../../../docs/guide/tune.md")]
    struct Tune;
    #[doc = include_str!("../../../docs/tutorial.md")]
    struct Tutorial;
}
