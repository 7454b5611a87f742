//! What is left of a damaged store: which files count, and what of them cannot be read.
//!
//! Without a manifest every table and log counts. Where the one that the root names is damaged, an older one that is still there and whole
//! stands in for it. A manifest that is whole says more: files that it does not name are leftovers,
//! whose old versions must not come back. They count only where named tables have lost something, and for what is newer than
//! the manifest's base.
use super::{
    manifest::{self, ManifestState},
    orphans,
};
use crate::{Error, Options, Result, bulk::SEQUENCES_AHEAD, mem::MemTable};
use std::{cmp::Ordering, collections::BTreeMap, io::ErrorKind, sync::Arc};
use terrace_format::{KeyOrder, LogId, RangeTombstones, SeqNo, TableId, key};
use terrace_storage::{
    Budget,
    placement::{Listed, Loss, ObjectId, Piece, Salvage, Storage, TableMeta, Within},
};

mod logs;

/// Sequences from here on cannot be: no store reaches them, and one that did could not go on.
pub const SEQUENCES_END: SeqNo = SeqNo::MAX;

/// Something that a repair could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong with them.
    pub reason: String,
    /// No key before this one was among them; `None` if that cannot be told.
    pub from: Option<Vec<u8>>,
    /// No key behind this one was among them; `None` if that cannot be told.
    pub to: Option<Vec<u8>>,
}

/// First and last user key of what was lost; `None` if that cannot be told.
type Gap = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A table of which something can be read.
#[derive(Clone, Debug)]
pub struct Readable {
    /// Its number and where it is.
    pub meta: TableMeta,
    /// Whether it counts for all keys.
    pub named: bool,
    /// First and last internal key that can be read.
    pub bounds: (Vec<u8>, Vec<u8>),
}

/// All there is.
pub struct Survey {
    order: KeyOrder,
    /// Of the store that is read; memtables count there.
    budget: Arc<Budget>,
    /// Of which something can be read.
    pub tables: Vec<Readable>,
    /// What the logs say, and whether it counts for all keys.
    pub memtables: Vec<(Arc<MemTable>, bool)>,
    /// Deletes of ranges. They count wherever they were found: whatever is older was deleted.
    pub range_tombstones: RangeTombstones,
    /// Whether tables may hold some that are not found where a table is damaged.
    may_delete_ranges: bool,
    /// Logs of which something was read.
    pub logs_read: u64,
    /// What cannot be read.
    pub lost: Vec<Lost>,
    /// The newest sequence found.
    pub last: SeqNo,
    /// Everything up to it is in tables that the manifest names; the largest of all without a manifest.
    base: SeqNo,
    /// The manifest is not the last one: what came after it lies in files that it does not name.
    is_older: bool,
    /// The next sequence that our logs should have; `None` if that cannot be told.
    expected: Option<SeqNo>,
    /// User keys between which named tables have lost something.
    gaps: Vec<Gap>,
    /// The first file that this process may not read.
    denied: Option<Error>,
}

impl Survey {
    /// Reads everything that `from` holds, once.
    ///
    /// # Errors
    /// [`Error::Missing`] if it holds no file of a store, [`Error::Invalid`] if the order of keys is another, [`Error::Io`] if a file may
    /// not be read: that is no damage, and leaving the file out would make a loss of it.
    pub fn of(from: &dyn Storage, options: &Options) -> Result<Survey> {
        let listed = from.list()?;
        if !listed.iter().any(|found| !matches!(found.object, ObjectId::Temporary(_))) {
            let object = format!("{} has no table, WAL or manifest, so there is nothing to repair", from.name());
            return Err(Error::Missing { what: "store", object });
        }
        let mut survey = Survey {
            order: options.order().clone(),
            budget: from.budget().clone(),
            tables: Vec::new(),
            memtables: Vec::new(),
            range_tombstones: RangeTombstones::default(),
            may_delete_ranges: from.load_marker().map_or(true, |marker| marker.is_some()),
            logs_read: 0,
            lost: Vec::new(),
            last: SeqNo::ZERO,
            base: SeqNo::ZERO,
            is_older: false,
            expected: None,
            gaps: Vec::new(),
            denied: None,
        };
        let manifest = survey.manifest(from, options, &listed)?;
        survey.base = manifest.as_ref().map_or(SEQUENCES_END, |manifest| manifest.base);
        survey.last = manifest.as_ref().map_or(SeqNo::ZERO, |manifest| manifest.base);
        survey.expected = manifest
            .as_ref()
            .filter(|manifest| manifest.ours && !survey.is_older)
            .map(|manifest| manifest.base.plus(1));
        let mut named: BTreeMap<TableId, TableMeta> = BTreeMap::new();
        if let Some(manifest) = &manifest {
            named.extend(manifest.version.tables().map(|(_, table)| (table.meta.id, table.meta.clone())));
        }
        // Logs and moved values come last: what of them counts depends on what tables have lost.
        for found in &listed {
            match found.object {
                ObjectId::Table(id) => {
                    let meta = named.remove(&id);
                    survey.table(from, TableMeta::unbounded(id, found.bytes), meta.as_ref(), manifest.is_none());
                }
                ObjectId::Bundle(id) => survey.bundle(from, id, found.bytes, &mut named, manifest.is_none()),
                ObjectId::Wal(_) | ObjectId::SmallLog(_) | ObjectId::Segment(_) => {}
                ObjectId::Manifest(_) | ObjectId::Temporary(_) => {}
            }
        }
        for meta in named.values() {
            let loss = Loss { offset: 0, bytes: meta.bytes, reason: "it is missing".into(), from: None, to: None };
            survey.lose(from.place_of(ObjectId::Table(meta.id)), loss, Some(meta));
        }
        survey.logs(from, options, &orphans::logs(&listed), manifest.as_ref());
        for found in &listed {
            if let ObjectId::Segment(id) = found.object {
                survey.moved(from, options, id, manifest.is_none());
            }
        }
        if let Some(denied) = survey.denied {
            return Err(denied);
        }
        for (mem, _) in &survey.memtables {
            survey.range_tombstones.extend(&survey.order, &mem.range_tombstones());
        }
        let newest = survey.range_tombstones.fragments().iter().filter_map(|fragment| fragment.sequences.first());
        survey.last = newest.copied().fold(survey.last, SeqNo::max);
        Ok(survey)
    }

    /// Reads the tables of bundle `id`, of so many bytes: those that a manifest names, and those that it lists itself. If nothing
    /// tells where they are, it is read as one table, as which its entries are in order too.
    fn bundle(
        &mut self,
        from: &dyn Storage,
        id: TableId,
        bytes: u64,
        named: &mut BTreeMap<TableId, TableMeta>,
        alone: bool,
    ) {
        let within = |meta: &TableMeta| meta.within.is_some_and(|within| within.bundle == id);
        let told: Vec<_> = named.extract_if(.., |_, meta| within(meta)).map(|(_, meta)| meta).collect();
        let listed = from.tables_in(id);
        if let Err(error) = &listed
            && alone
        {
            let text = self.reason(error.clone());
            self.lose(from.place_of(ObjectId::Bundle(id)), whole(format!("{text}; so it is read as one table")), None);
        }
        let whole = TableMeta { within: Some(Within { bundle: id, offset: 0 }), ..TableMeta::unbounded(id, bytes) };
        let untold = |meta: &TableMeta| told.iter().all(|named| named.id != meta.id);
        let others: Vec<_> = match listed {
            Ok(listed) => listed.into_iter().filter(untold).collect(),
            Err(_) if told.is_empty() => vec![whole],
            Err(_) => Vec::new(),
        };
        for meta in told {
            let there = bytes.saturating_sub(meta.within.map_or(0, |within| within.offset)).min(meta.bytes);
            self.table(from, TableMeta { bytes: there, ..meta.clone() }, Some(&meta), alone);
        }
        others.into_iter().for_each(|meta| self.table(from, meta, None, alone));
    }

    /// Takes over what a table has of deletes of ranges. What bounds them, if they could be read.
    fn ranges_of(&mut self, file: &str, salvage: &dyn Salvage, named: bool) -> Option<[Vec<u8>; 2]> {
        match salvage.range_tombstones() {
            Ok(Some(found)) => {
                let bounds = found.bounds();
                let reached = |seq: &SeqNo| *seq < SEQUENCES_END; // of entries with others no store is made, either
                let mut found = RangeTombstones::clone(&found);
                found.keep(|fragment| fragment.sequences.iter().copied().filter(reached).collect());
                self.range_tombstones.extend(&self.order, &found);
                bounds
            }
            Ok(None) => None,
            Err(error) => {
                if named && self.may_delete_ranges {
                    // No gap: what else the table holds is there.
                    let text = format!("{}; deletes of ranges that the table may have are lost", reason(&error.into()));
                    self.lose(file.to_string(), whole(text), None);
                }
                None
            }
        }
    }

    /// Lists it as a loss if what was found of a table, all of which could be read, is not what the manifest tells of.
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

    /// Whether an entry counts. All do, but those of leftovers for which something newer is known to be there.
    pub fn counts(&self, named: bool, internal: &[u8]) -> bool {
        let entry = key::apart(internal);
        named || entry.seq > self.base || self.is_in_a_gap(entry.user)
    }

    fn is_in_a_gap(&self, user: &[u8]) -> bool {
        let within = |(from, to): &Gap| {
            from.as_ref().is_none_or(|from| self.order.user(from, user).is_le())
                && to.as_ref().is_none_or(|to| self.order.user(user, to).is_le())
        };
        self.gaps.iter().any(within)
    }

    /// The manifest, if it is whole and what it says fits what is there; else the youngest other one that is whole and whose tables are
    /// all there. A wrong comparator is an error.
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
            Ok(manifest) => (0, format!("it names log {}, which is missing", manifest.replay_from)),
            Err(why) => why,
        };
        let lost = |what: String| Loss { offset, ..whole(format!("{why}; {what}")) };
        for other in manifests.into_iter().filter(|other| *other != id) {
            let Ok(Ok(manifest)) = self.whole_manifest(from, options, other) else { continue };
            if orphans::check_tables_present(from, &manifest.version, listed).is_err() {
                continue;
            }
            let place = from.place_of(ObjectId::Manifest(other));
            let what = format!("so {place} counts, which is whole, and of other files what is newer than that");
            self.lose(from.place_of(ObjectId::Manifest(id)), lost(what), None);
            self.is_older = true;
            return Ok(Some(manifest));
        }
        let what = "so every file counts, whether it was in use or not".to_string();
        self.lose(from.place_of(ObjectId::Manifest(id)), lost(what), None);
        Ok(None)
    }

    /// Reads what there is of a table; `meta` is what a manifest says of it, if one does.
    fn table(&mut self, from: &dyn Storage, there: TableMeta, meta: Option<&TableMeta>, alone: bool) {
        let (bytes, named) = (there.bytes, meta.is_some() || alone);
        let file = match there.within {
            None => from.place_of(ObjectId::Table(there.id)),
            Some(Within { bundle, .. }) => format!("{} (table {})", from.place_of(ObjectId::Bundle(bundle)), there.id),
        };
        // What lies behind the end that the manifest knows is no part of the table.
        let mut there = there;
        if let Some(meta) = meta {
            there.bytes = bytes.min(meta.bytes);
            (there.smallest, there.largest) = (meta.smallest.clone(), meta.largest.clone());
        }
        let losses = self.lost.len();
        let mut salvage = match from.salvage(&there) {
            Ok(salvage) => salvage,
            Err(error) => {
                let reason = self.reason(error);
                return if named {
                    self.lose(file, Loss { bytes, ..whole(reason) }, meta)
                };
            }
        };
        let ranges = self.ranges_of(&file, &*salvage, named);
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
                            break; // it was walked before
                        }
                    }
                }
            }
        }
        if !named && sequences.of_an_unfinished_ingest(self.base) {
            return;
        }
        self.saw(sequences.newest);
        if sequences.absurd > 0 && named {
            let reason = format!("{} entries have a sequence larger than any store reaches", sequences.absurd);
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
            self.tables.push(Readable { meta: there, named, bounds: (first, last) });
        }
    }

    /// Whether a store can have reached `seq`.
    fn saw(&mut self, seq: SeqNo) -> bool {
        if seq < SEQUENCES_END {
            self.last = self.last.max(seq);
        }
        seq < SEQUENCES_END
    }

    /// Manifest `id`, if it is whole; else where it is not, and why. A wrong comparator is an error.
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

    /// What went wrong, without the name of the file. Notes a refusal of access.
    fn reason(&mut self, error: impl Into<Error>) -> String {
        let error = error.into();
        let text = reason(&error);
        if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied) {
            self.denied.get_or_insert(error);
        }
        text
    }

    /// Notes a loss; one of a table that a manifest names opens a gap for leftovers.
    fn lose(&mut self, file: String, mut loss: Loss, meta: Option<&TableMeta>) {
        if let Some(meta) = meta {
            let user = |bound: &[u8]| Some(key::user_key(bound).to_vec());
            loss.from = loss.from.or_else(|| user(&meta.smallest));
            loss.to = loss.to.or_else(|| user(&meta.largest));
            self.gaps.push((loss.from.clone(), loss.to.clone()));
        }
        let Loss { offset, bytes, reason, from, to } = loss;
        self.lost.push(Lost { file, offset, bytes, reason, from, to });
    }
}

/// The sequences of a table's entries.
#[derive(Default)]
struct Sequences {
    entries: u64,
    /// Of the first entry; `None` if others have others.
    only: Option<SeqNo>,
    /// Of those that a store can have reached.
    newest: SeqNo,
    /// Entries with others.
    absurd: u64,
}

impl Sequences {
    fn add(&mut self, seq: SeqNo) {
        self.only = if self.entries == 0 { Some(seq) } else { self.only.filter(|only| *only == seq) };
        self.entries += 1;
        self.absurd += u64::from(seq >= SEQUENCES_END);
        if seq < SEQUENCES_END {
            self.newest = self.newest.max(seq);
        }
    }

    /// Whether a table that no manifest names was prepared by an ingest that did not end: what it holds was never written. All
    /// entries of such tables have one sequence, far ahead of the others; a memtable has as many as it has entries.
    fn of_an_unfinished_ingest(&self, base: SeqNo) -> bool {
        let far = |only: SeqNo| only.0.saturating_sub(base.0) >= SEQUENCES_AHEAD;
        self.only.is_some_and(|only| only > base && (self.entries > 1 || far(only)))
    }
}

/// Whether the manifest can be all that its store's manifest was: one that was cut at the end of an edit names a log that is
/// gone. Zero stands for none in a manifest that LevelDB's own repair wrote.
fn is_complete(manifest: &ManifestState, listed: &[Listed]) -> bool {
    let from = manifest.replay_from;
    from == LogId(0) || listed.iter().any(|found| found.object == ObjectId::Wal(from))
}

/// All of a file, about whose keys nothing is known.
fn whole(reason: impl Into<String>) -> Loss {
    Loss { offset: 0, bytes: 0, reason: reason.into(), from: None, to: None }
}

/// What went wrong, without the name of the file.
pub fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { detail, .. } => detail.clone(),
        Error::Io { op, source, .. } => format!("{op}: {source}"),
        Error::Missing { .. } => "it is missing".into(),
        other => other.to_string(),
    }
}
