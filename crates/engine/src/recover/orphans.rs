//! Compares the files in the directory with those that the manifest names. Finds missing files and
//! obsolete files (orphans).
use super::manifest;
use crate::{Error, Options, Result, version::Version};
use std::collections::{BTreeMap, BTreeSet};
use terrace_format::{LogId, batch::Batch};
use terrace_storage::placement::{Listed, LogEvent, LogKind, ObjectId, Storage, TableMeta, Within};

/// Returns the listed WALs, each with the total size of its files in bytes.
pub fn logs(listed: &[Listed]) -> BTreeMap<LogId, u64> {
    let mut logs = BTreeMap::new();
    for found in listed {
        if let ObjectId::Wal(log) | ObjectId::WalSidecar(log) = found.object {
            *logs.entry(log).or_default() += found.bytes;
        }
    }
    logs
}

/// Returns the obsolete WALs to keep for readers of the change feed: the newest ones, together at
/// most `bytes_max` bytes.
pub fn kept_logs(listed: &[Listed], bytes_max: u64) -> Vec<(LogId, u64)> {
    let mut left = bytes_max;
    let fits = |(_, bytes): &(LogId, u64)| {
        let fits = *bytes <= left && bytes_max > 0;
        left = left.saturating_sub(*bytes);
        fits
    };
    let is_whole = |(log, _): &(LogId, u64)| listed.iter().any(|found| found.object == ObjectId::Wal(*log));
    logs(listed).into_iter().rev().filter(is_whole).take_while(fits).collect()
}

/// Returns the obsolete files: the files in `listed` that neither `version` nor `kept` names.
/// `listed` was read before the new root was made, so all WALs and manifests in it are older than
/// the new root.
pub fn orphans(listed: &[Listed], version: &Version, kept: &[(LogId, u64)]) -> Vec<ObjectId> {
    let tables = version.all_tables().flat_map(|(_, table)| crate::version::objects(table));
    let kept = kept.iter().flat_map(|(log, _)| [ObjectId::Wal(*log), ObjectId::WalSidecar(*log)]);
    let named: BTreeSet<ObjectId> = tables.chain(kept).collect();
    listed.iter().map(|found| found.object).filter(|object| !named.contains(object)).collect()
}

/// Removes the tables that the durable version `version` does not name, and the value-log segments
/// that compactions wrote for those tables.
pub fn remove_tables(storage: &dyn Storage, version: &Version) -> Result<()> {
    let is_table =
        |object: &ObjectId| matches!(object, ObjectId::Table(_) | ObjectId::Bundle(_) | ObjectId::Segment(_));
    let orphans = orphans(&storage.list()?, version, &[]);
    orphans.into_iter().filter(is_table).try_for_each(|object| Ok(storage.remove(object)?))
}

/// Checks that every table that the manifest names exists, and every segment to which such a table
/// points. A file that exists may still be damaged or have another length. Then only reads of that
/// file fail, and the rest of the store can be read.
pub fn check_tables_present(storage: &dyn Storage, version: &Version, listed: &[Listed]) -> Result<()> {
    let present: BTreeSet<ObjectId> = listed.iter().map(|found| found.object).collect();
    for (level, table) in version.all_tables() {
        let file = file_of(&table.meta);
        if !present.contains(&file) {
            let object = format!("{} of level {level}", storage.place_of(file));
            return Err(Error::Missing { what: "table that the manifest names", object });
        }
        if let Some((segment, _)) = table.meta.segments().find(|(segment, _)| !present.contains(segment)) {
            let object = format!("{} (table {} points into it)", storage.place_of(segment), table.meta.id);
            return Err(Error::Missing { what: "segment of the value log", object });
        }
    }
    Ok(())
}

fn file_of(table: &TableMeta) -> ObjectId {
    table.within.map_or(ObjectId::Table(table.id), |within| ObjectId::Bundle(within.bundle))
}

/// Describes those files of SSTable `table` whose size differs from the size in the manifest.
pub fn describe_length_mismatches(
    storage: &dyn Storage,
    table: &TableMeta,
    sizes: &BTreeMap<ObjectId, u64>,
) -> Vec<String> {
    let (file, bytes) = (file_of(table), table.bytes);
    let there = sizes.get(&file).copied().unwrap_or(0);
    let table_wrong = match table.within {
        None => there != bytes,
        Some(Within { offset, .. }) => offset.saturating_add(bytes) > there,
    };
    let mut wrong = Vec::new();
    if table_wrong {
        let from = table.within.map_or(String::new(), |within| format!(" from byte {} on", within.offset));
        let place = storage.place_of(file);
        wrong.push(format!("table {}: {place} has {there} bytes, where the manifest says {bytes}{from}", table.id));
    }
    let short = table.segments().filter_map(|(segment, live)| Some((segment, *sizes.get(&segment)?, live)));
    wrong.extend(short.filter(|(_, there, live)| there < live).map(|(segment, there, live)| {
        format!("table {}: {} has {there} bytes, of which it needs {live}", table.id, storage.place_of(segment))
    }));
    wrong
}

/// Describes the WAL that LevelDB's manifest names, if this WAL is missing. LevelDB creates a WAL
/// before its manifest names it, and keeps the WAL until the manifest names another one. So a
/// missing WAL was lost, together with the last writes. An open continues without the WAL, as
/// LevelDB does. If Terrace wrote the manifest, the open is refused instead.
pub fn missing_wal(storage: &dyn Storage, options: &Options, listed: &[Listed]) -> Result<Option<String>> {
    let Some(root) = storage.load_root()? else { return Ok(None) };
    let manifest = manifest::read(storage, options, root)?;
    let named = [Some(manifest.replay_from), manifest.prev_log].into_iter().flatten();
    let is_there = |log: &LogId| listed.iter().any(|found| found.object == ObjectId::Wal(*log));
    // The WAL number 0 means "no WAL", in a new store and in one that LevelDB has repaired.
    let missing = named.into_iter().find(|log| *log > LogId(0) && !is_there(log)).filter(|_| !manifest.ours);
    Ok(missing.map(|log| {
        let place = storage.place_of(ObjectId::Wal(log));
        format!("WAL {log}, which the manifest names, is missing ({place}): the last writes are lost")
    }))
}

/// Checks a directory without a root (`CURRENT`). Such a directory is either new, or the creation
/// of a store in it was interrupted before the first write. In any other case a store has lost its
/// root, and the check returns an error, so that the open does not overwrite the store.
pub fn check_no_store_lost(storage: &dyn Storage, listed: &[Listed]) -> Result<()> {
    for found in listed {
        let holds_data = match found.object {
            ObjectId::Table(_) | ObjectId::Bundle(_) | ObjectId::Segment(_) => true,
            ObjectId::Wal(log) | ObjectId::WalSidecar(log) => has_writes(storage, log)?,
            ObjectId::Manifest(_) | ObjectId::Temporary(_) => false,
        };
        if holds_data {
            let there = storage.place_of(found.object);
            let object = format!(
                "{}, although {there} is there; restore it, or salvage the rest with `terrace repair`",
                storage.name()
            );
            return Err(Error::Missing { what: "CURRENT file", object });
        }
    }
    Ok(())
}

/// Returns whether a WAL has any record other than the empty batch at its start.
fn has_writes(storage: &dyn Storage, log: LogId) -> Result<bool> {
    let mut reader = storage.open_log(log, LogKind::Wal)?;
    loop {
        match reader.next()? {
            LogEvent::End { .. } => return Ok(false),
            LogEvent::Bad { .. } => {}
            LogEvent::Record { bytes, .. } => {
                if !Batch::decode(bytes).is_ok_and(|batch| batch.is_empty()) {
                    return Ok(true);
                }
            }
        }
    }
}
