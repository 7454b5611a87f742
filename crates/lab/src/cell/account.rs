//! Computes a row (the result of one engine in one workload) from counters, as differences, ratios
//! and percentiles. The functions perform no I/O. If one of the inputs of a figure is unknown, the
//! figure is `None` (unknown).
use super::{Amplification, Bytes, CpuSeconds, Latency, OverTime, Row, SYNC_KINDS, SyncRow, SyncRows};
use crate::{
    ledger::LedgerDelta,
    measure::{Latencies, Outcome},
    target::{EngineCounts, SyncCount},
};
use std::collections::BTreeMap;

/// The engine's own counters at two moments: at the start of a stage (a measured part of a
/// workload), and after the background work of that stage has finished.
pub struct EngineCountsPair {
    /// The engine's counters at the start of the stage.
    pub start: EngineCounts,
    /// Counters after the background work of the stage has finished.
    pub settled: EngineCounts,
}

impl EngineCountsPair {
    /// Returns the increase of the byte counts that the function `of` selects.
    fn bytes(&self, of: fn(&EngineCounts) -> Option<&BTreeMap<String, u64>>) -> Option<BTreeMap<String, u64>> {
        let (before, after) = (of(&self.start)?, of(&self.settled)?);
        let grown =
            |(what, sum): (&String, &u64)| (what.clone(), sum.saturating_sub(before.get(what).copied().unwrap_or(0)));
        Some(after.iter().map(grown).collect())
    }

    /// Returns the increase of the sync counts that the function `of` selects.
    fn syncs(
        &self,
        of: fn(&EngineCounts) -> Option<&BTreeMap<String, SyncCount>>,
    ) -> Option<BTreeMap<String, SyncRow>> {
        let (before, after) = (of(&self.start)?, of(&self.settled)?);
        let row = |(kind, sum): (&String, &SyncCount)| {
            let old = before.get(kind).copied().unwrap_or_default();
            let grown = SyncRow {
                count: sum.count.saturating_sub(old.count),
                blocking: Some(sum.blocking.saturating_sub(old.blocking)),
                bytes: sum.bytes.map(|bytes| bytes.saturating_sub(old.bytes.unwrap_or(0))),
                seconds: Some((sum.seconds - old.seconds).max(0.0)),
            };
            (kind.clone(), grown)
        };
        Some(after.iter().map(row).collect())
    }

    fn flushes(&self) -> Option<u64> {
        Some(self.settled.flushes?.saturating_sub(self.start.flushes?))
    }

    fn stall_seconds(&self) -> Option<f64> {
        Some(self.settled.stall?.saturating_sub(self.start.stall?).as_secs_f64())
    }
}

/// Fills `row` with the results of one stage (a measured part of a workload). `own` contains the
/// engine's counters before and after the stage. `own` is `None` if the stage reopened the store:
/// an engine counts from the opening, so its counters before and after the stage cannot be
/// compared.
pub fn fill(row: &mut Row, outcome: &Outcome, own: Option<&EngineCountsPair>, ledger: LedgerDelta) {
    let tally = outcome.tally;
    let seconds = outcome.seconds;
    row.ops = tally.ops;
    row.found = tally.found;
    row.seconds = Some(seconds);
    row.micros_per_op = ratio(seconds * 1e6 * row.threads as f64, tally.ops as f64);
    row.user_mib_per_s = ratio((tally.written_bytes + tally.returned_bytes) as f64 / f64::from(1 << 20), seconds);
    row.latency_us = outcome.recorded.as_ref().map(|it| percentiles(&it.latencies)).unwrap_or_default();
    row.over_time = outcome.recorded.as_ref().map(|it| OverTime::of(&it.timeline));
    row.stall_seconds = own.and_then(EngineCountsPair::stall_seconds);

    let by_purpose = own.and_then(|own| own.bytes(|own| own.bytes_by_purpose.as_ref()));
    let by_level = own.and_then(|own| own.bytes(|own| own.compaction_by_level.as_ref()));
    row.bytes = Bytes {
        user: tally.written_bytes,
        returned: tally.returned_bytes,
        engine: by_purpose.as_ref().map(|bytes| bytes.values().sum()),
        engine_by_purpose: by_purpose,
        engine_compaction_by_level: by_level.map(|levels| levels.into_iter().filter(|(_, sum)| *sum > 0).collect()),
        process: ledger.process_write_bytes,
        process_read: ledger.process_read_bytes,
        device: ledger.device_write_bytes,
        device_read: ledger.device_read_bytes,
        device_by_cause: ledger.device_by_cause,
        device_rewritten_by_kind: ledger.device_rewritten_by_kind,
        never_written: ledger.never_written_bytes,
        file_system: ledger.fs_session_write,
        drive: ledger.drive_write_bytes,
        nand: ledger.nand_bytes,
        nand_by_cause: ledger.nand_by_cause,
    };
    row.wa = amplification(&row.bytes);
    let read = row.bytes.device_read.or(row.bytes.process_read);
    row.ra = read.and_then(|read| ratio(read as f64, tally.returned_bytes as f64));

    let outside: Option<BTreeMap<String, SyncRow>> = ledger.syncs_outside.map(|kinds| {
        // The kernel's trace shows how often `syncfs` was called but not how long the calls took.
        let seen = |kind: &str, sync: SyncCount| {
            let row = known(sync);
            SyncRow { blocking: None, seconds: row.seconds.filter(|_| kind != "filesystem"), ..row }
        };
        kinds.into_iter().map(|(kind, sync)| (kind.clone(), seen(&kind, sync))).collect()
    });
    row.syncs = sync_rows(own.and_then(|own| own.syncs(|own| own.syncs.as_ref())).or_else(|| outside.clone()));
    row.syncs.tables_by_purpose = own.and_then(|own| own.syncs(|own| own.table_syncs.as_ref()));
    row.flushes = own.and_then(EngineCountsPair::flushes);
    row.syncs_outside = outside;
    row.device_flushes = ledger.device_flushes;
    row.journal_commits = ledger.journal_commits;
    row.cpu_seconds = Some(CpuSeconds { user: ledger.cpu_user, system: ledger.cpu_system });
    row.cpu_by_thread = ledger.cpu_by_thread;
    row.notes.extend(ledger.notes);
}

fn known(sync: SyncCount) -> SyncRow {
    SyncRow { count: sync.count, blocking: Some(sync.blocking), bytes: sync.bytes, seconds: Some(sync.seconds) }
}

/// Returns the sync counts as one row for each kind in [`SYNC_KINDS`]. A kind that is missing in
/// `counted` has zero syncs. If `counted` is `None`, the row of each kind is unknown.
fn sync_rows(counted: Option<BTreeMap<String, SyncRow>>) -> SyncRows {
    let Some(counted) = counted else {
        return SyncRows { kinds: SYNC_KINDS.map(|kind| (kind.to_string(), None)).into(), ..SyncRows::default() };
    };
    let count = counted.values().map(|row| row.count).sum();
    let blocking = counted.values().map(|row| row.blocking).sum();
    let none = SyncRow { blocking: Some(0), bytes: Some(0), seconds: Some(0.0), count: 0 };
    let mut kinds: BTreeMap<String, Option<SyncRow>> = SYNC_KINDS.map(|kind| (kind.to_string(), Some(none))).into();
    kinds.extend(counted.into_iter().map(|(kind, row)| (kind, Some(row))));
    SyncRows { count: Some(count), blocking, tables_by_purpose: None, kinds }
}

/// Returns the write amplification ratios of docs/lab.md. Each ratio divides the bytes of one
/// layer, such as the device, by the bytes of a layer above it. The ratio is unknown if the bytes
/// of one of the two layers are unknown.
pub fn amplification(bytes: &Bytes) -> Amplification {
    let over = |upper: Option<u64>, lower: Option<u64>| ratio(upper? as f64, lower? as f64);
    let wa1 = over(bytes.device, Some(bytes.user));
    let wa2 = over(bytes.nand, bytes.device);
    Amplification {
        engine: over(bytes.engine, Some(bytes.user)),
        fs: over(bytes.device, bytes.engine),
        wa1,
        wa2,
        total: wa1.zip(wa2).map(|(wa1, wa2)| wa1 * wa2),
    }
}

/// Returns `upper` / `lower`, or `None` if `lower` is not positive.
pub fn ratio(upper: f64, lower: f64) -> Option<f64> {
    (lower > 0.0).then(|| upper / lower)
}

fn percentiles(latencies: &Latencies) -> BTreeMap<String, Latency> {
    let row = |times: &hdrhistogram::Histogram<u64>| {
        let at = |percent| times.value_at_percentile(percent) as f64 / 1000.0;
        Latency {
            count: times.len(),
            mean: times.mean() / 1000.0,
            p1: at(1.0),
            p5: at(5.0),
            p50: at(50.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: times.max() as f64 / 1000.0,
        }
    };
    latencies.recorded().map(|(kind, times)| (kind.name().into(), row(times))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_need_both_layers() {
        let bytes = Bytes { user: 100, engine: Some(300), device: Some(600), nand: Some(900), ..Bytes::default() };
        let all = amplification(&bytes);
        assert_eq!((all.engine, all.fs, all.wa1), (Some(3.0), Some(2.0), Some(6.0)));
        assert_eq!((all.wa2, all.total), (Some(1.5), Some(9.0)));
        let peer = amplification(&Bytes { engine: None, nand: None, ..bytes.clone() });
        assert_eq!((peer.engine, peer.fs, peer.wa1, peer.wa2, peer.total), (None, None, Some(6.0), None, None));
        assert_eq!(amplification(&Bytes { user: 0, ..bytes }).wa1, None);
    }

    #[test]
    fn every_kind_of_sync_has_a_row() {
        let nobody = sync_rows(None);
        assert_eq!((nobody.count, nobody.blocking), (None, None));
        assert!(SYNC_KINDS.iter().all(|kind| nobody.kinds[*kind].is_none()));
        let row = |count, blocking| SyncRow { count, blocking, ..SyncRow::default() };
        let both = sync_rows(Some([("log".into(), row(3, Some(2))), ("other".into(), row(1, Some(0)))].into()));
        assert_eq!((both.count, both.blocking, both.kinds.len()), (Some(4), Some(2), SYNC_KINDS.len() + 1));
        assert_eq!(both.kinds["tables"].unwrap().count, 0);
        assert_eq!(sync_rows(Some([("log".into(), row(3, None))].into())).blocking, None);
    }

    #[test]
    fn syncs_made_before_do_not_count() {
        let own = |count| {
            let sync = SyncCount { count, blocking: count, bytes: Some(count * 10), seconds: count as f64 };
            EngineCounts { syncs: Some([("log".into(), sync)].into()), ..EngineCounts::default() }
        };
        let rows = EngineCountsPair { start: own(1), settled: own(7) }.syncs(|own| own.syncs.as_ref()).unwrap();
        assert_eq!(rows["log"], SyncRow { count: 6, blocking: Some(6), bytes: Some(60), seconds: Some(6.0) });
    }
}
