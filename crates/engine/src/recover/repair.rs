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
//!
//! A repair salvages one column family after the other: the SSTables that the manifest names in
//! the family, and the family's operations in the WALs. Only a manifest says to which family an
//! SSTable belongs. If a store has several families and no manifest can be read, the repair is
//! refused, because it would merge the key spaces. For the same reason a repair uses no leftover
//! SSTable of such a store.
use super::{
    begin, check_empty, features, fresh_start,
    salvage_scan::{Families, Lost, SalvageScan},
};
use crate::{Options, Result, version::add_to};
use terrace_format::{
    FamilyId,
    edit::{COLUMN_FAMILIES, Edit, FamilyChange},
};
use terrace_storage::placement::Storage;

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
    let options = &options.resolved();
    StoreScan::of(from, options)?.build(from, to, options)
}

/// The scans of a damaged store.
pub struct StoreScan {
    /// One scan for each column family, the default family first.
    scans: Vec<SalvageScan>,
    families: Families,
}

impl StoreScan {
    /// Scans the store in `from`.
    ///
    /// # Errors
    /// The errors of [`SalvageScan::begin`]. [`Error::Unsupported`](crate::Error) if the store has
    /// column families and no manifest can be read.
    pub fn of(from: &dyn Storage, options: &Options) -> Result<StoreScan> {
        let (begun, manifest) = SalvageScan::begin(from, options)?;
        if manifest.is_none() {
            features::refuse_families(from)?;
        }
        let families = begun.families.clone();
        let ids = [FamilyId::DEFAULT].into_iter().chain(families.names.keys().copied());
        let scans = ids.map(|id| begun.clone().scan(from, options, manifest.as_ref(), id));
        let mut scans = scans.collect::<Result<Vec<_>>>()?;
        if scans.len() > 1 {
            // Together, the WAL entries of many families could take much memory, so they are
            // dropped here and read again later.
            scans.iter_mut().for_each(SalvageScan::forget_entries);
        }
        Ok(StoreScan { scans, families })
    }

    /// Writes the newest version of each key of each family into the empty store `to`.
    pub fn build(&self, from: &dyn Storage, to: &dyn Storage, options: &Options) -> Result<RepairReport> {
        to.settle(&[])?;
        let mut requires = features::create(to, options)?;
        let mut start = fresh_start(&[]);
        let mut edit = Edit::default();
        if self.families.next > FamilyId(1) {
            features::announce_families(to, &requires)?;
            if !requires.iter().any(|feature| feature == COLUMN_FAMILIES) {
                requires.push(COLUMN_FAMILIES.into());
            }
            start.next_family = self.families.next;
            let comparator = options.order().name();
            let created = self.families.names.iter().map(|(id, name)| FamilyChange::Created {
                id: *id,
                name: name.to_string(),
                comparator: comparator.to_string(),
            });
            edit.families.extend(created);
        }
        let mut report = RepairReport::default();
        for scan in &self.scans {
            let built = scan.build(from, to, options, &mut start.next_file)?;
            report.tables += built.tables_read;
            report.logs = report.logs.max(built.logs_read);
            report.pairs += built.pairs;
            report.bytes += built.metas.iter().map(|meta| meta.bytes).sum::<u64>();
            report.last_sequence = report.last_sequence.max(built.last.0);
            add_new(&mut report.lost, built.lost);
            start.base = start.base.max(built.last);
            built.metas.iter().for_each(|meta| add_to(&mut edit, scan.family.level(built.level), meta));
        }
        start.version = start.version.apply(options.order(), &edit).map_err(crate::Error::Bug)?;
        begin(to, options, start, requires, &[])?;
        Ok(report)
    }
}

/// Adds to `lost` the losses of `found` that it does not contain yet. The scans of all column
/// families read the same WALs and manifests, and find the same losses in them.
fn add_new(lost: &mut Vec<Lost>, found: Vec<Lost>) {
    for loss in found {
        if !lost.contains(&loss) {
            lost.push(loss);
        }
    }
}
