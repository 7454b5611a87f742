//! Reads a manifest: applies its edits in order, up to the end or to the first bad byte.
//!
//! A bad or torn tail of a manifest consists of edits whose sync never returned; a power cut can
//! leave such a tail. The manifest ends before the tail. No edit is appended after it, because
//! every open begins a new manifest. Terrace appends a durable mark (an empty record) after each
//! sync of the manifest. A bad record before a durable mark is therefore corruption. If edits are
//! missing without such evidence, the missing or changed files show it: a table or a WAL that an
//! edit named is missing or has another length.
use crate::{
    Error, Options, Result,
    version::{TableRef, Version, meta_of},
};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{LEVELS, LogId, SeqNo, TableId, edit::Edit};
use terrace_storage::{
    Error as StorageError,
    placement::{LogEvent, LogKind, ObjectId, Storage, TableMeta},
};

/// The state that a manifest describes.
pub struct ManifestState {
    /// Whether Terrace wrote the manifest. `last_sequence` in LevelDB's manifests has another
    /// meaning.
    pub ours: bool,
    /// The live version.
    pub version: Version,
    /// The lowest free file number: all smaller numbers are in use.
    pub next_file: u64,
    /// In Terrace's manifests the largest sequence number in SSTables; in LevelDB's the largest one
    /// that was assigned.
    pub base: SeqNo,
    /// The oldest WAL to replay.
    pub replay_from: LogId,
    /// An older WAL that LevelDB may name as well.
    pub prev_log: Option<LogId>,
    /// For each level, the internal key at which the level's next compaction starts.
    pub pointers: [Vec<u8>; LEVELS],
    /// Features that a reader must support.
    pub requires: Vec<String>,
}

/// The combined result of the edits read so far.
#[derive(Default)]
struct EditSum {
    edits: u64,
    numbers: Edit,
    pointers: [Vec<u8>; LEVELS],
    tables: BTreeMap<(usize, TableId), TableMeta>,
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
            // refuses it too if LevelDB wrote the manifest.
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
    // LevelDB writes `prev_log_number` in every edit; Terrace never does. If LevelDB has appended
    // edits to a manifest of Terrace, LevelDB's numbers are valid.
    let ours = reader.ours() && sum.numbers.prev_log_number.is_none();
    sum.finish(options, ours).map_err(|detail| match detail {
        Unusable::Text(detail) => Error::corrupt("manifest", name, 0, detail),
        Unusable::Order(error) => error,
    })
}

/// The largest valid file number. It is far above the number of files that a store can create, and
/// far below an overflow.
pub const NUMBER_MAX: u64 = 1 << 62;

enum Unusable {
    Text(String),
    Order(Error),
}

impl EditSum {
    fn add(&mut self, edit: Edit) -> std::result::Result<(), String> {
        self.edits += 1;
        for (level, pointer) in edit.compact_pointers {
            self.pointers[level] = pointer;
        }
        for (level, id) in &edit.deleted {
            // LevelDB accepts the deletion of an unknown table, and LevelDB's repair writes such
            // edits.
            self.tables.remove(&(*level, *id));
        }
        let entries: BTreeMap<TableId, u64> = edit.entries.into_iter().collect();
        for (level, added) in edit.added {
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
        Ok(ManifestState {
            ours,
            version: version_of(tables, options).map_err(Unusable::Text)?,
            next_file: self.numbers.next_file_number.ok_or_else(|| missing("next file number"))?,
            base: self.numbers.last_sequence.ok_or_else(|| missing("last sequence"))?,
            replay_from: LogId(self.numbers.log_number.ok_or_else(|| missing("log number"))?),
            prev_log: self.numbers.prev_log_number.filter(|number| *number > 0).map(LogId),
            pointers: self.pointers,
            requires: self.numbers.requires,
        })
    }
}

/// Builds a version of `tables`, each given with its level.
fn version_of(tables: Vec<(usize, TableRef)>, options: &Options) -> std::result::Result<Version, String> {
    let mut levels: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
    tables.into_iter().for_each(|(level, table)| levels[level].push(Arc::new(table)));
    Version::from_tables(options.order(), levels)
}
