//! Writes the entries that a salvage scan has found in one column family into the new store.
use super::{
    salvage_iter::SalvageIter,
    salvage_scan::{Lost, SalvageScan, reason},
};
use crate::{
    Error, Options, Result,
    bulk::BulkTableWriter,
    compact::level_targets::{self, LevelTargets},
};
use std::{borrow::Cow, collections::BTreeMap};
use terrace_format::{Kind, LEVELS, SeqNo, TableId, Values as ValueForm, key};
use terrace_storage::placement::{Bytes, EntryRef, ObjectId, Storage, StoredValue, TableMeta};

/// The part of a new store that a repair has built from one column family.
pub struct BuiltFamily {
    /// The new SSTables, one sorted run.
    pub metas: Vec<TableMeta>,
    /// The level for the new SSTables.
    pub level: usize,
    /// The number of pairs in the tables.
    pub pairs: u64,
    /// Number of damaged SSTables that were read at least in part.
    pub tables_read: u64,
    /// Number of WALs that were read at least in part.
    pub logs_read: u64,
    /// The newest sequence number found.
    pub last: SeqNo,
    /// All parts that could not be read.
    pub lost: Vec<Lost>,
}

impl SalvageScan {
    /// Writes the entries that the scan found in `from` into the new store `to`, in SSTables
    /// numbered from `next_file` on.
    pub fn build(
        &self,
        from: &dyn Storage,
        to: &dyn Storage,
        options: &Options,
        next_file: &mut u64,
    ) -> Result<BuiltFamily> {
        let (spilled, scan) = self.spill(from, to, options, *next_file)?;
        let mut values = Values::of(from);
        let entries = SalvageIter::new(from, options, &scan, &spilled)?;
        *next_file = spilled.next_file().max(*next_file);
        let (metas, pairs) = write_newest(&scan, entries, &mut values, to, options, next_file)?;
        drop(spilled); // removes its tables, which no manifest names
        Ok(BuiltFamily {
            level: level_for(options, metas.iter().map(|meta| meta.bytes).sum()),
            metas,
            pairs,
            tables_read: scan.tables.len() as u64,
            logs_read: scan.logs_read,
            last: scan.last,
            lost: scan.lost.into_iter().chain(values.lost.into_values()).collect(),
        })
    }
}

/// Returns the first level whose size limit is at least `bytes`.
fn level_for(options: &Options, bytes: u64) -> usize {
    let base = options.level_1_bytes();
    if options.level_compaction_dynamic_level_bytes {
        return level_targets::last_needed(base, &[0, bytes, 0, 0, 0, 0, 0]);
    }
    let sizes = LevelTargets::from_first(base);
    (1..LEVELS).find(|level| bytes <= sizes.of(*level)).unwrap_or(LEVELS - 1)
}

/// Writes the newest version of each key, if it is a put that no range tombstone deletes, into
/// tables numbered from `next_file` on. Returns the tables, all durable, and the number of pairs
/// in them.
fn write_newest(
    salvage_scan: &SalvageScan,
    mut entries: SalvageIter<'_>,
    values: &mut Values<'_>,
    to: &dyn Storage,
    options: &Options,
    next_file: &mut u64,
) -> Result<(Vec<TableMeta>, u64)> {
    let order = options.order();
    let number = || {
        *next_file += 1;
        TableId(*next_file - 1)
    };
    let mut out = BulkTableWriter::new(to, options.target_file_size, number);
    let (mut user, mut pairs) = (None::<Vec<u8>>, 0);
    while let Some(entry) = entries.next()? {
        let parsed = key::apart(entry.key);
        if user.as_ref().is_some_and(|user| order.user(user, parsed.user).is_eq()) {
            continue; // an older version
        }
        let deleted = salvage_scan.range_tombstones.newest(order, parsed.user, SeqNo::MAX) > parsed.seq;
        if parsed.kind == Kind::Put && !deleted {
            // If the value cannot be read, an older version of the key is used.
            let Some(value) = values.read(&entry) else { continue };
            out.add(entry.key, &value)?;
            pairs += 1;
        }
        user = Some(parsed.user.to_vec());
    }
    Ok((out.finish()?, pairs))
}

/// Reads values of the damaged store. Values may be separated from their keys.
struct Values<'a> {
    from: &'a dyn Storage,
    separated: bool,
    /// Values that could not be read, by file.
    lost: BTreeMap<String, Lost>,
}

impl<'a> Values<'a> {
    fn of(from: &'a dyn Storage) -> Values<'a> {
        Values { from, separated: from.layout().values == ValueForm::Log, lost: BTreeMap::new() }
    }

    /// Returns the value of `entry`, which is a put. Returns `None` and records the loss if the
    /// value cannot be read.
    fn read<'e>(&mut self, entry: &EntryRef<'e>) -> Option<Cow<'e, [u8]>> {
        if !self.separated {
            return Some(Cow::Borrowed(entry.stored));
        }
        let parsed = key::apart(entry.key);
        let error = match self.from.value(parsed.user, parsed.seq, Bytes::from(entry.stored.to_vec())) {
            Ok(value) => return Some(Cow::Owned(value.to_vec())),
            Err(error) => Error::from(error),
        };
        let pointer = match StoredValue::parse(entry.stored) {
            Ok(StoredValue::At(pointer)) => Some(pointer),
            _ => None,
        };
        let (file, offset) = match (&error, &pointer) {
            (Error::Corrupt { object, offset, .. }, _) => (object.clone(), *offset),
            (Error::Missing { .. }, Some(at)) => (self.from.place_of(ObjectId::from(at)), at.offset),
            (Error::Missing { object, .. } | Error::Io { object, .. }, _) => (object.clone(), 0),
            (other, _) => (other.to_string(), 0),
        };
        let new = || Lost { file: file.clone(), offset, bytes: 0, reason: reason(&error), from: None, to: None };
        let lost = self.lost.entry(file.clone()).or_insert_with(new);
        lost.offset = lost.offset.min(offset);
        lost.bytes += pointer.map_or(0, |pointer| pointer.bytes);
        None
    }
}
