//! Opening a store: root → manifest → logs → tables; then a fresh manifest and root, and only then orphans go.
//!
//! Nothing is trusted that the manifest does not vouch for, and nothing is removed before the new root is durable. A
//! second crash at any step finds the store as the first one left it.
mod features;
mod manifest;
pub mod orphans;
mod remains;
pub mod repair;
mod replay;
pub mod survey;

pub use features::create_alike;

use crate::{
    Damage, Error, Options, Result,
    jobs::flush,
    mem::MemTable,
    version::{
        TableRef, Version, add_to,
        segments::Segments,
        set::{Manifest, Start, VersionSet},
    },
    write::wal::Wal,
};
use replay::{Replayed, replay};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{LogId, SeqNo, TableId, Values, batch, edit::Edit};
use terrace_storage::{
    DurabilityHandle,
    placement::{Listed, LogKind, ObjectId, Storage},
};

/// A store that is ready to be served.
pub struct Recovered {
    /// Live and durable versions.
    pub versions: VersionSet,
    /// The last sequence of the history.
    pub last: SeqNo,
    /// Memtables, newest first, of a store opened for reading only.
    pub memtables: Vec<Arc<MemTable>>,
    /// The means to write; `None` in a store opened for reading only.
    pub writer: Option<Writer>,
    /// Features that the manifest must announce.
    pub requires: Vec<String>,
    /// Logs that hold something which does not belong to the history; kept under `lost/` by whoever opens to write.
    pub set_aside: Vec<LogId>,
    /// What is wrong with those.
    pub damage: Vec<Damage>,
}

/// What a store that is written needs besides.
pub struct Writer {
    /// The manifest, which is the root.
    pub manifest: Manifest,
    /// The log of the active memtable.
    pub wal: Wal,
    /// Its number.
    pub log: LogId,
    /// What the old root needed and the new one does not.
    pub orphans: Vec<ObjectId>,
}

/// Refuses a place that holds anything; `what` would make a new store there.
pub fn check_empty(place: &dyn Storage, what: &str) -> Result<()> {
    if place.load_root()?.is_none() && place.list()?.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid(format!("{} is not empty; a {what} makes a new store", place.name())))
}

/// Opens what `placement` holds. `read_only` changes nothing there.
pub fn open(storage: &dyn Storage, options: &Options, read_only: bool) -> Result<Recovered> {
    let listed = storage.list()?;
    if let Some(absurd) = listed.iter().find(|found| found.object.number() > manifest::NUMBER_MAX) {
        let text = format!("{} has a number larger than any store reaches", storage.place_of(absurd.object));
        return Err(Error::Unsupported(text));
    }
    let Some(root) = storage.load_root()? else {
        if read_only || !options.create_if_missing {
            let object = storage.name();
            return Err(Error::Missing { what: "store (no CURRENT file in the directory)", object });
        }
        orphans::check_uncreated(storage, &listed)?;
        storage.settle(&[])?;
        let requires = features::create(storage, options)?;
        return begin(storage, options, fresh_start(&listed), requires, &listed);
    };
    if options.error_if_exists {
        return Err(Error::Invalid(format!("{} is a store already, and error_if_exists is set", storage.name())));
    }
    let manifest = manifest::read(storage, options, root)?;
    let requires = features::check(storage, options, &manifest.requires)?;
    orphans::check_tables_present(storage, &manifest.version, &listed)?;
    let replayed = replay(storage, options, &manifest, &listed)?;
    let start = Start {
        next_file: manifest.next_file.max(above(&listed)),
        base: manifest.base,
        replay_from: manifest.replay_from,
        pointers: manifest.pointers,
        version: manifest.version,
    };
    if read_only {
        let last = replayed.last;
        let memtables = replayed.memtables.iter().rev().cloned().collect();
        let versions = VersionSet::new(options.order().clone(), start);
        let Replayed { set_aside, damage, .. } = replayed;
        return Ok(Recovered { versions, last, memtables, writer: None, requires, set_aside, damage });
    }
    let tables: Vec<_> = start.version.tables().map(|(_, table)| table.meta.clone()).collect();
    storage.settle(&tables)?;
    let start = write_tables(storage, options, start, &replayed)?;
    for log in &replayed.set_aside {
        storage.set_aside(ObjectId::Wal(*log))?;
    }
    let begun = begin(storage, options, start, requires, &listed)?;
    Ok(Recovered { set_aside: replayed.set_aside, damage: replayed.damage, ..begun })
}

/// The disk was full when this was opened. What a session before kept for such a moment is given up, and tables that it had no time to
/// tell the manifest of are removed. First the manifest that is believed in this is made durable, of which memory may show more than the device has.
pub fn make_space(storage: &dyn Storage, options: &Options) -> Result<()> {
    storage.reserve(0)?;
    let Some(root) = storage.load_root()? else { return Ok(()) };
    let manifest = manifest::read(storage, options, root)?;
    orphans::check_tables_present(storage, &manifest.version, &storage.list()?)?;
    storage.settle_manifest(root)?;
    let _ = storage.commit(); // lets go of files that the attempt has made
    orphans::remove_tables(storage, &manifest.version)
}

fn fresh_start(listed: &[Listed]) -> Start {
    Start { next_file: above(listed).max(2), ..Start::default() }
}

/// A number that no file in the directory has, whether the manifest knows it or not.
fn above(listed: &[Listed]) -> u64 {
    listed.iter().map(|found| found.object.number() + 1).max().unwrap_or(0)
}

/// Replayed memtables become durable tables of level 0.
fn write_tables(storage: &dyn Storage, options: &Options, mut start: Start, replayed: &Replayed) -> Result<Start> {
    let mut edit = Edit::default();
    let mut tickets: Vec<DurabilityHandle> = Vec::new();
    for mem in replayed.memtables.iter().filter(|mem| !mem.is_empty()) {
        let mems = std::slice::from_ref(mem);
        let (meta, _, ticket) = flush::write_table(storage, options.order(), mems, TableId(start.next_file), None)?;
        start.next_file += 1;
        add_to(&mut edit, 0, &meta);
        tickets.push(ticket);
    }
    storage.commit()?;
    tickets.iter().try_for_each(DurabilityHandle::wait_durable)?;
    let apply = start.version.apply(options.order(), &edit);
    start.version = apply.map_err(|detail| Error::corrupt("manifest", storage.name(), 0, detail))?;
    start.base = replayed.last;
    Ok(start)
}

/// A fresh log, a fresh manifest that says all of `start`, and the root that names it.
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
    versions.retire.keep_logs(options.wal_size_limit, kept);
    let sizes: BTreeMap<ObjectId, u64> = listed.iter().map(|found| (found.object, found.bytes)).collect();
    versions.segments = Segments::of(versions.live(), |object| sizes.get(&object).copied());
    let log_bytes_max = if storage.layout().values == Values::Log { options.value_log_segment_size } else { u64::MAX };
    let writer = Writer { manifest, wal: Wal::new(log, writer, log_bytes_max, last), log, orphans };
    Ok(Recovered {
        versions,
        last,
        memtables: Vec::new(),
        writer: Some(writer),
        requires,
        set_aside: Vec::new(),
        damage: Vec::new(),
    })
}

/// A version of these tables, by level.
fn version_of(tables: Vec<(usize, TableRef)>, options: &Options) -> std::result::Result<Version, String> {
    let mut levels: [Vec<Arc<TableRef>>; terrace_format::LEVELS] = Default::default();
    tables.into_iter().for_each(|(level, table)| levels[level].push(Arc::new(table)));
    Version::from_tables(options.order(), levels)
}
