//! Reads a manifest: applies its edits in order, up to the end or to the first bad byte.
//!
//! A bad or torn tail consists of edits whose sync never returned, as a power cut leaves them. The
//! manifest ends there, and no edit is appended after it, because every open begins a new
//! manifest. A durable mark, an empty record, follows each sync, so a bad record before a mark is
//! corruption. Edits that are missing without a trace show in the files that they named: a table
//! or a WAL is missing or has another length.
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
    /// Whether Terrace wrote it. LevelDB's `last_sequence` has another meaning than ours.
    pub ours: bool,
    /// The live version.
    pub version: Version,
    /// File numbers below it are taken.
    pub next_file: u64,
    /// In our manifests the largest sequence in tables; in LevelDB's the largest one assigned.
    pub base: SeqNo,
    /// The oldest WAL to replay.
    pub replay_from: LogId,
    /// An older WAL that LevelDB may name as well.
    pub prev_log: Option<LogId>,
    /// Per level, the internal key at which the next compaction starts.
    pub pointers: [Vec<u8>; LEVELS],
    /// Features that a reader must support.
    pub requires: Vec<String>,
}

/// The sum of the edits read so far.
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
            // LevelDB syncs every edit and refuses such a manifest. So does Terrace if LevelDB
            // wrote it.
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
    // LevelDB writes `prev_log_number` in every edit and Terrace never does. Where LevelDB appended
    // to a manifest of ours, its numbers count.
    let ours = reader.ours() && sum.numbers.prev_log_number.is_none();
    sum.finish(options, ours).map_err(|detail| match detail {
        Unusable::Text(detail) => Error::corrupt("manifest", name, 0, detail),
        Unusable::Order(error) => error,
    })
}

/// Far above the number of files that a store can create, far below an overflow.
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
            // LevelDB accepts the deletion of an unknown table, and its own repair writes such
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

/// Builds a version of these tables, given with their levels.
fn version_of(tables: Vec<(usize, TableRef)>, options: &Options) -> std::result::Result<Version, String> {
    let mut levels: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
    tables.into_iter().for_each(|(level, table)| levels[level].push(Arc::new(table)));
    Version::from_tables(options.order(), levels)
}
