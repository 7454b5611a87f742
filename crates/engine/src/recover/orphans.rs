//! What lies in the directory beside what the manifest names.
use crate::{Error, Result, version::Version};
use std::collections::{BTreeMap, BTreeSet};
use terrace_format::{LogId, batch::Batch};
use terrace_storage::placement::{Listed, LogEvent, LogKind, ObjectId, Placement, TableMeta, Within};

/// The logs of which something was listed, with the bytes of all their parts.
pub fn logs(listed: &[Listed]) -> BTreeMap<LogId, u64> {
    let mut logs = BTreeMap::new();
    for found in listed {
        if let ObjectId::Wal(log) | ObjectId::SmallLog(log) = found.object {
            *logs.entry(log).or_default() += found.bytes;
        }
    }
    logs
}

/// Logs that are kept for those who follow the history: the newest, up to `bytes_max` in all.
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

/// Everything that was listed before the new root was made, that `version` does not name and that is not `kept`. Logs and
/// manifests of that time are all replaced.
pub fn orphans(listed: &[Listed], version: &Version, kept: &[(LogId, u64)]) -> Vec<ObjectId> {
    let tables = version.tables().flat_map(|(_, table)| crate::version::objects(table));
    let kept = kept.iter().flat_map(|(log, _)| [ObjectId::Wal(*log), ObjectId::SmallLog(*log)]);
    let named: BTreeSet<ObjectId> = tables.chain(kept).collect();
    listed.iter().map(|found| found.object).filter(|object| !named.contains(object)).collect()
}

/// Removes the tables that are there and that `version`, which is what the durable manifest says, does not name; and the segments that
/// compactions moved values into for them, into which nothing else points.
pub fn remove_tables(placement: &dyn Placement, version: &Version) -> Result<()> {
    let is_table =
        |object: &ObjectId| matches!(object, ObjectId::Table(_) | ObjectId::Bundle(_) | ObjectId::Segment(_));
    let orphans = orphans(&placement.list()?, version, &[]);
    orphans.into_iter().filter(is_table).try_for_each(|object| Ok(placement.remove(object)?))
}

/// Every table of the manifest must be there, as long as it was when it was made, and every segment that it points into.
pub fn check_tables_present(placement: &dyn Placement, version: &Version, listed: &[Listed]) -> Result<()> {
    let sizes: BTreeMap<ObjectId, u64> = listed.iter().map(|found| (found.object, found.bytes)).collect();
    for (level, table) in version.tables() {
        let file = table.meta.within.map_or(ObjectId::Table(table.meta.id), |within| ObjectId::Bundle(within.bundle));
        let detail = match (sizes.get(&file), table.meta.within) {
            (None, _) => {
                let object = format!("{} of level {level}", placement.place_of(file));
                return Err(Error::Missing { what: "table that the manifest names", object });
            }
            (Some(there), None) if *there != table.meta.bytes => {
                format!("{there} bytes where the manifest says {}", table.meta.bytes)
            }
            (Some(there), Some(Within { offset, .. })) if offset.saturating_add(table.meta.bytes) > *there => {
                let TableMeta { id, bytes, .. } = table.meta;
                format!("{there} bytes where the manifest says that table {id} has {bytes} from byte {offset} on")
            }
            _ => {
                check_segments_present(placement, &table.meta, &sizes)?;
                continue;
            }
        };
        return Err(Error::corrupt("table", placement.place_of(file), sizes[&file], detail));
    }
    Ok(())
}

fn check_segments_present(placement: &dyn Placement, table: &TableMeta, sizes: &BTreeMap<ObjectId, u64>) -> Result<()> {
    for (segment, live) in table.segments() {
        let place = || placement.place_of(segment);
        match sizes.get(&segment) {
            None => {
                let object = format!("{} (table {} points into it)", place(), table.id);
                return Err(Error::Missing { what: "segment of the value log", object });
            }
            Some(bytes) if *bytes < live => {
                let detail = format!("{bytes} bytes, of which table {} needs {live}", table.id);
                return Err(Error::corrupt("segment of the value log", place(), *bytes, detail));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// There is no root. That is a new place, or one whose creation was cut short before it had a root and thus before it
/// took a write; anything else is a store that has lost its root, and must not be written over.
pub fn check_uncreated(placement: &dyn Placement, listed: &[Listed]) -> Result<()> {
    for found in listed {
        let holds_data = match found.object {
            ObjectId::Table(_) | ObjectId::Bundle(_) | ObjectId::Segment(_) => true,
            ObjectId::Wal(log) | ObjectId::SmallLog(log) => has_writes(placement, log)?,
            ObjectId::Manifest(_) | ObjectId::Temporary(_) => false,
        };
        if holds_data {
            let there = placement.place_of(found.object);
            let object = format!(
                "{}, although {there} is there; restore it, or salvage the rest with `terrace repair`",
                placement.name()
            );
            return Err(Error::Missing { what: "CURRENT file", object });
        }
    }
    Ok(())
}

/// Whether a log holds more than the empty batch that begins ours.
fn has_writes(placement: &dyn Placement, log: LogId) -> Result<bool> {
    let mut reader = placement.open_log(log, LogKind::Wal)?;
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
