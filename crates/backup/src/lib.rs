//! Incremental, checksummed backups of a Terrace store.
//!
//! A backup is a copy of a [checkpoint](terrace::Db::checkpoint): a complete store at one sequence
//! number. Backups of the same store share the files that did not change in between, so a further
//! backup writes only the new SSTables and value-log segments, and the manifest.
//!
//! ```text
//! backups/
//!   BACKUPS                       format version of this directory
//!   000001-1f3a….backup           record of backup 1: its files, their sizes and objects
//!   000002-77c0….backup           record of backup 2
//!   9b74c989….object              the content of a file, named by its SHA-256
//! ```
//!
//! The name of an object is the SHA-256 of its content, and the name of a record has the first
//! half of the SHA-256 of its content. So every file of a backup directory can be verified. A
//! record is written after all of its objects are durable. Therefore a backup that is listed is
//! complete, and a kill, a power cut or a full disk during [`Backups::create`] has no effect on
//! older backups. Objects are never changed. They are removed only by [`Backups::purge`] and
//! [`Backups::remove`], after the last record that names them, and by [`Backups::remove_damaged`].
//!
//! ```
//! # use terrace::{Db, Options};
//! # use terrace_backup::{Backups, CreateOptions};
//! # let place = tempfile::tempdir().unwrap();
//! # let [store, directory, restored] = ["store", "backups", "restored"].map(|name| place.path().join(name));
//! let db = Db::open(&store, Options::default())?;
//! db.put("key", "old")?;
//! let backups = Backups::open(&directory)?;
//! let first = backups.create(&db, &CreateOptions::default())?;
//! db.put("key", "new")?;
//! backups.create(&db, &CreateOptions::default())?;
//!
//! backups.restore(first.id, &restored)?;
//! assert_eq!(Db::open(&restored, Options::default())?.get("key")?, Some(b"old".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod backups;
mod create;
mod directory;
mod error;
mod hash;
mod pace;
mod pieces;
mod private;
mod purge;
mod record;
mod restore;
mod scratch;
mod source;
mod target;
mod verify;

pub use backups::{Backup, Backups};
pub use create::{CreateOptions, Progress};
pub use directory::DirectoryTarget;
pub use error::{Error, Result};
pub use purge::Purged;
pub use restore::Restored;
pub use source::Source;
pub use target::{BackupTarget, StoredObject, TargetLock};
pub use verify::{Problem, Verified};

/// The examples of a page, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/recover.md")]
mod recover {}
