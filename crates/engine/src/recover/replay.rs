//! Replaying WALs: which records belong to the history.
//!
//! In our own WALs sequences are contiguous from the manifest's base on, within and across WALs. Page writeback inside an
//! unsynced WAL is unordered, so a bad record with good ones after it is a legal crash state, a torn tail: it ends its WAL,
//! and the history continues only in a WAL that begins at the very next sequence. What lies after the end is set aside,
//! never deleted silently.
//!
//! Durable marks say up to which sequence everything had been synced. Damage below the highest mark is corruption, not
//! a torn tail: the open fails, or with [`Recovery::Salvage`] a second pass skips what cannot be read.
//!
//! WALs that LevelDB wrote are replayed LevelDB's way: it may have acknowledged synced writes after a hole, so bad
//! stretches are skipped and everything else counts.
use super::manifest::ManifestState;
use crate::{Damage, Error, Options, Recovery, Result, mem::MemTable};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{LogId, SeqNo, batch::Batch, value_log};
use terrace_storage::placement::{Listed, LogEvent, LogKind, LogReader, ObjectId, Storage};

/// The head of a WAL is an empty batch at the start of its file, or after a segment's magic bytes. Every later one is a
/// durable mark. (The order of reading does not tell: a log in two files is read by sequence.)
const HEAD_OFFSET_MAX: u64 = value_log::MAGIC.len() as u64;

/// Damage is noted up to so many times: a WAL may be nothing else.
const DAMAGE_MAX: usize = 1000;

/// What the WALs hold.
pub struct Replayed {
    /// Oldest first; each as large as a memtable may be.
    pub memtables: Vec<Arc<MemTable>>,
    /// The end of the history.
    pub last: SeqNo,
    /// WALs that hold something which does not belong to the history.
    pub set_aside: Vec<LogId>,
    /// What is wrong with them, in the order of reading.
    pub damage: Vec<Damage>,
}

/// Replays every WAL that `manifest` still needs.
pub fn replay(
    storage: &dyn Storage,
    options: &Options,
    manifest: &ManifestState,
    listed: &[Listed],
) -> Result<Replayed> {
    let logs = needed(manifest, listed);
    if manifest.ours && !logs.contains(&manifest.replay_from) {
        let object = storage.place_of(ObjectId::Wal(manifest.replay_from));
        return Err(Error::Missing { what: "log that the manifest names", object });
    }
    let set_aside = without_segment(&logs, manifest, listed);
    let begin = |salvaged_to| History {
        bytes: sizes(listed),
        ..History::new(options, storage, manifest, set_aside.clone(), salvaged_to)
    };
    let mut history = begin(SeqNo::ZERO);
    history.read(&logs, manifest.ours)?;
    if !history.is_corrupt() {
        return Ok(history.replayed);
    }
    let (lost_from, durable) = (history.next(), history.durable);
    let cut = history.replayed.damage.get(history.sound).cloned();
    drop(history.replayed); // its memtables, before there are others
    let mut salvaged = begin(durable);
    salvaged.read(&logs, manifest.ours)?;
    match options.recovery {
        Recovery::Salvage => Ok(salvaged.replayed),
        Recovery::Refuse => {
            let kept = salvaged.replayed.memtables.iter().map(|mem| mem.len()).sum::<u64>();
            Err(corruption(storage, cut, lost_from, durable, kept))
        }
    }
}

/// Durable writes from `lost_from` on, which lie before `durable`, cannot all be read; `kept` writes of all WALs can.
fn corruption(storage: &dyn Storage, cut: Option<Damage>, lost_from: SeqNo, durable: SeqNo, kept: u64) -> Error {
    let last = SeqNo(durable.0 - 1);
    let (file, offset, reason) = match cut {
        Some(Damage { file, offset, reason }) => (file, offset, reason),
        None => (storage.name(), 0, "a log is missing or empty".into()),
    };
    let detail = format!(
        "{reason}; durable writes are damaged from sequence {lost_from} on, up to {last} at most, and {kept} writes of the \
         logs can be read; open it with recovery=salvage, or run `terrace repair`, to keep those"
    );
    Error::corrupt("log", file, offset, detail)
}

fn needed(manifest: &ManifestState, listed: &[Listed]) -> Vec<LogId> {
    let mut logs: Vec<LogId> = listed
        .iter()
        .filter_map(|found| match found.object {
            ObjectId::Wal(log) => Some(log),
            _ => None,
        })
        .filter(|log| *log >= manifest.replay_from || Some(*log) == manifest.also_replay)
        .collect();
    logs.sort();
    logs
}

/// Bytes of each WAL, in all its files.
fn sizes(listed: &[Listed]) -> BTreeMap<LogId, u64> {
    let mut sizes = BTreeMap::new();
    for found in listed {
        if let ObjectId::Wal(log) | ObjectId::SmallLog(log) = found.object {
            *sizes.entry(log).or_default() += found.bytes;
        }
    }
    sizes
}

/// WALs of which a power cut took the segment and left the small part: nothing there was promised.
fn without_segment(needed: &[LogId], manifest: &ManifestState, listed: &[Listed]) -> Vec<LogId> {
    let there = listed.iter().filter_map(|found| match found.object {
        ObjectId::SmallLog(log) => Some(log),
        _ => None,
    });
    there.filter(|log| *log >= manifest.replay_from && !needed.contains(log)).collect()
}

struct History<'a> {
    options: &'a Options,
    storage: &'a dyn Storage,
    /// The next sequence, once known. LevelDB's manifests do not say it.
    expected: Option<SeqNo>,
    /// Records at or below it are in tables.
    base: SeqNo,
    /// Every write before it was synced, as durable marks say.
    durable: SeqNo,
    /// Gaps before it are skipped: durable writes lie after them.
    salvaged_to: SeqNo,
    /// Of each WAL, in all its files.
    bytes: BTreeMap<LogId, u64>,
    replayed: Replayed,
    /// Length of `damage` when the last batch was applied.
    sound: usize,
}

/// The WAL that is being read.
struct Reading<'a> {
    log: LogId,
    reader: &'a mut dyn LogReader,
    /// LevelDB's rules apply.
    leveldbs: bool,
    /// Nothing more of it belongs to the history.
    ended: bool,
    /// The least sequence in it: of its head, or where the history stood if that is lost.
    first: SeqNo,
    /// Bytes of it, in all its files.
    bytes: u64,
}

impl Reading<'_> {
    /// Whether a write of this WAL can have this sequence: one takes more than a byte. What is found after damage may be
    /// part of a value, which may hold a WAL of another store.
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
        salvaged_to: SeqNo,
    ) -> History<'a> {
        let replayed = Replayed { memtables: Vec::new(), last: manifest.base, set_aside, damage: Vec::new() };
        History {
            options,
            storage,
            expected: manifest.ours.then(|| manifest.base.plus(1)),
            base: if manifest.ours { manifest.base } else { SeqNo::ZERO },
            durable: SeqNo::ZERO,
            salvaged_to,
            bytes: BTreeMap::new(),
            replayed,
            sound: 0,
        }
    }

    /// Reads all `logs`, oldest first.
    fn read(&mut self, logs: &[LogId], our_store: bool) -> Result<()> {
        for log in self.replayed.set_aside.clone() {
            self.damaged(log, 0, "its segment is missing, and a small log is there")?;
        }
        for log in logs {
            self.storage.settle_log(*log)?;
            let mut reader = self.storage.open_log(*log, LogKind::Wal)?;
            self.log(*log, our_store, reader.as_mut())?;
        }
        Ok(())
    }

    /// The sequence that follows what has been taken of the history.
    fn next(&self) -> SeqNo {
        self.expected.unwrap_or(self.base.plus(1))
    }

    /// Whether durable writes are missing at the end of the history.
    fn is_corrupt(&self) -> bool {
        self.durable > self.next()
    }

    fn log(&mut self, log: LogId, our_store: bool, reader: &mut dyn LogReader) -> Result<()> {
        let first = reader.next()?;
        let head = reader.ours();
        // Without our head in a store of ours: LevelDB's, if it begins with a good record; else ours with its start torn off.
        let leveldbs = !head && (!our_store || matches!(first, LogEvent::Record { offset: 0, .. }));
        let ended = !head && !leveldbs && !self.skips_gaps();
        let bytes = self.bytes.get(&log).copied().unwrap_or(0);
        let mut reading = Reading { log, reader, leveldbs, ended, first: self.next(), bytes };
        let mut event = first;
        loop {
            match event {
                LogEvent::Record { offset, bytes } => {
                    match Batch::decode(bytes) {
                        Ok(batch) => self.record(&mut reading, offset, batch)?,
                        Err(corrupt) => {
                            // Its checksum is right, so it was written like this; still no part of any history.
                            self.bad(&mut reading, offset + corrupt.offset, &corrupt.detail)?;
                        }
                    }
                }
                LogEvent::Bad { offset, reason, .. } => self.bad(&mut reading, offset, &reason)?,
                LogEvent::End { offset, torn } => {
                    if torn {
                        self.damaged(log, offset, "it ends within a record")?;
                        self.put_aside(log);
                    }
                    return Ok(());
                }
            }
            event = reading.reader.next()?;
        }
    }

    fn record(&mut self, reading: &mut Reading<'_>, offset: u64, batch: Batch) -> Result<()> {
        if reading.leveldbs {
            self.apply(reading.log, &batch);
            return Ok(());
        }
        if batch.is_empty() && offset > HEAD_OFFSET_MAX {
            if reading.can_hold(batch.sequence()) {
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
            self.put_aside(reading.log);
        }
        Ok(())
    }

    fn bad(&mut self, reading: &mut Reading<'_>, offset: u64, reason: &str) -> Result<()> {
        self.damaged(reading.log, offset, reason)?;
        self.put_aside(reading.log);
        reading.ended |= !reading.leveldbs && !self.skips_gaps();
        Ok(())
    }

    /// Whether a gap here has durable writes after it, and is skipped.
    fn skips_gaps(&self) -> bool {
        self.salvaged_to > self.next()
    }

    /// Whether the gap up to `first` is skipped: nothing in it lies above the mark, where the prefix rule holds.
    fn skips_to(&self, first: SeqNo) -> bool {
        self.skips_gaps() && first <= self.salvaged_to
    }

    /// Takes the batch, which was just read, if it is the next of the history. False if it is not: then this WAL has
    /// nothing to add.
    fn contiguous(&mut self, reading: &mut Reading<'_>, offset: u64, batch: Batch) -> Result<bool> {
        let (log, first) = (reading.log, batch.sequence());
        let expected = *self.expected.get_or_insert(first); // after LevelDB's manifest the first head says it
        if batch.is_empty() {
            // The head. It may begin after `expected` only if tables hold what lies between: then it is `base + 1`.
            if first > expected {
                self.damaged(log, offset, &format!("the history ends at {expected}, this log begins at {first}"))?;
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
        self.apply(log, &reading.reader.store(batch));
        Ok(true)
    }

    fn apply(&mut self, log: LogId, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let full = |mem: &Arc<MemTable>| mem.charged_bytes() > self.options.write_buffer_size;
        if self.replayed.memtables.last().is_none_or(full) {
            let mem = MemTable::new(self.options.order().clone(), log, 0, self.storage.budget());
            self.replayed.memtables.push(Arc::new(mem));
        }
        self.replayed.memtables.last().expect("just pushed").insert(batch);
        let last = batch.sequence().plus(u64::from(batch.len()) - 1);
        self.replayed.last = self.replayed.last.max(last);
        self.sound = self.replayed.damage.len();
        self.expected = Some(last.plus(1)); // not after `replayed.last`: LevelDB's base may lie ahead of its WAL
    }

    fn put_aside(&mut self, log: LogId) {
        if self.replayed.set_aside.last() != Some(&log) {
            self.replayed.set_aside.push(log);
        }
    }

    /// Notes something that a power cut may explain; with paranoid checks it is an error all the same.
    fn damaged(&mut self, log: LogId, offset: u64, reason: &str) -> Result<()> {
        let file = self.storage.place_of(ObjectId::Wal(log));
        if self.options.paranoid_checks {
            return Err(Error::corrupt("log", file, offset, reason));
        }
        if self.replayed.damage.len() < DAMAGE_MAX {
            self.replayed.damage.push(Damage { file, offset, reason: reason.into() });
        }
        Ok(())
    }
}
