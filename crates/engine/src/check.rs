//! Checks a closed store without changing it: the implementation of `terrace check`.
//!
//! The check needs the memory of one memtable, of one SSTable's index, and of one block per sorted
//! run. It counts the entries of WALs but does not keep them in memory.
mod values;
mod version_order;

use crate::{
    Damage, Options, Result,
    recover::{self, orphans},
    version::{Version, objects},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};
use terrace_format::{FamilyId, Layout, TableId, Values, key};
use terrace_storage::{
    Location,
    placement::{Listed, ObjectId, OpenMode, Storage, TableReadOptions},
};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The problems that were found; empty if the store is intact.
    pub problems: Vec<String>,
    /// The layout of the store.
    pub layout: Layout,
    /// The number of SSTables that were checked.
    pub tables: u64,
    /// The total size of the SSTables that were checked, in bytes.
    pub table_bytes: u64,
    /// The number of entries in SSTables, including tombstones and old versions. Only a deep check
    /// counts them; otherwise the number is 0.
    pub entries: u64,
    /// The number of range tombstones in SSTables. A range tombstone that overlaps others is
    /// divided into fragments, and each fragment is counted.
    pub range_tombstones: u64,
    /// The number of entries that were replayed from WALs.
    pub wal_entries: u64,
    /// The numbers of the WALs with records that are not part of the history. The cause is a torn
    /// tail after a power cut, or damage. The next open for writing saves copies of these WALs in
    /// `lost/`.
    pub torn_wals: Vec<u64>,
    /// The damage in the WALs whose records are not all part of the history.
    pub damage: Vec<Damage>,
    /// The files in `lost/`. They are copies of damaged WALs that earlier opens made, and files
    /// that LevelDB's repair has moved there.
    pub lost: Vec<String>,
    /// The last sequence number of the history.
    pub last_sequence: u64,
    /// The tables, bundles, segments and temporary files that the manifest does not name. The next
    /// open for writing removes them.
    pub leftovers: Vec<String>,
}

/// Checks the store at `path`. No process may have the store open for writing.
///
/// - Without `deep` it checks the root file, the manifest, the format file, the WALs, and the
///   footer and bounds of every SSTable.
/// - With `deep` it reads the whole store. It checks every checksum, the order of entries, that
///   filters admit every key, and that table properties are true. It also checks that no newer
///   sorted run has an older version of a key than an older run, and that no table has a sequence
///   number above the last one that the manifest records.
///
/// The report lists damage inside the store. A store that cannot be opened is an error instead (a
/// missing file, overlapping tables, an unknown feature).
///
/// # Errors
/// The errors of an open for reading only; see [`Db::open_read_only`](crate::Db::open_read_only).
///
/// ```
/// # use terrace::{Db, Options};
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// let db = Db::open(&path, Options::default())?;
/// db.put("key", "value")?;
/// db.close()?;
/// let report = terrace::check(&path, &Options::default(), true)?;
/// assert!(report.problems.is_empty());
/// assert_eq!(report.last_sequence, 1);
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn check(path: impl AsRef<Path>, options: &Options, deep: bool) -> Result<CheckReport> {
    let location = Location::at(path.as_ref());
    let storage = terrace_storage::open(&location, OpenMode::ReadOnly, options.durability, &options.setup())?;
    check_on(&*storage, options, deep)
}

/// Works like [`check`], for a store in any [`Storage`].
///
/// # Errors
/// The errors of [`check`].
///
/// ```
/// # use terrace::{Db, Options, DurabilityMode};
/// use terrace_storage::{Location, Memory, placement::OpenMode};
/// let (place, options) = (Location::Memory(Memory::new()), Options::default());
/// let open = |mode| terrace_storage::open(&place, mode, DurabilityMode::Sync, &options.setup());
/// Db::open_on(open(OpenMode::Create)?, options.clone())?.put("key", "value")?;
/// let report = terrace::check_on(&*open(OpenMode::ReadOnly)?, &options, false)?;
/// assert_eq!((report.wal_entries, report.problems.len()), (1, 0));
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn check_on(storage: &dyn Storage, options: &Options, deep: bool) -> Result<CheckReport> {
    let options = &options.resolved();
    let found = recover::inspect(storage, options)?;
    let mut report = CheckReport { layout: storage.layout(), last_sequence: found.last.0, ..CheckReport::default() };
    report.torn_wals = found.set_aside.iter().map(|log| log.0).collect();
    report.damage = found.damage;
    report.lost = storage.lost()?;
    report.wal_entries = found.replayed_entries;
    let listed = storage.list()?;
    report.problems.extend(orphans::missing_wal(storage, options, &listed)?);
    let sizes: BTreeMap<ObjectId, u64> = listed.iter().map(|found| (found.object, found.bytes)).collect();
    let mut unread = false;
    for (level, table) in found.versions.live().all_tables() {
        let level = LevelName(level);
        report.tables += 1;
        report.table_bytes += table.meta.bytes;
        let wrong = orphans::describe_length_mismatches(storage, &table.meta, &sizes);
        report.problems.extend(wrong.into_iter().map(|problem| format!("{level}: {problem}")));
        match check_table(storage, options, &table.meta, deep) {
            Ok((entries, range_tombstones)) => {
                report.entries += entries;
                report.range_tombstones += range_tombstones;
            }
            Err(problem) => {
                unread = true;
                report.problems.push(format!("{level}: {problem}"));
            }
        }
    }
    let (live, base) = (found.versions.live(), found.versions.base());
    if deep && !unread {
        for (_, tree) in live.trees() {
            report.problems.extend(version_order::check(storage, options.order(), tree, base)?);
        }
    }
    report.problems.extend(bundles_without_directory(storage, live));
    report.leftovers = leftovers(storage, live, &listed);
    Ok(report)
}

/// A level number of [`FamilyId::level`] (family and level in one number), printed in messages.
struct LevelName(usize);

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FamilyId::of_level(self.0) {
            (FamilyId::DEFAULT, level) => write!(f, "level {level}"),
            (family, level) => write!(f, "column family {family}, level {level}"),
        }
    }
}

/// Returns the files that the manifest does not name. WALs and manifests are not included, because
/// the next open replaces all of them.
fn leftovers(storage: &dyn Storage, version: &Version, listed: &[Listed]) -> Vec<String> {
    let named: BTreeSet<ObjectId> = version.all_tables().flat_map(|(_, table)| objects(table)).collect();
    let idle = |object: &ObjectId| match object {
        ObjectId::Table(_) | ObjectId::Bundle(_) | ObjectId::Segment(_) => !named.contains(object),
        ObjectId::Temporary(_) => true,
        ObjectId::Wal(_) | ObjectId::WalSidecar(_) | ObjectId::Manifest(_) => false,
    };
    listed.iter().map(|found| found.object).filter(idle).map(|object| storage.place_of(object)).collect()
}

/// Returns the problems of bundles (files with several SSTables) whose internal directory cannot
/// be read. Only a repair of a store without a manifest needs the directory of a bundle.
fn bundles_without_directory(storage: &dyn Storage, version: &Version) -> Vec<String> {
    let within = version.all_tables().filter_map(|(_, table)| table.meta.within);
    let bundles: BTreeSet<TableId> = within.map(|within| within.bundle).collect();
    let unread = |bundle: TableId| storage.tables_in(bundle).err().map(|error| format!("bundle {bundle}: {error}"));
    bundles.into_iter().filter_map(unread).collect()
}

fn check_table(
    storage: &dyn Storage,
    options: &Options,
    meta: &terrace_storage::placement::TableMeta,
    deep: bool,
) -> std::result::Result<(u64, u64), String> {
    let text = |error: terrace_storage::Error| format!("table {}: {error}", meta.id);
    let table = storage.open_table(meta).map_err(text)?;
    let mut cursor = table.cursor(TableReadOptions { verify: true, fill_cache: false }).map_err(text)?;
    let ranges = table.range_tombstones().map_err(text)?;
    let deletes =
        ranges.iter().flat_map(|ranges| ranges.fragments()).map(|fragment| fragment.sequences.len() as u64).sum();
    let ranges = ranges.and_then(|ranges| ranges.bounds());
    for (at, (name, bound)) in [("first", &meta.smallest), ("last", &meta.largest)].into_iter().enumerate() {
        if name == "first" { cursor.seek_first() } else { cursor.seek_last() }.map_err(text)?;
        let own = cursor.valid().then(|| cursor.key());
        let outermost = own.into_iter().chain(ranges.as_ref().map(|bounds| &*bounds[at])).reduce(|a, b| {
            let a_first = options.order().internal(a, b).is_lt();
            if a_first == (name == "first") { a } else { b }
        });
        let Some(outermost) = outermost else { return Err(format!("table {}: it is empty", meta.id)) };
        if options.order().internal(outermost, bound).is_ne() {
            let (is, says) = (key::user_key(outermost).escape_ascii(), key::user_key(bound).escape_ascii());
            return Err(format!("table {}: its {name} key is {is}, the manifest says {says}", meta.id));
        }
    }
    let entries = if deep { table.verify().map_err(text)?.entries } else { 0 };
    if deep
        && storage.layout().values == Values::Log
        && let Some(wrong) = values::check(storage, meta).map_err(text)?
    {
        return Err(format!("table {}: {wrong}", meta.id));
    }
    Ok((entries, deletes))
}
