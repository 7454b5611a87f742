//! Opens a store: reads the root (the file `CURRENT`), the manifest and the WALs, then publishes a
//! new manifest and a new root.
//!
//! ```text
//!  CURRENT ─► manifest ─► version, base, oldest WAL
//!                           │
//!  WALs ─► replay ──────────┴─► L0 SSTables ─► new manifest ─► new CURRENT ─► obsolete files
//!          (one memtable)       (durable)      (durable)       (durable)      removed
//! ```
//!
//! Invariants:
//! - A file is part of the store only if the manifest names it, or if it is a WAL at or after the
//!   manifest's `replay_from`.
//! - A manifest names a table only when the table is durable.
//! - No file is removed before the new root is durable. A crash at any step leaves the old root
//!   valid. The next open then replays the same WALs and removes the tables that the interrupted
//!   open wrote.
//! - An open that is refused leaves the directory unchanged.
//! - Whatever the size of the WALs, an open for writing keeps in memory only one memtable and the
//!   tables that are being synced. A read-only open cannot write tables, so it keeps all replayed
//!   entries in memory.
mod features;
mod manifest;
pub mod orphans;
pub mod repair;
mod repair_family;
mod replay;
mod replay_sink;
mod salvage_iter;
pub mod salvage_scan;
mod spill;

pub use features::{announce_families, create_alike};

use crate::{
    Damage, Error, Options, Result,
    mem::MemTable,
    read::view::FamilyMemtables,
    version::{
        add_to,
        segments::Segments,
        set::{Manifest, Start, VersionSet},
    },
    write::wal::Wal,
};
use replay::{Replayed, replay};
use replay_sink::{ReplayTarget, WrittenTables};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{FamilyId, LogId, SeqNo, Values, batch, edit::Edit};
use terrace_storage::placement::{Listed, LogKind, ObjectId, Storage};

/// A recovered store.
pub struct Recovered {
    /// Live and durable versions.
    pub versions: VersionSet,
    /// The last sequence number of the history.
    pub last: SeqNo,
    /// Memtables of a store opened read-only, newest first.
    pub memtables: Vec<Arc<MemTable>>,
    /// The memtables of other column families of a store opened read-only.
    pub family_memtables: BTreeMap<FamilyId, FamilyMemtables>,
    /// Number of entries replayed from WALs. Only [`inspect`] counts them.
    pub replayed_entries: u64,
    /// The parts that only an open for writing makes; `None` in a store opened read-only.
    pub writer: Option<Writer>,
    /// Feature flags that the new manifest must announce.
    pub requires: Vec<String>,
    /// WALs with records that do not belong to the history. An open for writing keeps copies of
    /// them under `lost/`.
    pub set_aside: Vec<LogId>,
    /// Damage in the WALs with records that do not belong to the history.
    pub damage: Vec<Damage>,
}

/// The parts of a recovered store that only an open for writing makes.
pub struct Writer {
    /// The manifest that the root names.
    pub manifest: Manifest,
    /// The WAL of the active memtable.
    pub wal: Wal,
    /// The number of the WAL of the active memtable.
    pub log: LogId,
    /// Obsolete files: files that the old root needs and the new root does not.
    pub orphans: Vec<ObjectId>,
}

/// The purpose of a recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Write,
    Read,
    Inspect,
}

/// Returns an error if the store at `place` is not empty. `what` names the operation that needs an
/// empty store, for the error text.
pub fn check_empty(place: &dyn Storage, what: &str) -> Result<()> {
    if place.load_root()?.is_none() && place.list()?.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid(format!("{} is not empty; a {what} makes a new store", place.name())))
}

/// Opens the store in `storage`. With `read_only` the open changes nothing in the storage.
pub fn open(storage: &dyn Storage, options: &Options, read_only: bool) -> Result<Recovered> {
    recover(storage, options, if read_only { Purpose::Read } else { Purpose::Write })
}

/// Reads the store in `storage` without changing it. Counts the entries in WALs, but does not keep
/// them in memory.
pub fn inspect(storage: &dyn Storage, options: &Options) -> Result<Recovered> {
    recover(storage, options, Purpose::Inspect)
}

/// Replays all WALs without keeping their entries. Returns an error only if the history is
/// corrupt, so that the open is refused. All other errors are ignored here, because the replay of
/// the open returns them again.
pub fn check_history(storage: &dyn Storage, options: &Options) -> Result<()> {
    match inspect(storage, options) {
        Err(corrupt @ Error::Corrupt { .. }) => Err(corrupt),
        _ => Ok(()),
    }
}

fn recover(storage: &dyn Storage, options: &Options, purpose: Purpose) -> Result<Recovered> {
    let writes = purpose == Purpose::Write;
    let listed = storage.list()?;
    if let Some(absurd) = listed.iter().find(|found| found.object.number() > manifest::NUMBER_MAX) {
        let text = format!("{} has a number larger than any store reaches", storage.place_of(absurd.object));
        return Err(Error::Unsupported(text));
    }
    let Some(root) = storage.load_root()? else {
        if !writes || !options.create_if_missing {
            let object = storage.name();
            return Err(Error::Missing { what: "store (no CURRENT file in the directory)", object });
        }
        orphans::check_no_store_lost(storage, &listed)?;
        storage.settle(&[])?;
        let requires = features::create(storage, options)?;
        return begin(storage, options, fresh_start(&listed), requires, &listed);
    };
    if options.error_if_exists {
        return Err(Error::Invalid(format!("{} is a store already, and error_if_exists is set", storage.name())));
    }
    let manifest = manifest::read(storage, options, root)?;
    let requires = features::check(storage, options, &manifest.requires)?;
    // A store that another process writes may have new files since the manifest was read.
    let listed = if writes { listed } else { storage.list()? };
    orphans::check_tables_present(storage, &manifest.version, &listed)?;
    let next_file = manifest.next_file.max(above(&listed));
    let target = match purpose {
        Purpose::Write => ReplayTarget::Tables(next_file),
        Purpose::Read => ReplayTarget::Memtables,
        Purpose::Inspect => ReplayTarget::Count,
    };
    let replayed = replay(storage, options, &manifest, &listed, target)?;
    let start = Start {
        next_file,
        base: manifest.base,
        replay_from: manifest.replay_from,
        pointers: manifest.pointers,
        next_family: manifest.next_family,
        version: manifest.version,
    };
    let Replayed { memtables, tables, entries, last, set_aside, damage } = replayed;
    if !writes {
        let (memtables, family_memtables) = newest_first(memtables);
        let versions = VersionSet::new(options.order().clone(), start);
        let (writer, replayed_entries) = (None, entries);
        return Ok(Recovered {
            versions,
            last,
            memtables,
            family_memtables,
            replayed_entries,
            writer,
            requires,
            set_aside,
            damage,
        });
    }
    let old_tables: Vec<_> = start.version.all_tables().map(|(_, table)| table.meta.clone()).collect();
    storage.settle(&old_tables)?;
    let start = add_tables(storage, options, start, tables, last)?;
    for log in &set_aside {
        storage.set_aside(ObjectId::Wal(*log))?;
    }
    let begun = begin(storage, options, start, requires, &listed)?;
    Ok(Recovered { set_aside, damage, ..begun })
}

/// Frees disk space after an open failed because the disk was full. Releases the reserve (space
/// that is allocated for a full disk) of an earlier process, and removes tables that no manifest
/// names. Before the removal it makes the manifest durable, because the page cache may show edits
/// that are not on the device yet.
pub fn make_space(storage: &dyn Storage, options: &Options) -> Result<()> {
    storage.reserve(0)?;
    let Some(root) = storage.load_root()? else { return Ok(()) };
    let manifest = manifest::read(storage, options, root)?;
    orphans::check_tables_present(storage, &manifest.version, &storage.list()?)?;
    storage.sync_manifest(root)?;
    let _ = storage.commit(); // closes files that the failed open created
    orphans::remove_tables(storage, &manifest.version)
}

fn fresh_start(listed: &[Listed]) -> Start {
    Start { next_file: above(listed).max(2), ..Start::default() }
}

/// Returns a number above the number of every listed file, whether the manifest names the file or
/// not.
fn above(listed: &[Listed]) -> u64 {
    listed.iter().map(|found| found.object.number() + 1).max().unwrap_or(0)
}

/// Divides replayed memtables, which are ordered oldest first, into those of the default column
/// family, newest first, and those of the other families.
fn newest_first(
    memtables: Vec<(FamilyId, Arc<MemTable>)>,
) -> (Vec<Arc<MemTable>>, BTreeMap<FamilyId, FamilyMemtables>) {
    let mut families: BTreeMap<FamilyId, FamilyMemtables> = BTreeMap::new();
    for (family, mem) in memtables.into_iter().rev() {
        families.entry(family).or_default().sealed.push(mem);
    }
    let default = families.remove(&FamilyId::DEFAULT).unwrap_or_default().sealed;
    (default, families)
}

/// Adds the tables that replay wrote, which are all durable, to level 0 of `start`. Sets the
/// sequence number up to which all writes are in tables to `last`.
fn add_tables(
    storage: &dyn Storage,
    options: &Options,
    mut start: Start,
    tables: WrittenTables<'_>,
    last: SeqNo,
) -> Result<Start> {
    let (metas, next_file) = tables.into_durable()?;
    let mut edit = Edit::default();
    metas.iter().for_each(|(family, meta)| add_to(&mut edit, family.level(0), meta));
    let apply = start.version.apply(options.order(), &edit);
    start.version = apply.map_err(|detail| Error::corrupt("manifest", storage.name(), 0, detail))?;
    (start.next_file, start.base) = (next_file, last);
    Ok(start)
}

/// Creates a WAL, and a manifest with the contents of `start`. Then publishes the root that names
/// this manifest.
pub fn begin(
    storage: &dyn Storage,
    options: &Options,
    mut start: Start,
    requires: Vec<String>,
    listed: &[Listed],
) -> Result<Recovered> {
    let (log, id) = (LogId(start.next_file), LogId(start.next_file + 1));
    start.next_file += 2;
    start.replay_from = log;
    let last = start.base;
    let writer = storage.create_log(log, LogKind::Wal, &batch::head(last.plus(1)))?;
    let kept = orphans::kept_logs(listed, options.wal_size_limit);
    let mut versions = VersionSet::new(options.order().clone(), start);
    let manifest = Manifest::create(storage, id, &versions.snapshot(&requires))?;
    storage.publish_root(id)?;
    let orphans = orphans::orphans(listed, versions.live(), &kept);
    versions.obsolete_files.keep_wals(options.wal_size_limit, kept);
    let sizes: BTreeMap<ObjectId, u64> = listed.iter().map(|found| (found.object, found.bytes)).collect();
    versions.segments = Segments::of(versions.live(), |object| sizes.get(&object).copied());
    let log_bytes_max = if storage.layout().values == Values::Log { options.value_log_segment_size } else { u64::MAX };
    let writer = Writer { manifest, wal: Wal::new(log, writer, log_bytes_max, last), log, orphans };
    Ok(Recovered {
        versions,
        last,
        memtables: Vec::new(),
        family_memtables: BTreeMap::new(),
        replayed_entries: 0,
        writer: Some(writer),
        requires,
        set_aside: Vec::new(),
        damage: Vec::new(),
    })
}
