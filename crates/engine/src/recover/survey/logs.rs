//! What logs, and segments of moved values, tell of a damaged store.
use super::{SEQUENCES_END, Survey, whole};
use crate::{Options, mem::MemTable, recover::manifest::ManifestState};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{
    LogId, SegmentId, SeqNo,
    batch::{Batch, Op},
};
use terrace_storage::placement::{LogEvent, LogKind, Loss, ObjectId, Storage};

impl Survey {
    /// Reads `logs`, oldest first, with their bytes. `manifest` tells which of them count for all keys.
    pub(super) fn logs(
        &mut self,
        from: &dyn Storage,
        options: &Options,
        logs: &BTreeMap<LogId, u64>,
        manifest: Option<&ManifestState>,
    ) {
        for ((&id, &bytes), end) in logs.iter().zip(ends(from, logs)) {
            let named = manifest.is_none_or(|m| id >= m.replay_from || Some(id) == m.also_replay);
            self.log(from, options, id, bytes, named, end);
        }
    }

    /// Reads a log; every good record before `history_end` counts.
    fn log(&mut self, from: &dyn Storage, options: &Options, id: LogId, bytes: u64, named: bool, history_end: SeqNo) {
        let file = from.place_of(ObjectId::Wal(id));
        let lose = |survey: &mut Survey, loss: Loss| {
            if named {
                survey.lose(file.clone(), loss, None);
            }
        };
        let mut reader = match from.open_log(id, LogKind::Wal) {
            Ok(reader) => reader,
            Err(error) => {
                let reason = self.reason(error);
                return lose(self, Loss { bytes, ..whole(reason) });
            }
        };
        let (mut any, mut end) = (false, 0);
        loop {
            match reader.next() {
                Ok(LogEvent::Record { offset, bytes: record }) => {
                    end = offset + record.len() as u64;
                    let batch = Batch::decode(record).map_err(|found| found.to_string());
                    if batch.as_ref().is_ok_and(|batch| !self.is_wanted(batch, named, history_end)) {
                        continue;
                    }
                    if let Some(gap) = batch.as_ref().ok().and_then(|batch| self.gap(batch, named && reader.ours())) {
                        lose(self, Loss { offset, ..whole(gap) });
                    }
                    let batch = batch.map(|batch| reader.store(batch));
                    match batch.and_then(|batch| self.batch(options, id, &batch, named)) {
                        Ok(held) => any |= held,
                        Err(reason) => lose(self, Loss { offset, bytes: end - offset, ..whole(reason) }),
                    }
                }
                Ok(LogEvent::Bad { offset, bytes, reason }) => {
                    end = offset + bytes;
                    lose(self, Loss { offset, bytes, ..whole(reason) });
                }
                Ok(LogEvent::End { torn: false, .. }) => break,
                Ok(LogEvent::End { offset, torn: true }) => {
                    let loss = Loss { offset, bytes: bytes.saturating_sub(offset), ..whole("it ends within a record") };
                    lose(self, loss);
                    break;
                }
                Err(error) => {
                    let reason = self.reason(error);
                    let loss = Loss { offset: end, bytes: bytes.saturating_sub(end), ..whole(reason) };
                    lose(self, loss);
                    break;
                }
            }
        }
        self.logs_read += u64::from(any);
    }

    /// Reads a segment of moved values, in which each has its key and sequence. They count where tables that pointed there may be
    /// lost. What is damaged here is told if a table points to it.
    pub(super) fn moved(&mut self, from: &dyn Storage, options: &Options, id: SegmentId, alone: bool) {
        if !alone && self.gaps.is_empty() {
            return;
        }
        let mut reader = match from.salvage_values(id) {
            Ok(reader) => reader,
            Err(error) => return drop(self.reason(error)), // told where a table points to it
        };
        while let Ok(event) = reader.next() {
            let batch = match event {
                LogEvent::Record { bytes, .. } => Batch::decode(bytes),
                LogEvent::Bad { .. } => continue,
                LogEvent::End { .. } => break,
            };
            // What is newer than every table is in a log, or was never written: it is part of an ingest that did not end.
            let counts = |batch: &Batch| match batch.ops().next() {
                Some(Op::Put(key, _)) => alone || batch.sequence() <= self.base && self.is_in_a_gap(key),
                _ => false,
            };
            if let Some(batch) = batch.ok().filter(counts) {
                let _ = self.batch(options, LogId(id.0), &reader.store(batch), alone); // an absurd sequence is no loss to tell
            }
        }
    }

    /// Whether a batch may count: not behind the end of its log's history, nor where tables have everything.
    fn is_wanted(&self, batch: &Batch, named: bool, history_end: SeqNo) -> bool {
        let last = batch.sequence().0.saturating_add(u64::from(batch.len()));
        batch.sequence() < history_end && (named || !self.gaps.is_empty() || last > self.base.0)
    }

    /// What is missing before a batch of one of our logs, each of which begins with an empty one.
    fn gap(&mut self, batch: &Batch, ours: bool) -> Option<String> {
        let (first, expected) = (batch.sequence(), self.expected.filter(|_| ours)?);
        self.expected = Some(expected.max(first.plus(u64::from(batch.len()))));
        let gap = || format!("the writes from sequence {expected} to {} are in no log", SeqNo(first.0 - 1));
        (first > expected && batch.is_empty()).then(gap)
    }

    /// Takes a batch of a log; whether it held anything.
    fn batch(
        &mut self,
        options: &Options,
        log: LogId,
        batch: &Batch,
        named: bool,
    ) -> std::result::Result<bool, String> {
        if batch.is_empty() {
            return Ok(false);
        }
        let last = batch.sequence().plus(u64::from(batch.len()) - 1);
        if last >= SEQUENCES_END {
            return Err(format!("sequence {last} is larger than any store reaches"));
        }
        let fits =
            |(mem, _): &(Arc<MemTable>, bool)| mem.log == log && mem.charged_bytes() <= options.write_buffer_size;
        if !self.memtables.last().is_some_and(fits) {
            self.memtables.push((Arc::new(MemTable::new(self.order.clone(), log, 0, &self.budget)), named));
        }
        self.memtables.last().expect("just pushed").0.insert(batch);
        self.saw(last);
        Ok(true)
    }
}

/// Where the history goes on in another log, of each of `logs`: where one begins that was made later. What is in a log behind that
/// is no part of the history: it was refused, or given up, and its sequences were used again.
fn ends(from: &dyn Storage, logs: &BTreeMap<LogId, u64>) -> Vec<SeqNo> {
    let head = |id: LogId| {
        let mut reader = from.open_log(id, LogKind::Wal).ok().filter(|reader| reader.ours())?;
        match reader.next() {
            Ok(LogEvent::Record { bytes, .. }) => Batch::decode(bytes).ok().map(|batch| batch.sequence()),
            _ => None,
        }
    };
    let mut end = SEQUENCES_END;
    let mut ends: Vec<SeqNo> = Vec::with_capacity(logs.len());
    for id in logs.keys().rev() {
        ends.push(end);
        end = head(*id).map_or(end, |head| end.min(head));
    }
    ends.reverse();
    ends
}
