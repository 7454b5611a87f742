//! Salvage scan: determines which files of a damaged store a repair uses, and which parts of them
//! cannot be read.
//!
//! Without a manifest the repair uses every table and WAL. If the manifest that the root names is
//! damaged, an older intact manifest replaces it. A file that the intact manifest does not name is
//! a leftover. A leftover may contain old versions of keys, which must not replace newer data. The
//! repair therefore uses entries of leftovers only for keys that a named table has lost, and for
//! sequence numbers above the manifest's base (the last sequence number that is in tables).
//!
//! The scan reads each file once and writes nothing. It keeps WAL entries in memory up to the
//! bound of [`LogEntries`].
use super::{
    manifest::{self, ManifestState},
    orphans,
    spill::LogEntries,
};
use crate::{Error, Options, Result, bulk::SEQUENCES_AHEAD, mem::MemTable};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    sync::Arc,
};
use terrace_format::{FamilyId, KeyOrder, LogId, RangeTombstones, SeqNo, TableId, key};
use terrace_storage::placement::{Listed, Loss, ObjectId, Piece, Salvage, Storage, TableMeta, Within};

mod logs;

/// Sequence numbers from this one on are impossible: no store can reach them.
pub const SEQUENCES_END: SeqNo = SeqNo::MAX;

/// A part of a file that a repair could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The kind of damage.
    pub reason: String,
    /// Smallest user key that may be lost; `None` if unknown.
    pub from: Option<Vec<u8>>,
    /// Largest user key that may be lost; `None` if unknown.
    pub to: Option<Vec<u8>>,
}

/// First and last user key of a key range that may be lost; `None` if unknown.
type LostRange = (Option<Vec<u8>>, Option<Vec<u8>>);

/// An SSTable that can be read at least in part.
#[derive(Clone, Debug)]
pub struct Readable {
    /// The number and the location of the table.
    pub meta: TableMeta,
    /// Whether the repair uses all entries of the table. False for a leftover (a table that the
    /// manifest does not name), whose entries are used only for lost keys and for sequence numbers
    /// above the manifest's base.
    pub named: bool,
    /// First and last internal key in the readable part.
    pub bounds: (Vec<u8>, Vec<u8>),
}

/// The column families that a manifest names.
#[derive(Clone, Debug, Default)]
pub struct Families {
    /// The names of the families other than the default one.
    pub names: BTreeMap<FamilyId, Arc<str>>,
    /// No family of the store had this number or a larger one. Zero without a manifest.
    pub next: FamilyId,
}

/// The result of the scan, for one column family.
#[derive(Clone)]
pub struct SalvageScan {
    order: KeyOrder,
    /// The family whose tables and WAL entries the scan has.
    pub family: FamilyId,
    /// The families of the store.
    pub families: Families,
    /// The tables that the manifest names in other families.
    elsewhere: BTreeSet<TableId>,
    /// The files of the store.
    listed: Vec<Listed>,
    /// Tables that can be read at least in part.
    pub tables: Vec<Readable>,
    /// Memtables with WAL entries, each with a flag that is true if the repair uses all its
    /// entries. The list is empty if `overflowed` is set.
    pub memtables: Vec<(Arc<MemTable>, bool)>,
    /// Whether the WAL entries were too many for memory. If so, [`spill`](SalvageScan::spill) reads
    /// the WALs again.
    overflowed: bool,
    /// The range tombstones found. The repair uses each of them, whatever file it was found in,
    /// because a range tombstone deletes only older entries.
    pub range_tombstones: RangeTombstones,
    /// Whether a damaged table may contain range tombstones that cannot be read.
    may_delete_ranges: bool,
    /// Number of WALs of which at least one entry was read.
    pub logs_read: u64,
    /// All parts that cannot be read.
    pub lost: Vec<Lost>,
    /// The newest sequence number found.
    pub last: SeqNo,
    /// The tables that the manifest names have all writes up to this sequence number. Without a
    /// manifest it is the maximum sequence number.
    base: SeqNo,
    /// The WALs that the manifest still needs: the first one to replay, and an older one that
    /// LevelDB may name. `None` without a manifest.
    replay_range: Option<(LogId, Option<LogId>)>,
    /// Whether an older manifest replaces a damaged one. Later changes of the store are in files
    /// that the older manifest does not name.
    is_older: bool,
    /// The next sequence number expected in WALs of Terrace; `None` if unknown.
    expected: Option<SeqNo>,
    /// For each WAL, oldest first, the sequence number at which the history ends in this WAL. The
    /// first pass over the WALs computes these numbers. The second pass reuses them, because on a
    /// failing disk it might read other bytes.
    history_ends: Vec<SeqNo>,
    /// Ranges of user keys that named tables have lost.
    lost_ranges: Vec<LostRange>,
    /// The first file that this process has no permission to read.
    denied: Option<Error>,
}

impl SalvageScan {
    /// Begins the scan of the store in `from`: lists its files and reads its manifest, if one can
    /// be read. [`scan`](SalvageScan::scan) then scans one column family.
    ///
    /// # Errors
    /// [`Error::Missing`] if `from` contains no file of a store. [`Error::Invalid`] if the store
    /// has another comparator. [`Error::Io`] if this process has no permission to read a file: such
    /// a file is not damaged, and skipping it would lose data.
    pub fn begin(from: &dyn Storage, options: &Options) -> Result<(SalvageScan, Option<ManifestState>)> {
        let listed = from.list()?;
        if !listed.iter().any(|found| !matches!(found.object, ObjectId::Temporary(_))) {
            let object = format!("{} has no table, WAL or manifest, so there is nothing to repair", from.name());
            return Err(Error::Missing { what: "store", object });
        }
        let mut salvage_scan = SalvageScan {
            order: options.order().clone(),
            family: FamilyId::DEFAULT,
            families: Families::default(),
            elsewhere: BTreeSet::new(),
            listed: listed.clone(),
            tables: Vec::new(),
            memtables: Vec::new(),
            overflowed: false,
            range_tombstones: RangeTombstones::default(),
            may_delete_ranges: from.load_format_file().map_or(true, |marker| marker.is_some()),
            logs_read: 0,
            lost: Vec::new(),
            last: SeqNo::ZERO,
            base: SeqNo::ZERO,
            replay_range: None,
            is_older: false,
            expected: None,
            history_ends: Vec::new(),
            lost_ranges: Vec::new(),
            denied: None,
        };
        let manifest = salvage_scan.manifest(from, options, &listed)?;
        salvage_scan.base = manifest.as_ref().map_or(SEQUENCES_END, |manifest| manifest.base);
        salvage_scan.last = manifest.as_ref().map_or(SeqNo::ZERO, |manifest| manifest.base);
        salvage_scan.replay_range = manifest.as_ref().map(|manifest| (manifest.replay_from, manifest.prev_log));
        salvage_scan.expected = manifest
            .as_ref()
            .filter(|manifest| manifest.ours && !salvage_scan.is_older)
            .map(|manifest| manifest.base.plus(1));
        if let Some(manifest) = &manifest {
            let families = manifest.version.families();
            let names = families.iter().map(|(id, family)| (*id, family.name.clone())).collect();
            salvage_scan.families = Families { names, next: manifest.next_family };
        }
        Ok((salvage_scan, manifest))
    }

    /// Scans column family `family` of the store in `from`, whose manifest is `manifest`.
    ///
    /// # Errors
    /// The errors of [`begin`](SalvageScan::begin).
    pub fn scan(
        mut self,
        from: &dyn Storage,
        options: &Options,
        manifest: Option<&ManifestState>,
        family: FamilyId,
    ) -> Result<SalvageScan> {
        self.family = family;
        let mut named: BTreeMap<TableId, TableMeta> = BTreeMap::new();
        for (of, tree) in manifest.into_iter().flat_map(|manifest| manifest.version.trees()) {
            let tables = tree.tables().map(|(_, table)| &table.meta);
            match of == family {
                true => named.extend(tables.map(|meta| (meta.id, meta.clone()))),
                false => self.elsewhere.extend(tables.map(|meta| meta.id)),
            }
        }
        // WALs and segments are scanned after tables: the key ranges that tables have lost decide
        // which entries of WALs and segments the repair uses.
        for found in self.listed.clone() {
            match found.object {
                ObjectId::Table(id) => {
                    let meta = named.remove(&id);
                    self.table(from, TableMeta::unbounded(id, found.bytes), meta.as_ref(), manifest.is_none());
                }
                ObjectId::Bundle(id) => self.bundle(from, id, found.bytes, &mut named, manifest.is_none()),
                ObjectId::Wal(_) | ObjectId::WalSidecar(_) | ObjectId::Segment(_) => {}
                ObjectId::Manifest(_) | ObjectId::Temporary(_) => {}
            }
        }
        for meta in named.values() {
            let loss = Loss { offset: 0, bytes: meta.bytes, reason: "it is missing".into(), from: None, to: None };
            self.lose(from.place_of(ObjectId::Table(meta.id)), loss, Some(meta));
        }
        let mut entries = LogEntries::in_memory(options, family, from.budget());
        self.scan_logs(from, &mut entries)?;
        if let Some(denied) = self.denied {
            return Err(denied);
        }
        let collected = entries.collected()?;
        (self.memtables, self.overflowed) = (collected.memtables, collected.overflowed);
        self.add_range_tombstones(&collected.range_tombstones);
        Ok(self)
    }

    /// Drops the WAL entries, which [`spill`](SalvageScan::spill) then reads again.
    pub fn forget_entries(&mut self) {
        self.memtables.clear();
        self.overflowed = true;
    }

    fn add_range_tombstones(&mut self, found: &RangeTombstones) {
        self.range_tombstones.extend(&self.order, found);
        let newest = self.range_tombstones.fragments().iter().filter_map(|fragment| fragment.sequences.first());
        self.last = newest.copied().fold(self.last, SeqNo::max);
    }

    /// Scans the tables of bundle `id` (a file of several tables), which has `bytes` bytes. It
    /// scans the tables that a manifest names and those in the bundle's own directory. If neither
    /// the manifest nor the directory locates a table, the function reads the bundle as if it were
    /// one table, which works because the entries of a bundle are in order.
    fn bundle(
        &mut self,
        from: &dyn Storage,
        id: TableId,
        bytes: u64,
        named: &mut BTreeMap<TableId, TableMeta>,
        alone: bool,
    ) {
        let within = |meta: &TableMeta| meta.within.is_some_and(|within| within.bundle == id);
        let in_manifest: Vec<_> = named.extract_if(.., |_, meta| within(meta)).map(|(_, meta)| meta).collect();
        let listed = from.tables_in(id);
        if let Err(error) = &listed
            && alone
        {
            let text = self.reason(error.clone());
            self.lose(from.place_of(ObjectId::Bundle(id)), whole(format!("{text}; so it is read as one table")), None);
        }
        let whole = TableMeta { within: Some(Within { bundle: id, offset: 0 }), ..TableMeta::unbounded(id, bytes) };
        let not_named = |meta: &TableMeta| in_manifest.iter().all(|named| named.id != meta.id);
        let others: Vec<_> = match listed {
            Ok(listed) => listed.into_iter().filter(not_named).collect(),
            Err(_) if in_manifest.is_empty() => vec![whole],
            Err(_) => Vec::new(),
        };
        for meta in in_manifest {
            let present = bytes.saturating_sub(meta.within.map_or(0, |within| within.offset)).min(meta.bytes);
            self.table(from, TableMeta { bytes: present, ..meta.clone() }, Some(&meta), alone);
        }
        others.into_iter().for_each(|meta| self.table(from, meta, None, alone));
    }

    /// Adds the range tombstones of a table to those found so far. Returns the first and the last
    /// key of the table's range tombstones, if they can be read.
    fn ranges_of(&mut self, file: &str, salvage: &dyn Salvage, named: bool) -> Option<[Vec<u8>; 2]> {
        match salvage.range_tombstones() {
            Ok(Some(found)) => {
                let bounds = found.bounds();
                let possible = |seq: &SeqNo| *seq < SEQUENCES_END; // as for entries
                let mut found = RangeTombstones::clone(&found);
                found.keep(|fragment| fragment.sequences.iter().copied().filter(possible).collect());
                self.range_tombstones.extend(&self.order, &found);
                bounds
            }
            Ok(None) => None,
            Err(error) => {
                if named && self.may_delete_ranges {
                    // The table's range tombstones cannot be read. No key range is reported as
                    // lost, because the other entries of the table are present.
                    let text = format!("{}; range tombstones that the table may hold are lost", reason(&error.into()));
                    self.lose(file.to_string(), whole(text), None);
                }
                None
            }
        }
    }

    /// Reports a loss if the table in `file` is not the one that the manifest describes. `whole`
    /// means that the whole table could be read.
    fn identify(
        &mut self,
        file: &str,
        ends: Option<[&[u8]; 2]>,
        ranges: Option<[Vec<u8>; 2]>,
        meta: &TableMeta,
        whole: bool,
    ) {
        let order = self.order.clone();
        let is = |a: &[u8], b: &[u8], wanted: Ordering| order.internal(a, b) == wanted;
        let foreign = ends.is_some_and(|[first, last]| {
            is(first, &meta.smallest, Ordering::Less) || is(last, &meta.largest, Ordering::Greater)
        });
        let reaches = |at: usize, bound: &[u8]| {
            let same = |key: &[u8]| is(key, bound, Ordering::Equal);
            ends.is_some_and(|ends| same(ends[at])) || ranges.as_ref().is_some_and(|ranges| same(&ranges[at]))
        };
        if !foreign && (!whole || reaches(0, &meta.smallest) && reaches(1, &meta.largest)) {
            return;
        }
        let user = |key: &[u8]| key::user_key(key).escape_ascii().to_string();
        let is = ends.map_or("it holds nothing".to_string(), |[a, b]| {
            format!("its keys lie from '{}' to '{}'", user(a), user(b))
        });
        let reason = format!(
            "it is another table than the one that the manifest names: {is}, the manifest says from '{}' to '{}'",
            user(&meta.smallest),
            user(&meta.largest)
        );
        let loss = Loss { offset: 0, bytes: meta.bytes, reason, from: None, to: None };
        self.lose(file.to_string(), loss, Some(meta));
    }

    /// Returns whether the repair uses the entry with the key `internal`. The repair does not use
    /// an entry of a leftover (a file that the manifest does not name) if newer data for the same
    /// key is intact.
    pub fn counts(&self, named: bool, internal: &[u8]) -> bool {
        let entry = key::apart(internal);
        named || entry.seq > self.base || self.is_in_lost_range(entry.user)
    }

    fn is_in_lost_range(&self, user: &[u8]) -> bool {
        let within = |(from, to): &LostRange| {
            from.as_ref().is_none_or(|from| self.order.user(from, user).is_le())
                && to.as_ref().is_none_or(|to| self.order.user(user, to).is_le())
        };
        self.lost_ranges.iter().any(within)
    }

    /// Returns the manifest that the repair uses. This is the manifest that the root names, if it
    /// is intact and matches the files. Otherwise it is the youngest other manifest that is intact
    /// and whose tables are all present. Returns an error if the manifest names another comparator.
    fn manifest(&mut self, from: &dyn Storage, options: &Options, listed: &[Listed]) -> Result<Option<ManifestState>> {
        let manifests = listed.iter().rev().filter_map(|found| match found.object {
            ObjectId::Manifest(id) => Some(id),
            _ => None,
        });
        let mut manifests: Vec<LogId> = manifests.collect();
        manifests.sort_by(|a, b| b.cmp(a));
        let current = format!("{}/CURRENT", from.name());
        let root = match from.load_root() {
            Ok(Some(id)) => Some(id),
            Ok(None) => {
                self.lose(current, whole("it is missing"), None);
                manifests.first().copied()
            }
            Err(error) => {
                let reason = self.reason(error);
                self.lose(current, whole(reason), None);
                manifests.first().copied()
            }
        };
        let Some(id) = root else { return Ok(None) };
        let (offset, why) = match self.whole_manifest(from, options, id)? {
            Ok(manifest) if is_complete(&manifest, listed) => return Ok(Some(manifest)),
            Ok(manifest) => (0, format!("it names WAL {}, which is missing", manifest.replay_from)),
            Err(why) => why,
        };
        let lost = |what: String| Loss { offset, ..whole(format!("{why}; {what}")) };
        for other in manifests.into_iter().filter(|other| *other != id) {
            let Ok(Ok(manifest)) = self.whole_manifest(from, options, other) else { continue };
            if orphans::check_tables_present(from, &manifest.version, listed).is_err() {
                continue;
            }
            let place = from.place_of(ObjectId::Manifest(other));
            let what =
                format!("the older manifest {place}, which is intact, is used, with newer entries of other files");
            self.lose(from.place_of(ObjectId::Manifest(id)), lost(what), None);
            self.is_older = true;
            return Ok(Some(manifest));
        }
        let what = "so every file counts, whether it was in use or not".to_string();
        self.lose(from.place_of(ObjectId::Manifest(id)), lost(what), None);
        Ok(None)
    }

    /// Scans a table; `meta` is its description in the manifest, if it has one.
    fn table(&mut self, from: &dyn Storage, found: TableMeta, meta: Option<&TableMeta>, alone: bool) {
        // Without the name of its family a table is of no use. It is a loss if the WALs with its
        // entries may be gone; the scan of the default family reports that.
        let of_unknown_family = meta.is_none() && self.families.next > FamilyId(1);
        let is_reported = self.is_older && self.family == FamilyId::DEFAULT;
        if self.elsewhere.contains(&found.id) || of_unknown_family && !is_reported {
            return;
        }
        let (bytes, named) = (found.bytes, meta.is_some() || alone);
        let file = match found.within {
            None => from.place_of(ObjectId::Table(found.id)),
            Some(Within { bundle, .. }) => format!("{} (table {})", from.place_of(ObjectId::Bundle(bundle)), found.id),
        };
        // The manifest states the length of the table. Bytes after this length are not part of the
        // table.
        let mut found = found;
        if let Some(meta) = meta {
            found.bytes = bytes.min(meta.bytes);
            (found.smallest, found.largest) = (meta.smallest.clone(), meta.largest.clone());
        }
        let losses = self.lost.len();
        let mut salvage = match from.salvage(&found) {
            Ok(salvage) => salvage,
            Err(error) => {
                let reason = self.reason(error);
                return if named {
                    self.lose(file, Loss { bytes, ..whole(reason) }, meta)
                };
            }
        };
        // The range tombstones of another family would delete keys of this one.
        let ranges = if of_unknown_family { None } else { self.ranges_of(&file, &*salvage, named) };
        let (mut first, mut last, mut sequences) = (Vec::new(), Vec::new(), Sequences::default());
        loop {
            match salvage.next() {
                Piece::End => break,
                Piece::Lost(loss) if named => self.lose(file.clone(), loss, meta),
                Piece::Lost(_) => {}
                Piece::Block(mut entries) => {
                    while entries.valid() {
                        if first.is_empty() {
                            first.extend_from_slice(entries.key());
                        }
                        last.clear();
                        last.extend_from_slice(entries.key());
                        sequences.add(key::apart(entries.key()).seq);
                        if entries.next().is_err() {
                            break; // unreachable: the block was verified
                        }
                    }
                }
            }
        }
        if !named && sequences.of_an_unfinished_ingest(self.base) {
            return;
        }
        if of_unknown_family {
            if sequences.newest > self.base {
                self.lose(file, whole("no manifest names it, so its column family is unknown"), None);
            }
            return;
        }
        self.saw(sequences.newest);
        if sequences.impossible > 0 && named {
            let reason = match sequences.impossible {
                1 => "an entry has a sequence larger than any store reaches".to_string(),
                more => format!("{more} entries have a sequence larger than any store reaches"),
            };
            self.lose(file.clone(), whole(reason), meta);
        }
        if let Some(meta) = meta.filter(|meta| meta.bytes > bytes) {
            let reason = format!("cut short: {bytes} bytes where the manifest says {}", meta.bytes);
            let loss = Loss { offset: bytes, bytes: meta.bytes - bytes, reason, from: None, to: None };
            self.lose(file.clone(), loss, Some(meta));
        }
        if let Some(meta) = meta {
            let ends = (!first.is_empty()).then_some([&first[..], &last[..]]);
            self.identify(&file, ends, ranges, meta, self.lost.len() == losses);
        }
        if !first.is_empty() {
            self.tables.push(Readable { meta: found, named, bounds: (first, last) });
        }
    }

    /// Records that sequence number `seq` was found in the store. Returns whether a store can have
    /// reached this number.
    fn saw(&mut self, seq: SeqNo) -> bool {
        if seq < SEQUENCES_END {
            self.last = self.last.max(seq);
        }
        seq < SEQUENCES_END
    }

    /// Returns manifest `id` if it is intact, and otherwise the offset and the reason of the
    /// damage. Another comparator is an error.
    fn whole_manifest(
        &mut self,
        from: &dyn Storage,
        options: &Options,
        id: LogId,
    ) -> Result<std::result::Result<ManifestState, (u64, String)>> {
        let mut strict = options.clone();
        strict.paranoid_checks = true;
        match manifest::read(from, &strict, id) {
            Ok(manifest) => Ok(Ok(manifest)),
            Err(wrong_order @ Error::Invalid(_)) => Err(wrong_order),
            Err(Error::Corrupt { offset, detail, .. }) => Ok(Err((offset, detail))),
            Err(error) => Ok(Err((0, self.reason(error)))),
        }
    }

    /// Returns the reason of `error` without the name of the file. Keeps the first permission
    /// error.
    fn reason(&mut self, error: impl Into<Error>) -> String {
        let error = error.into();
        let text = reason(&error);
        if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied) {
            self.denied.get_or_insert(error);
        }
        text
    }

    /// Records a loss. If the manifest names the lost table, the repair may use leftovers in the
    /// table's key range.
    fn lose(&mut self, file: String, mut loss: Loss, meta: Option<&TableMeta>) {
        if let Some(meta) = meta {
            let user = |bound: &[u8]| Some(key::user_key(bound).to_vec());
            loss.from = loss.from.or_else(|| user(&meta.smallest));
            loss.to = loss.to.or_else(|| user(&meta.largest));
            self.lost_ranges.push((loss.from.clone(), loss.to.clone()));
        }
        let Loss { offset, bytes, reason, from, to } = loss;
        self.lost.push(Lost { file, offset, bytes, reason, from, to });
    }
}

/// The sequence numbers of a table's entries.
#[derive(Default)]
struct Sequences {
    entries: u64,
    /// The sequence number that all entries of the table share; `None` if they differ.
    only: Option<SeqNo>,
    /// The newest sequence number that a store can reach.
    newest: SeqNo,
    /// Number of entries with a sequence number that no store can reach.
    impossible: u64,
}

impl Sequences {
    fn add(&mut self, seq: SeqNo) {
        self.only = if self.entries == 0 { Some(seq) } else { self.only.filter(|only| *only == seq) };
        self.entries += 1;
        self.impossible += u64::from(seq >= SEQUENCES_END);
        if seq < SEQUENCES_END {
            self.newest = self.newest.max(seq);
        }
    }

    /// Returns whether an interrupted ingest wrote the table. No manifest names such a table, and
    /// its entries were never visible. All its entries share one sequence number, far above the
    /// numbers of other tables. A flushed memtable, by contrast, has as many sequence numbers as
    /// entries.
    fn of_an_unfinished_ingest(&self, base: SeqNo) -> bool {
        let far = |only: SeqNo| only.0.saturating_sub(base.0) >= SEQUENCES_AHEAD;
        self.only.is_some_and(|only| only > base && (self.entries > 1 || far(only)))
    }
}

/// Returns whether no edit of the manifest is missing. A manifest that was cut between two edits
/// names a WAL that no longer exists. In a manifest that LevelDB's repair wrote, the WAL number 0
/// means "no WAL".
fn is_complete(manifest: &ManifestState, listed: &[Listed]) -> bool {
    let from = manifest.replay_from;
    from == LogId(0) || listed.iter().any(|found| found.object == ObjectId::Wal(from))
}

/// Returns the loss of a whole file, for unknown keys.
fn whole(reason: impl Into<String>) -> Loss {
    Loss { offset: 0, bytes: 0, reason: reason.into(), from: None, to: None }
}

/// Returns the reason of `error` without the name of the file.
pub fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { detail, .. } => detail.clone(),
        Error::Io { op, source, .. } => format!("{op}: {source}"),
        Error::Missing { .. } => "it is missing".into(),
        other => other.to_string(),
    }
}
