//! Compaction by hand keeps its word also where there is nothing to merge.
#[path = "common/kit.rs"]
mod kit;

use kit::{Place, options};
use terrace::{Db, Options, check_on};
use terrace_storage::placement::Mode;

/// Entries and deletes of ranges in all tables of the closed store.
fn entries(place: &Place, options: &Options) -> (u64, u64) {
    let placement = kit::placement(&place.fs, Mode::ReadOnly, options).expect("open read-only");
    let report = check_on(&*placement, options, true).expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    (report.entries, report.range_deletes)
}

fn compacted_bytes(db: &Db) -> u64 {
    db.statistics().levels.iter().map(|level| level.compactions.bytes_written).sum()
}

#[test]
fn the_bottom_drops_what_a_snapshot_held() {
    for more in [&[][..], &[("range_deletes", "on")], &[("tables", "bundled")], &[("values", "log")]] {
        let options = options(more);
        let place = Place::memory();
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
        assert!(written > 0, "nothing was written anew, under {more:?}");
        db.compact_range(None, None).expect("compact");
        assert_eq!(compacted_bytes(&db), written, "there was nothing to drop");
        db.close().expect("close");
        assert_eq!(entries(&place, &options), (80, 0), "what the snapshot held is still there, under {more:?}");
    }
}
