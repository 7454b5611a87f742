//! Tests of manual compaction. It must fulfil its contract even if there is nothing to compact.
use crate::common::kit;
use kit::{Place, TIGHT, options};
use std::time::{Duration, Instant};
use terrace::{Db, Options, check_on};
use terrace_storage::placement::OpenMode;

/// Returns the number of entries and of range tombstones in all SSTables of the closed store.
fn entries(place: &Place, options: &Options) -> (u64, u64) {
    let storage = kit::storage(&place.fs, OpenMode::ReadOnly, options).expect("open read-only");
    let report = check_on(&*storage, options, true).expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    (report.entries, report.range_tombstones)
}

fn compacted_bytes(db: &Db) -> u64 {
    db.statistics().levels.iter().map(|level| level.compactions.bytes_written).sum()
}

#[test]
fn a_compaction_of_the_last_level_drops_entries_of_released_snapshots() {
    for more in [&[][..], &[("range_tombstones", "on")], &[("tables", "bundled")], &[("values", "log")]] {
        let options = options(more);
        let place = Place::any();
        let db = place.open(&options, false).expect("open");
        let key = |n: u32| format!("key{n:03}");
        (0..100).for_each(|n| db.put(key(n), vec![b'v'; 1000]).expect("put"));
        let snapshot = db.snapshot();
        (0..50).for_each(|n| db.put(key(n), "new").expect("put"));
        (50..60).for_each(|n| db.delete(key(n)).expect("delete"));
        db.delete_range(key(60), key(70), Default::default()).expect("delete a range");
        db.compact_range(None, None).expect("compact");
        drop(snapshot);
        db.close().expect("close");
        let held = entries(&place, &options);
        assert!(held.0 + held.1 > 150, "{held:?} under {more:?}: nothing was held, so nothing is shown");

        let db = place.open(&options, false).expect("open");
        db.compact_range(Some(b"a"), Some(b"b")).expect("compact");
        assert_eq!(compacted_bytes(&db), 0, "elsewhere");
        db.compact_range(None, None).expect("compact");
        let written = compacted_bytes(&db);
        assert!(written > 0, "nothing was rewritten, under {more:?}");
        db.compact_range(None, None).expect("compact");
        assert_eq!(compacted_bytes(&db), written, "there was nothing to drop");
        db.close().expect("close");
        assert_eq!(entries(&place, &options), (80, 0), "what the snapshot held is still there, under {more:?}");
    }
}

/// Tests that all subcompactions of a manual compaction together keep the rate limit of
/// compactions. They may exceed it only while writers would otherwise wait for them.
#[test]
fn a_manual_compaction_respects_the_rate_limit() {
    let merged = |slow_runs: &str, per_second: u32| {
        let rate = per_second.to_string();
        let level0 = [
            ("level0_file_num_compaction_trigger", "4"),
            ("level0_slowdown_writes_trigger", slow_runs),
            ("level0_stop_writes_trigger", "200"),
        ];
        let sizes = [
            ("rate_bytes_per_sec", rate.as_str()),
            ("max_bytes_for_level_base", "64MiB"),
            ("write_buffer_size", "1MiB"),
        ];
        let parts = [("max_subcompactions", "4"), ("min_subcompaction_size", "64KiB"), ("compression", "none")];
        let db = kit::store(kit::in_files(&[TIGHT, &level0, &sizes, &parts].concat()));
        let mut begun = Instant::now();
        for run in 0..5u32 {
            // If the keys of a flush do not overlap other tables, the flush writes its table to a
            // deeper level. Therefore the first table does not stay in level 0.
            (0..2000).for_each(|n| db.put((n * 5 + run).to_be_bytes(), [7; 400]).expect("put"));
            begun = Instant::now();
            db.flush().expect("flush");
        }
        db.wait_idle().expect("wait");
        let bytes = compacted_bytes(&db);
        assert!(bytes > 3_200_000, "{bytes} B");
        (begun.elapsed(), Duration::from_secs_f64(bytes as f64 / f64::from(per_second)))
    };
    let (time, due) = merged("100", 4 << 20);
    // The rate limiter delays a subcompaction before its next bytes, so its last bytes cause no
    // delay, and other threads can write in this time. The whole compaction may therefore be a
    // little faster than the limit.
    assert!(time > due * 3 / 4, "{time:?} instead of {due:?}");
    let (time, due) = merged("4", 1 << 20);
    assert!(time < due / 2, "{time:?}, as if no writer waited: {due:?}");
}
