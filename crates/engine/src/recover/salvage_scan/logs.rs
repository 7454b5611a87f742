//! Scans the WALs of a damaged store and the value-log segments that garbage collection wrote.
use super::{SEQUENCES_END, SalvageScan, whole};
use crate::{
    Options, Result,
    recover::{
        orphans,
        spill::{LogEntries, Spilled},
    },
};
use std::collections::BTreeMap;
use terrace_format::{
    FamilyId, LogId, SegmentId, SeqNo,
    batch::{Batch, Op},
};
use terrace_storage::placement::{LogEvent, LogKind, Loss, ObjectId, Storage};

impl SalvageScan {
    /// Scans all WALs, oldest first, and then the value-log segments. Adds the entries that the
    /// repair uses to `entries`.
    pub(super) fn scan_logs(&mut self, from: &dyn Storage, entries: &mut LogEntries<'_>) -> Result<()> {
        let logs = orphans::logs(&self.listed);
        if self.history_ends.is_empty() {
            self.history_ends = ends(from, &logs);
        }
        for ((&id, &bytes), end) in logs.iter().zip(self.history_ends.clone()) {
            let named = self.replay_range.is_none_or(|(first, prev)| id >= first || Some(id) == prev);
            self.log(from, entries, id, bytes, named, end)?;
        }
        let segments = self.listed.iter().filter_map(|found| match found.object {
            ObjectId::Segment(id) => Some(id),
            _ => None,
        });
        for id in segments.collect::<Vec<_>>() {
            self.segment(from, entries, id)?;
        }
        Ok(())
    }

    /// Reads the WALs a second time if the first pass could not keep their entries in memory.
    /// Writes the entries into sorted runs of `to`, in tables numbered from `next_file` on. On a
    /// failing disk the two passes may read different parts of a WAL. The returned scan therefore
    /// combines the losses, the range tombstones and the last sequence number of both passes.
    pub fn spill<'a>(
        &self,
        from: &dyn Storage,
        to: &'a dyn Storage,
        options: &Options,
        next_file: u64,
    ) -> Result<(Spilled<'a>, SalvageScan)> {
        let mut both = self.clone();
        if !self.overflowed {
            return Ok((Spilled::none(to, options), both));
        }
        both.lost.clear();
        let mut entries = LogEntries::spilling(options, self.family, from.budget(), (to, next_file));
        both.scan_logs(from, &mut entries)?;
        if let Some(denied) = both.denied {
            return Err(denied);
        }
        both.lost.retain(|lost| !self.lost.contains(lost));
        both.lost.splice(0..0, self.lost.iter().cloned());
        let (spilled, range_tombstones) = entries.spilled()?;
        both.add_range_tombstones(&range_tombstones);
        Ok((spilled.unwrap_or_else(|| Spilled::none(to, options)), both))
    }

    /// Scans WAL `id`. The repair uses every good record below sequence number `history_end`.
    fn log(
        &mut self,
        from: &dyn Storage,
        entries: &mut LogEntries<'_>,
        id: LogId,
        bytes: u64,
        named: bool,
        history_end: SeqNo,
    ) -> Result<()> {
        let file = from.place_of(ObjectId::Wal(id));
        let lose = |salvage_scan: &mut SalvageScan, loss: Loss| {
            if named {
                salvage_scan.lose(file.clone(), loss, None);
            }
        };
        let mut reader = match from.open_log(id, LogKind::Wal) {
            Ok(reader) => reader,
            Err(error) => {
                let reason = self.reason(error);
                lose(self, Loss { bytes, ..whole(reason) });
                return Ok(());
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
                    if let Some(unknown) = batch.as_ref().ok().and_then(|batch| self.unknown_family(batch)) {
                        lose(self, Loss { offset, bytes: end - offset, ..whole(unknown) });
                    }
                    match batch.map(|batch| reader.store(batch)).and_then(|batch| self.reachable(batch)) {
                        Ok(batch) => any |= entries.insert(id, &batch, named)?,
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
        Ok(())
    }

    /// Scans a segment of relocated values, each stored with its key and sequence number. The
    /// repair uses these values for keys whose tables may be lost. The scan of the segment reports
    /// no damaged value, because the repair reports the damage when it reads the table that points
    /// to the value.
    fn segment(&mut self, from: &dyn Storage, entries: &mut LogEntries<'_>, id: SegmentId) -> Result<()> {
        let alone = self.replay_range.is_none();
        if !alone && self.lost_ranges.is_empty() {
            return Ok(());
        }
        let mut reader = match from.salvage_values(id) {
            Ok(reader) => reader,
            Err(error) => {
                self.reason(error); // reported when the table that points to the segment is read
                return Ok(());
            }
        };
        while let Ok(event) = reader.next() {
            let batch = match event {
                LogEvent::Record { bytes, .. } => Batch::decode(bytes),
                LogEvent::Bad { .. } => continue,
                LogEvent::End { .. } => break,
            };
            // A value with a sequence number above the manifest's base is not needed: it is in a
            // WAL too, or an interrupted ingest wrote it.
            let counts = |batch: &Batch| match batch.ops().next() {
                Some(Op::Put(key, _)) => alone || batch.sequence() <= self.base && self.is_in_lost_range(key),
                _ => false,
            };
            // A value with a sequence number that no store can reach is dropped without a report of
            // a loss.
            let batch = batch.ok().filter(counts).map(|batch| self.reachable(reader.store(batch)));
            if let Some(Ok(batch)) = batch {
                entries.insert(LogId(id.0), &batch, alone)?;
            }
        }
        Ok(())
    }

    /// Returns whether the repair may use a batch of a WAL: the batch belongs to the history (is
    /// below `history_end`), and tables may lack its writes.
    fn is_wanted(&self, batch: &Batch, named: bool, history_end: SeqNo) -> bool {
        let last = batch.sequence().0.saturating_add(u64::from(batch.len()));
        batch.sequence() < history_end && (named || !self.lost_ranges.is_empty() || last > self.base.0)
    }

    /// Describes the writes of `batch` to column families that the manifest does not know.
    fn unknown_family(&self, batch: &Batch) -> Option<String> {
        let unknown = |family: &FamilyId| self.families.next != FamilyId::DEFAULT && *family >= self.families.next;
        let unknown = batch.has_families().then(|| batch.ops().map(|op| op.split().0).find(unknown)).flatten()?;
        Some(format!("a write names column family {unknown}, which the manifest does not know"))
    }

    /// Describes the writes that are missing before a batch of one of Terrace's WALs. Each of these
    /// WALs begins with an empty batch that states its first sequence number, so a gap is detected
    /// there.
    fn gap(&mut self, batch: &Batch, ours: bool) -> Option<String> {
        let (first, expected) = (batch.sequence(), self.expected.filter(|_| ours)?);
        self.expected = Some(expected.max(first.plus(u64::from(batch.len()))));
        let gap = || format!("the writes from sequence {expected} to {} are in no WAL", SeqNo(first.0 - 1));
        (first > expected && batch.is_empty()).then(gap)
    }

    /// Returns the batch if a store can have reached its sequence numbers. Otherwise returns the
    /// reason to drop the batch.
    fn reachable(&mut self, batch: Batch) -> std::result::Result<Batch, String> {
        if batch.is_empty() {
            return Ok(batch);
        }
        let last = batch.sequence().plus(u64::from(batch.len()) - 1);
        if !self.saw(last) {
            return Err(format!("sequence {last} is larger than any store reaches"));
        }
        Ok(batch)
    }
}

/// Returns the sequence number at which the history ends in each of `logs`: the lowest first
/// sequence number of all younger WALs. Records at or above it are not part of the history. Their
/// writes failed or were dropped by a recovery, and the younger WALs reuse their sequence numbers.
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
