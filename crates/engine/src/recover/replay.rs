//! Replaying logs: which records belong to the history.
//!
//! In our own logs sequences are contiguous from the manifest's base on, within and across logs. Page writeback inside an
//! unsynced log is unordered, so a bad record with good ones behind it is a legal crash state: it ends its log, and the
//! history goes on only in a log that begins at the very next sequence. What lies behind the end is set aside, never
//! deleted silently. Logs that LevelDB wrote are replayed LevelDB's way: it may have acknowledged synced writes behind a
//! hole, so bad stretches are skipped and everything else counts.
use super::manifest::ManifestState;
use crate::{Error, Options, Result, mem::MemTable};
use std::sync::Arc;
use terrace_format::{LogId, SeqNo, batch::Batch};
use terrace_storage::placement::{Listed, LogEvent, LogKind, LogReader, ObjectId, Placement};

/// What the logs say.
pub struct Replayed {
    /// Oldest first; each as large as a memtable may be.
    pub memtables: Vec<Arc<MemTable>>,
    /// The end of the history.
    pub last: SeqNo,
    /// Logs that hold something which does not belong to the history.
    pub set_aside: Vec<LogId>,
}

/// Replays every log that `manifest` still needs.
pub fn replay(
    placement: &dyn Placement,
    options: &Options,
    manifest: &ManifestState,
    listed: &[Listed],
) -> Result<Replayed> {
    let logs = needed(manifest, listed);
    if manifest.ours && !logs.contains(&manifest.replay_from) {
        let object = placement.place_of(ObjectId::Wal(manifest.replay_from));
        return Err(Error::Missing { what: "log that the manifest names", object });
    }
    let set_aside = without_segment(&logs, manifest, listed);
    let mut history = History {
        options,
        placement,
        expected: manifest.ours.then(|| manifest.base.plus(1)),
        base: if manifest.ours { manifest.base } else { SeqNo::ZERO },
        replayed: Replayed { memtables: Vec::new(), last: manifest.base, set_aside },
    };
    if let Some(log) = history.replayed.set_aside.first() {
        history.suspicious(*log, 0, "its segment is missing, and a small log is there")?;
    }
    for log in logs {
        placement.settle_log(log)?;
        history.log(log, manifest.ours, placement.open_log(log, LogKind::Wal)?.as_mut())?;
    }
    Ok(history.replayed)
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

/// Logs of which a power cut took the segment and left the small part: nobody was promised what is there.
fn without_segment(needed: &[LogId], manifest: &ManifestState, listed: &[Listed]) -> Vec<LogId> {
    let there = listed.iter().filter_map(|found| match found.object {
        ObjectId::SmallLog(log) => Some(log),
        _ => None,
    });
    there.filter(|log| *log >= manifest.replay_from && !needed.contains(log)).collect()
}

struct History<'a> {
    options: &'a Options,
    placement: &'a dyn Placement,
    /// The next sequence, once known. LevelDB's manifests do not tell it.
    expected: Option<SeqNo>,
    /// Records at or below it are in tables.
    base: SeqNo,
    replayed: Replayed,
}

impl History<'_> {
    fn log(&mut self, log: LogId, our_store: bool, reader: &mut dyn LogReader) -> Result<()> {
        let first = reader.next()?;
        let head = reader.ours();
        // Without our head in a store of ours: LevelDB's, if it begins with a good record; else ours with its start torn off.
        let leveldbs = !head && (!our_store || matches!(first, LogEvent::Record { offset: 0, .. }));
        let mut event = first;
        let mut broken = !head && !leveldbs;
        loop {
            match event {
                LogEvent::Record { offset, bytes } => {
                    let batch = match Batch::decode(bytes) {
                        Ok(batch) => batch,
                        Err(corrupt) => {
                            // Its checksum is right, so it was written like this; still no part of any history.
                            event = LogEvent::Bad { offset: offset + corrupt.offset, bytes: 0, reason: corrupt.detail };
                            continue;
                        }
                    };
                    let empty = batch.is_empty();
                    if leveldbs {
                        self.apply(log, &batch);
                    } else if !broken {
                        broken = !self.contiguous(log, offset, batch, reader)?;
                    }
                    if broken && !empty {
                        self.put_aside(log);
                    }
                }
                LogEvent::Bad { offset, reason, .. } => {
                    self.suspicious(log, offset, &reason)?;
                    self.put_aside(log);
                    broken |= !leveldbs;
                }
                LogEvent::End { offset, torn } => {
                    if torn {
                        self.suspicious(log, offset, "it ends within a record")?;
                        self.put_aside(log);
                    }
                    return Ok(());
                }
            }
            event = reader.next()?;
        }
    }

    /// Takes the batch, which `reader` has just read, if it is the next of the history. False if it is not: then this log has
    /// nothing to add.
    fn contiguous(&mut self, log: LogId, offset: u64, batch: Batch, reader: &mut dyn LogReader) -> Result<bool> {
        let first = batch.sequence();
        let expected = *self.expected.get_or_insert(first); // behind LevelDB's manifest the first head tells
        if batch.is_empty() {
            // The head. It may begin behind `expected` only if tables vouch for what lies between: then it is `base + 1`.
            if first > expected {
                self.suspicious(log, offset, &format!("the history ends at {expected}, this log begins at {first}"))?;
            }
            return Ok(first <= expected);
        }
        let last = first.plus(u64::from(batch.len()) - 1);
        if last <= self.base {
            return Ok(true); // in tables already
        }
        if first != expected {
            self.suspicious(log, offset, &format!("sequence {first} where {expected} should be"))?;
            return Ok(false);
        }
        self.apply(log, &reader.store(batch));
        Ok(true)
    }

    fn apply(&mut self, log: LogId, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let full = |mem: &Arc<MemTable>| mem.charged_bytes() > self.options.memtable_bytes;
        if self.replayed.memtables.last().is_none_or(full) {
            let mem = MemTable::new(self.options.order().clone(), log, 0, self.placement.budget());
            self.replayed.memtables.push(Arc::new(mem));
        }
        self.replayed.memtables.last().expect("just pushed").insert(batch);
        let last = batch.sequence().plus(u64::from(batch.len()) - 1);
        self.replayed.last = self.replayed.last.max(last);
        self.expected = Some(last.plus(1)); // not behind `replayed.last`: LevelDB's base may lie ahead of its log
    }

    fn put_aside(&mut self, log: LogId) {
        if self.replayed.set_aside.last() != Some(&log) {
            self.replayed.set_aside.push(log);
        }
    }

    /// Something that a power cut explains; with paranoid checks it is an error all the same.
    fn suspicious(&self, log: LogId, offset: u64, detail: &str) -> Result<()> {
        if self.options.paranoid_checks {
            return Err(Error::corrupt("log", self.object(log), offset, detail));
        }
        Ok(())
    }

    fn object(&self, log: LogId) -> String {
        self.placement.place_of(ObjectId::Wal(log))
    }
}
