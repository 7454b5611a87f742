//! Reads a manifest: applies its edits in order, up to the end or to the first bad byte.
//!
//! A power cut can leave a bad or torn tail in a manifest, of edits whose sync never returned.
//! Recovery ends the manifest before such a tail. No edit is ever appended after the tail, because
//! every open begins a new manifest. Terrace appends a durable mark (an empty record) after each
//! sync of the manifest, so a bad record before a durable mark is corruption. Edits may also be
//! missing without such evidence. Then the files show it: a table or a WAL that an edit named is
//! missing or has another length.
use crate::{
    Error, Options, Result,
    version::{TableRef, Version, meta_of, set::Pointers},
};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{
    FamilyId, LEVELS, LogId, SeqNo, TableId,
    edit::{Edit, FamilyChange},
};
use terrace_storage::{
    Error as StorageError,
    placement::{LogEvent, LogKind, ObjectId, Storage, TableMeta},
};

/// The state that a manifest describes.
pub struct ManifestState {
    /// Whether Terrace wrote the manifest. In LevelDB's manifests `last_sequence` has another
    /// meaning.
    pub ours: bool,
    /// The live version.
    pub version: Version,
    /// The lowest free file number: all smaller numbers are in use.
    pub next_file: u64,
    /// The sequence number that the manifest records. If Terrace wrote the manifest, it is the
    /// largest sequence number in SSTables; if LevelDB wrote it, the largest one that was assigned.
    pub base: SeqNo,
    /// The oldest WAL to replay.
    pub replay_from: LogId,
    /// A second, older WAL that must be replayed; only LevelDB's manifests name one.
    pub prev_log: Option<LogId>,
    /// The compaction pointers.
    pub pointers: Pointers,
    /// The number of the next column family. The manifest has created no family with this number or
    /// a larger one.
    pub next_family: FamilyId,
    /// Features that a reader must support.
    pub requires: Vec<String>,
}

/// The combined result of the edits read so far.
#[derive(Default)]
struct EditSum {
    edits: u64,
    numbers: Edit,
    pointers: Pointers,
    /// The tables, each with its level number of [`FamilyId::level`].
    tables: BTreeMap<(usize, TableId), TableMeta>,
    /// The names of the column families other than the default one.
    families: BTreeMap<FamilyId, Arc<str>>,
    /// The largest number of a column family that was ever created.
    youngest_family: FamilyId,
}

/// Reads manifest `id`.
pub fn read(storage: &dyn Storage, options: &Options, id: LogId) -> Result<ManifestState> {
    let name = storage.place_of(ObjectId::Manifest(id));
    let mut reader = storage.open_log(id, LogKind::Manifest)?;
    let mut sum = EditSum::default();
    let mut bad: Option<(u64, String)> = None;
    loop {
        match reader.next()? {
            LogEvent::Record { bytes, .. } if bad.is_some() => {
                if bytes.is_empty() {
                    let (offset, reason) = bad.expect("the guard says so");
                    let detail = format!("{reason}; the edits there were durable, so this is no torn tail");
                    return Err(Error::corrupt("manifest", name, offset, detail));
                }
            }
            LogEvent::Record { offset, bytes } => {
                let edit = Edit::decode(&bytes).map_err(|e| StorageError::corrupt(name.clone(), offset, e))?;
                sum.add(edit).map_err(|detail| Error::corrupt("manifest", name.clone(), offset, detail))?;
            }
            // LevelDB syncs every edit, and it refuses a manifest with a bad record. Terrace
            // refuses such a manifest too if LevelDB wrote it.
            LogEvent::Bad { offset, reason, .. } if options.paranoid_checks || !reader.ours() || sum.edits == 0 => {
                return Err(Error::corrupt("manifest", name, offset, reason));
            }
            LogEvent::End { offset, torn: true } if options.paranoid_checks => {
                return Err(Error::corrupt("manifest", name, offset, "it ends within a record"));
            }
            LogEvent::Bad { offset, reason, .. } => drop(bad.get_or_insert((offset, reason))),
            LogEvent::End { .. } => break,
        }
    }
    // LevelDB writes `prev_log_number` in every edit, and Terrace never does. So if any edit has
    // this field, LevelDB has appended edits to the manifest, and its numbers are read by LevelDB's
    // rules.
    let ours = reader.ours() && sum.numbers.prev_log_number.is_none();
    sum.finish(options, ours).map_err(|detail| match detail {
        Unusable::Text(detail) => Error::corrupt("manifest", name, 0, detail),
        Unusable::Order(error) => error,
    })
}

/// The largest file number that a manifest may contain. It is far above the number of files that a
/// store can create, and far below an overflow.
pub const NUMBER_MAX: u64 = 1 << 62;

enum Unusable {
    Text(String),
    Order(Error),
}

impl EditSum {
    fn add(&mut self, edit: Edit) -> std::result::Result<(), String> {
        self.edits += 1;
        edit.families.into_iter().try_for_each(|change| self.change_family(change))?;
        self.pointers.extend(edit.compact_pointers);
        for (level, id) in &edit.deleted {
            // An edit may delete an unknown table: LevelDB accepts such edits, and LevelDB's repair
            // writes them.
            self.tables.remove(&(*level, *id));
        }
        let entries: BTreeMap<TableId, u64> = edit.entries.into_iter().collect();
        for (level, added) in edit.added {
            let (family, _) = FamilyId::of_level(level);
            if family != FamilyId::DEFAULT && !self.families.contains_key(&family) {
                return Err(format!(
                    "table {} is added to level {level}, of a column family that does not exist",
                    added.id
                ));
            }
            let meta = meta_of(&added, entries.get(&added.id).copied().unwrap_or(0));
            if self.tables.insert((level, added.id), meta).is_some() {
                return Err(format!("table {} is added to level {level} twice", added.id));
            }
        }
        let numbers = &mut self.numbers;
        numbers.comparator = edit.comparator.or(numbers.comparator.take());
        numbers.log_number = edit.log_number.or(numbers.log_number);
        numbers.prev_log_number = edit.prev_log_number.or(numbers.prev_log_number);
        numbers.next_file_number = edit.next_file_number.or(numbers.next_file_number);
        numbers.last_sequence = edit.last_sequence.or(numbers.last_sequence);
        numbers.requires.extend(edit.requires);
        Ok(())
    }

    fn change_family(&mut self, change: FamilyChange) -> std::result::Result<(), String> {
        match change {
            FamilyChange::Created { id, name, .. } => {
                if id <= self.youngest_family {
                    return Err(format!("column family {id} ({name:?}) is created a second time"));
                }
                self.youngest_family = self.youngest_family.max(id);
                self.families.insert(id, name.into());
            }
            FamilyChange::Dropped(id) => {
                self.youngest_family = self.youngest_family.max(id);
                self.families.remove(&id);
                self.tables.retain(|(level, _), _| FamilyId::of_level(*level).0 != id);
            }
        }
        Ok(())
    }

    fn finish(self, options: &Options, ours: bool) -> std::result::Result<ManifestState, Unusable> {
        let missing = |what: &str| Unusable::Text(format!("it never says the {what}"));
        let absurd = |number: &Option<u64>| number.is_some_and(|number| number > NUMBER_MAX);
        let Edit { next_file_number, log_number, last_sequence, .. } = &self.numbers;
        if absurd(next_file_number) || absurd(log_number) || last_sequence.is_some_and(|last| last >= SeqNo::MAX) {
            return Err(Unusable::Text("a number in it is larger than any store reaches".into()));
        }
        let named = self.numbers.comparator.ok_or_else(|| missing("comparator"))?;
        if named != options.order().name() {
            let text =
                format!("the store is sorted by comparator {named:?}, the options say {:?}", options.order().name());
            return Err(Unusable::Order(Error::Invalid(text)));
        }
        let runs_end = self.numbers.next_file_number.unwrap_or(0);
        if let Some(((level, id), _)) = self.tables.iter().find(|(_, meta)| meta.run > 0 && meta.run >= runs_end) {
            return Err(Unusable::Text(format!(
                "table {id} of level {level} is in a sorted run with a number not drawn yet"
            )));
        }
        let tables = self.tables.into_iter().map(|((level, _), meta)| (level, TableRef::new(meta))).collect();
        let families = self.families;
        Ok(ManifestState {
            ours,
            version: version_of(tables, families, options).map_err(Unusable::Text)?,
            next_file: self.numbers.next_file_number.ok_or_else(|| missing("next file number"))?,
            base: self.numbers.last_sequence.ok_or_else(|| missing("last sequence"))?,
            replay_from: LogId(self.numbers.log_number.ok_or_else(|| missing("log number"))?),
            prev_log: self.numbers.prev_log_number.filter(|number| *number > 0).map(LogId),
            pointers: self.pointers,
            next_family: FamilyId(self.youngest_family.0 + 1),
            requires: self.numbers.requires,
        })
    }
}

/// Builds a version of `tables`, each given with its level number of [`FamilyId::level`].
fn version_of(
    tables: Vec<(usize, TableRef)>,
    families: BTreeMap<FamilyId, Arc<str>>,
    options: &Options,
) -> std::result::Result<Version, String> {
    let mut trees: BTreeMap<FamilyId, [Vec<Arc<TableRef>>; LEVELS]> = BTreeMap::new();
    for (level, table) in tables {
        let (family, level) = FamilyId::of_level(level);
        trees.entry(family).or_default()[level].push(Arc::new(table));
    }
    let default = trees.remove(&FamilyId::DEFAULT).unwrap_or_default();
    let families = families.into_iter().map(|(id, name)| (id, name, trees.remove(&id).unwrap_or_default()));
    Version::from_families(options.order(), default, families)
}
