//! Repair: builds a new store from the readable part of a damaged one.
//!
//! ```text
//!  tables ──┐                 ┌───────────────┐   newest    ┌──────────────┐
//!  WALs   ──┼─► salvage scan ─┤ merge by key, ├────────────►│ one sorted   │──► manifest, root
//!  segments ┘   (losses)      │ newest first  │   puts only │ run of `to`  │
//!                             └───────────────┘             └──────────────┘
//! ```
//!
//! A repair writes nothing to the damaged store. It reads tables block by block and WALs record by
//! record, and verifies every block and record. It merges entries by key and sequence number, so
//! an older version never replaces a newer one, whatever the file that contains it. Parts that
//! cannot be read are reported and skipped.
//!
//! Memory: one block for each chain of tables (tables that do not overlap), plus the WAL entries
//! that [`LogEntries`](super::spill::LogEntries) allows. Further WAL entries are spilled into
//! `to`.
use super::{
    begin, check_empty, features, fresh_start,
    salvage_iter::SalvageIter,
    salvage_scan::{Lost, SalvageScan, reason},
};
use crate::{
    Error, Options, Result,
    bulk::BulkTableWriter,
    compact::level_targets::{self, LevelTargets},
    version::{TableRef, Version},
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};
use terrace_format::{Kind, LEVELS, SeqNo, TableId, Values as ValueForm, key};
use terrace_storage::placement::{Bytes, EntryRef, ObjectId, Storage, StoredValue, TableMeta, TableReadOptions};

/// The outcome of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Tables that were read at least in part.
    pub tables: u64,
    /// WALs that were read at least in part.
    pub logs: u64,
    /// Pairs in the new store: the newest readable version of each key, unless it is a tombstone.
    pub pairs: u64,
    /// Total size in bytes of the new store's tables.
    pub bytes: u64,
    /// The newest sequence number found.
    pub last_sequence: u64,
    /// All parts that the repair could not read. For a key in a lost part, the new store has an
    /// older version or none. A deleted key returns if its tombstone was lost and its value was
    /// not. With key-value separation the loss of the manifest is enough to bring back deleted
    /// keys: a segment exists as long as one of its values is live, and only the manifest records
    /// which of its values are not live.
    pub lost: Vec<Lost>,
}

/// Salvages the store in `from` into `to`, which must be empty. Open `from` with
/// [`OpenMode::Salvage`](terrace_storage::placement::OpenMode). `options` apply to the new store.
/// Their comparator must be that of the damaged store.
///
/// # Errors
/// The errors of [`Db::repair`](crate::Db::repair).
///
/// ```
/// # use terrace::{Db, Options, DurabilityMode};
/// use terrace_storage::{Location, Memory, placement::OpenMode};
/// let (damaged, fresh, options) = (Memory::new(), Memory::new(), Options::default());
/// let open = |memory: &Memory, mode| {
///     let place = Location::Memory(memory.clone());
///     terrace_storage::open(&place, mode, DurabilityMode::Sync, &options.setup())
/// };
/// Db::open_on(open(&damaged, OpenMode::Create)?, options.clone())?.put("key", "value")?;
/// let (from, to) = (open(&damaged, OpenMode::Salvage)?, open(&fresh, OpenMode::Create)?);
/// assert_eq!(terrace::repair_on(&*from, &*to, &options)?.pairs, 1);
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn repair(from: &dyn Storage, to: &dyn Storage, options: &Options) -> Result<RepairReport> {
    check_empty(to, "repair")?;
    build(from, &SalvageScan::of(from, options)?, to, options)
}

/// Writes the entries that the salvage scan `survey` found in `from` into the empty store `to`.
pub fn build(
    from: &dyn Storage,
    salvage_scan: &SalvageScan,
    to: &dyn Storage,
    options: &Options,
) -> Result<RepairReport> {
    to.settle(&[])?;
    let requires = features::create(to, options)?;
    let mut start = fresh_start(&[]);
    let (spilled, salvage_scan) = salvage_scan.spill(from, to, options, start.next_file)?;
    let mut report = RepairReport {
        tables: salvage_scan.tables.len() as u64,
        logs: salvage_scan.logs_read,
        last_sequence: salvage_scan.last.0,
        lost: salvage_scan.lost.clone(),
        ..RepairReport::default()
    };
    let mut values = Values::of(from);
    let entries = SalvageIter::new(from, options, &salvage_scan, &spilled)?;
    let mut next_file = spilled.next_file().max(start.next_file);
    let (metas, pairs) = write_newest(&salvage_scan, entries, &mut values, to, options, &mut next_file)?;
    drop(spilled); // removes its tables, which no manifest names
    start.next_file = next_file;
    report.pairs = pairs;
    report.lost.extend(values.lost.into_values());
    report.bytes = metas.iter().map(|meta| meta.bytes).sum();
    let level = level_for(options, report.bytes);
    let mut levels: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
    levels[level] = metas.into_iter().map(|meta| Arc::new(TableRef::new(meta))).collect();
    start.version = Version::from_tables(options.order(), levels).map_err(crate::Error::Bug)?;
    start.base = salvage_scan.last;
    begin(to, options, start, requires, &[])?;
    Ok(report)
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

/// Writes the newest version of each key into tables numbered from `next_file` on, if this version
/// is a put that no range tombstone deletes. Returns the tables, all durable, and the number of
/// pairs in them.
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
            // If the value of the newest version cannot be read, the repair uses an older version
            // of the key.
            let Some(value) = values.read(&entry) else { continue };
            out.add(entry.key, &value)?;
            pairs += 1;
        }
        user = Some(parsed.user.to_vec());
    }
    Ok((out.finish()?, pairs))
}

/// Reads values of the damaged store, including values in the value log.
struct Values<'a> {
    from: &'a dyn Storage,
    separated: bool,
    /// The values that could not be read, combined for each file.
    lost: BTreeMap<String, Lost>,
}

impl<'a> Values<'a> {
    fn of(from: &'a dyn Storage) -> Values<'a> {
        Values { from, separated: from.layout().values == ValueForm::Log, lost: BTreeMap::new() }
    }

    /// Returns the value of `entry`, which is a put. If the value cannot be read, records the loss
    /// and returns `None`.
    fn read<'e>(&mut self, entry: &EntryRef<'e>) -> Option<Cow<'e, [u8]>> {
        if !self.separated {
            return Some(Cow::Borrowed(entry.stored));
        }
        let (parsed, how) = (key::apart(entry.key), TableReadOptions { verify: true, fill_cache: false });
        let error = match self.from.value(parsed.user, parsed.seq, Bytes::from(entry.stored.to_vec()), how) {
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
