//! WAL replay: decides which records belong to the history, and passes them to a [`ReplaySink`].
//!
//! ```text
//!  WALs, oldest first        History                        ReplaySink
//!  000007.log ─┐   record   ┌──────────────────────┐ batch ┌─────────────────────────────┐
//!  000009.log ─┼───────────►│ next sequence? torn? ├──────►│ memtable, full → L0 table   │
//!  000012.log ─┘            │ durable mark, damage │       │ (read-only open: kept)      │
//!                           └──────────────────────┘       └─────────────────────────────┘
//! ```
//!
//! In WALs that Terrace wrote, sequence numbers are contiguous, within a WAL and from one WAL to
//! the next. They begin after the manifest's base, the last sequence number that is in tables. The
//! kernel writes back the pages of an unsynced WAL in any order, so after a power cut good records
//! may follow a bad one. Such a torn tail is a legal crash state: the WAL ends at the bad record,
//! and the history continues only in a WAL that begins at the very next sequence number. Records
//! after the end of the history are set aside under `lost/`, never deleted silently.
//!
//! A durable mark is an empty record that states a sequence number up to which every write was
//! synced. Damage below the highest mark is corruption and not a torn tail. Then the open fails,
//! or with [`Recovery::Salvage`] a second pass skips the unreadable part.
//!
//! WALs that LevelDB wrote are replayed by LevelDB's rules. LevelDB may have acknowledged synced
//! writes that follow a bad record. Replay therefore skips the bad parts and uses all other
//! records.
use super::{
    manifest::ManifestState,
    replay_sink::{Families, ReplaySink, ReplayTarget, WrittenTables},
};
use crate::{Damage, Error, Options, Recovery, Result, mem::MemTable};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{FamilyId, LogId, SeqNo, batch::Batch, value_log};
use terrace_storage::placement::{Listed, LogEvent, LogKind, LogReader, ObjectId, Storage};

/// Largest offset of a WAL's head, in bytes. The head is an empty batch at the start of the file,
/// or directly after the magic bytes of a segment. An empty batch at a larger offset is a durable
/// mark. Replay must compare offsets to distinguish the two. The order of reading is not enough: a
/// WAL with a sidecar has two files whose records are read in the order of sequence numbers, so
/// the first record read need not be the head.
const HEAD_OFFSET_MAX: u64 = value_log::MAGIC.len() as u64;

/// The maximum number of damage reports that a replay keeps. The limit is necessary because a WAL
/// may consist of nothing but damage.
const DAMAGE_MAX: usize = 1000;

/// The result of a replay.
pub struct Replayed<'a> {
    /// The memtables, oldest first, each at most as large as a memtable may be. Only for
    /// [`ReplayTarget::Memtables`].
    pub memtables: Vec<(FamilyId, Arc<MemTable>)>,
    /// Tables of level 0. Only for [`ReplayTarget::Tables`].
    pub tables: WrittenTables<'a>,
    /// Number of replayed entries. Only for [`ReplayTarget::Count`].
    pub entries: u64,
    /// The last sequence number of the history.
    pub last: SeqNo,
    /// WALs with records that do not belong to the history.
    pub set_aside: Vec<LogId>,
    /// Damage in the WALs, in the order of reading.
    pub damage: Vec<Damage>,
}

/// Replays every WAL that `manifest` still needs.
///
/// # Errors
/// [`Error::Missing`] if a WAL that the manifest names is absent. [`Error::Corrupt`] if durable
/// writes are damaged and the options request that such a store is refused. After an error no
/// table that the replay wrote remains.
pub fn replay<'a>(
    storage: &'a dyn Storage,
    options: &'a Options,
    manifest: &ManifestState,
    listed: &[Listed],
    target: ReplayTarget,
) -> Result<Replayed<'a>> {
    let logs = needed(manifest, listed);
    if manifest.ours && !logs.contains(&manifest.replay_from) {
        let object = storage.place_of(ObjectId::Wal(manifest.replay_from));
        return Err(Error::Missing { what: "WAL that the manifest names", object });
    }
    let set_aside = sidecars_without_segment(&logs, manifest, listed);
    let begin = |target, salvage_to| History {
        bytes: sizes(listed),
        ..History::new(options, storage, manifest, set_aside.clone(), target, salvage_to)
    };
    let mut history = begin(target, SeqNo::ZERO);
    history.read(&logs, manifest.ours)?;
    if !history.is_corrupt() {
        return history.finish();
    }
    let (damaged_from, durable) = (history.next(), history.durable);
    let first_damage = history.damage.get(history.damage_at_last_batch).cloned();
    let retry = history.sink.target_for_retry();
    drop(history); // frees its memtable and removes its tables before the second pass writes tables
    match options.recovery {
        Recovery::Salvage => {
            let mut salvaged = begin(retry, durable);
            salvaged.read(&logs, manifest.ours)?;
            salvaged.finish()
        }
        Recovery::Refuse => {
            let mut salvaged = begin(ReplayTarget::Count, durable);
            salvaged.read(&logs, manifest.ours)?;
            let readable = salvaged.finish()?.entries;
            Err(corruption(storage, first_damage, damaged_from, durable, readable))
        }
    }
}

/// Returns the error with which the open is refused. The durable writes with sequence numbers in
/// `damaged_from..durable` cannot all be read; in all WALs together `readable` writes can be read.
fn corruption(
    storage: &dyn Storage,
    first_damage: Option<Damage>,
    damaged_from: SeqNo,
    durable: SeqNo,
    readable: u64,
) -> Error {
    let last = SeqNo(durable.0 - 1);
    let (file, offset, reason) = match first_damage {
        Some(Damage { file, offset, reason }) => (file, offset, reason),
        None => (storage.name(), 0, "a WAL is missing or empty".into()),
    };
    let writes = if readable == 1 { "write" } else { "writes" };
    let detail = format!(
        "{reason}; durable writes are damaged from sequence {damaged_from} on, up to {last} at most, and {readable} {writes} \
         of the WALs can be read; open it with recovery=salvage, or run `terrace repair`, to keep those"
    );
    Error::corrupt("log", file, offset, detail)
}

/// Returns the WALs to replay, oldest first.
fn needed(manifest: &ManifestState, listed: &[Listed]) -> Vec<LogId> {
    let mut logs: Vec<LogId> = listed
        .iter()
        .filter_map(|found| match found.object {
            ObjectId::Wal(log) => Some(log),
            _ => None,
        })
        .filter(|log| *log >= manifest.replay_from || Some(*log) == manifest.prev_log)
        .collect();
    logs.sort();
    logs
}

/// Returns the total size in bytes of the files of each WAL.
fn sizes(listed: &[Listed]) -> BTreeMap<LogId, u64> {
    let mut sizes = BTreeMap::new();
    for found in listed {
        if let ObjectId::Wal(log) | ObjectId::WalSidecar(log) = found.object {
            *sizes.entry(log).or_default() += found.bytes;
        }
    }
    sizes
}

/// Returns the numbers of WALs of which only the sidecar exists. A sidecar is the file with the
/// small batches of a WAL; the other file, the segment, was lost in a power cut. No write in such
/// a sidecar was acknowledged as durable.
fn sidecars_without_segment(needed: &[LogId], manifest: &ManifestState, listed: &[Listed]) -> Vec<LogId> {
    let sidecars = listed.iter().filter_map(|found| match found.object {
        ObjectId::WalSidecar(log) => Some(log),
        _ => None,
    });
    sidecars.filter(|log| *log >= manifest.replay_from && !needed.contains(log)).collect()
}

/// The part of the history that has been read so far.
struct History<'a> {
    options: &'a Options,
    storage: &'a dyn Storage,
    /// The sequence number that the next write must have to belong to the history. `None` until the
    /// first WAL shows it, because a manifest by LevelDB does not state where the history
    /// continues.
    expected: Option<SeqNo>,
    /// The manifest's base: the writes up to this sequence number are in SSTables.
    base: SeqNo,
    /// Every write before this sequence number was synced, according to durable marks.
    durable: SeqNo,
    /// In the second pass (salvage), the durable watermark: replay skips gaps before this sequence
    /// number, because durable writes follow the gaps. Zero in the first pass.
    salvage_to: SeqNo,
    /// Total size in bytes of the files of each WAL.
    bytes: BTreeMap<LogId, u64>,
    sink: ReplaySink<'a>,
    last: SeqNo,
    set_aside: Vec<LogId>,
    damage: Vec<Damage>,
    /// The number of damage reports in `damage` when the last batch was applied.
    damage_at_last_batch: usize,
}

/// The WAL that is currently being read.
struct Reading<'a> {
    log: LogId,
    reader: &'a mut dyn LogReader,
    /// Whether LevelDB wrote the WAL, so that replay uses LevelDB's rules for it.
    leveldbs: bool,
    /// Whether the history has ended in this WAL: no further record of it belongs to the history.
    ended: bool,
    /// The lowest sequence number that the WAL can contain. The head of the WAL (an empty batch at
    /// its start) states this number. If the head is damaged, the number is that of the write that
    /// follows the history read so far.
    first: SeqNo,
    /// Total size of the files of this WAL in bytes.
    bytes: u64,
    /// Whether a bad record was read in this WAL.
    damaged: bool,
}

impl Reading<'_> {
    /// Returns whether a write of this WAL can have sequence number `seq`. The size of the WAL
    /// bounds the number of its writes, because every write takes more than a byte. The check is
    /// needed because a record that is found after damage may be part of a value, and a value may
    /// contain a copy of another store's WAL.
    fn can_hold(&self, seq: SeqNo) -> bool {
        (self.first.0..=self.first.0.saturating_add(self.bytes)).contains(&seq.0)
    }
}

impl<'a> History<'a> {
    fn new(
        options: &'a Options,
        storage: &'a dyn Storage,
        manifest: &ManifestState,
        set_aside: Vec<LogId>,
        target: ReplayTarget,
        salvage_to: SeqNo,
    ) -> History<'a> {
        History {
            options,
            storage,
            expected: manifest.ours.then(|| manifest.base.plus(1)),
            base: if manifest.ours { manifest.base } else { SeqNo::ZERO },
            durable: SeqNo::ZERO,
            salvage_to,
            bytes: BTreeMap::new(),
            sink: ReplaySink::new(storage, options, Families::of(manifest), target),
            last: manifest.base,
            set_aside,
            damage: Vec::new(),
            damage_at_last_batch: 0,
        }
    }

    /// Reads all WALs in `logs`, oldest first.
    fn read(&mut self, logs: &[LogId], our_store: bool) -> Result<()> {
        for log in self.set_aside.clone() {
            self.damaged(log, 0, "its segment is missing; only its sidecar is present")?;
        }
        for log in logs {
            self.storage.prepare_replay(*log)?;
            let mut reader = self.storage.open_log(*log, LogKind::Wal)?;
            self.log(*log, our_store, reader.as_mut())?;
        }
        self.sink.finish()
    }

    fn finish(self) -> Result<Replayed<'a>> {
        let History { sink, last, set_aside, damage, .. } = self;
        let ReplaySink { memtables, tables, entries, .. } = sink;
        Ok(Replayed { memtables, tables, entries, last, set_aside, damage })
    }

    /// Returns the sequence number that the next write of the history must have.
    fn next(&self) -> SeqNo {
        self.expected.unwrap_or(self.base.plus(1))
    }

    /// Returns whether durable writes are missing after the end of the history read so far.
    fn is_corrupt(&self) -> bool {
        self.durable > self.next()
    }

    fn log(&mut self, log: LogId, our_store: bool, reader: &mut dyn LogReader) -> Result<()> {
        let first = reader.next()?;
        let head = reader.ours();
        // The WAL has no Terrace head. If LevelDB wrote the manifest, LevelDB also wrote this WAL.
        // If Terrace wrote the manifest and the WAL begins with a good record, LevelDB wrote the
        // WAL too. Otherwise Terrace wrote the WAL, and the start of the WAL is torn.
        let leveldbs = !head && (!our_store || matches!(first, LogEvent::Record { offset: 0, .. }));
        let ended = !head && !leveldbs && !self.skips_gaps();
        let bytes = self.bytes.get(&log).copied().unwrap_or(0);
        let mut reading = Reading { log, reader, leveldbs, ended, first: self.next(), bytes, damaged: false };
        let mut event = first;
        loop {
            match event {
                LogEvent::Record { offset, bytes } => {
                    match Batch::decode(bytes) {
                        Ok(batch) => self.record(&mut reading, offset, batch)?,
                        Err(corrupt) => {
                            // The checksum of the record is right but its bytes encode no batch, so
                            // it was written with these bytes. The record does not belong to the
                            // history.
                            self.bad(&mut reading, offset + corrupt.offset, &corrupt.detail)?;
                        }
                    }
                }
                LogEvent::Bad { offset, reason, .. } => self.bad(&mut reading, offset, &reason)?,
                LogEvent::End { offset, torn } => {
                    if torn {
                        self.damaged(log, offset, "it ends within a record")?;
                        self.note_set_aside(log);
                    }
                    return Ok(());
                }
            }
            event = reading.reader.next()?;
        }
    }

    fn record(&mut self, reading: &mut Reading<'_>, offset: u64, batch: Batch) -> Result<()> {
        if reading.leveldbs {
            return self.apply(reading.log, &batch);
        }
        if batch.is_empty() && offset > HEAD_OFFSET_MAX {
            // A durable mark before any damage certainly belongs to this WAL. After damage, a mark
            // must fit the size of the WAL.
            if !reading.damaged || reading.can_hold(batch.sequence()) {
                self.durable = self.durable.max(batch.sequence());
            }
            return Ok(());
        }
        if batch.is_empty() {
            reading.first = batch.sequence();
        }
        let empty = batch.is_empty();
        if !reading.ended {
            reading.ended = !self.contiguous(reading, offset, batch)?;
        }
        if reading.ended && !empty {
            self.note_set_aside(reading.log);
        }
        Ok(())
    }

    fn bad(&mut self, reading: &mut Reading<'_>, offset: u64, reason: &str) -> Result<()> {
        self.damaged(reading.log, offset, reason)?;
        self.note_set_aside(reading.log);
        reading.damaged = true;
        reading.ended |= !reading.leveldbs && !self.skips_gaps();
        Ok(())
    }

    /// Returns whether durable writes follow the history read so far. If so, replay skips the
    /// sequence gap before them.
    fn skips_gaps(&self) -> bool {
        self.salvage_to > self.next()
    }

    /// Returns whether replay skips the gap up to the sequence number `first`. Replay skips no gap
    /// above the durable watermark, because there the history must be a prefix of the writes.
    fn skips_to(&self, first: SeqNo) -> bool {
        self.skips_gaps() && first <= self.salvage_to
    }

    /// Applies `batch`, which was just read, if it is the next batch of the history. Returns false
    /// if it is not; then no further record of this WAL belongs to the history.
    fn contiguous(&mut self, reading: &mut Reading<'_>, offset: u64, batch: Batch) -> Result<bool> {
        let (log, first) = (reading.log, batch.sequence());
        // A manifest of LevelDB does not state with which sequence number the history of the WALs
        // begins. In that case the history begins with the head (first record) of the first WAL.
        let expected = *self.expected.get_or_insert(first);
        if batch.is_empty() {
            // The record is the head of the WAL. If its sequence number is above `expected`, writes
            // are missing before this WAL. Writes that are already in tables do not count as
            // missing, because `expected` is at least `base + 1`.
            if first > expected {
                self.damaged(log, offset, &format!("the history ends at {expected}, this WAL begins at {first}"))?;
            }
            return Ok(first <= expected || self.skips_to(first));
        }
        let last = first.plus(u64::from(batch.len()) - 1);
        if last <= self.base {
            return Ok(true); // in tables already
        }
        if first != expected {
            let skipped = first > expected && self.skips_to(first) && reading.can_hold(first);
            self.damaged(log, offset, &format!("sequence {first} where {expected} should be"))?;
            if !skipped {
                return Ok(false);
            }
        }
        self.apply(log, &reading.reader.store(batch))?;
        Ok(true)
    }

    fn apply(&mut self, log: LogId, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.sink.insert(log, batch)?;
        let last = batch.sequence().plus(u64::from(batch.len()) - 1);
        self.last = self.last.max(last);
        self.damage_at_last_batch = self.damage.len();
        // The next expected number follows the batch just applied, not `self.last`: with a manifest
        // of LevelDB, `self.last` may be ahead of the WAL.
        self.expected = Some(last.plus(1));
        Ok(())
    }

    fn note_set_aside(&mut self, log: LogId) {
        if self.set_aside.last() != Some(&log) {
            self.set_aside.push(log);
        }
    }

    /// Records damage that a power cut can explain. With the option `paranoid_checks` such damage
    /// is an error.
    fn damaged(&mut self, log: LogId, offset: u64, reason: &str) -> Result<()> {
        let file = self.storage.place_of(ObjectId::Wal(log));
        if self.options.paranoid_checks {
            return Err(Error::corrupt("log", file, offset, reason));
        }
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(Damage { file, offset, reason: reason.into() });
        }
        Ok(())
    }
}
