//! Tests of seek compaction: in presets with this option, a table that many reads search without
//! finding their key must be compacted.
use crate::common::{history, kit};
use history::tight;
use terrace::{Db, Options, ReadOptions};

/// Makes a store with two levels. A lookup of a key in the middle first reads a table of the upper
/// level without finding the key, and then finds it in the deeper level.
fn two_layers(seek_compaction: bool, seek_compaction_bytes: u64) -> Db {
    let mut options: Options = tight(Options::leveldb_compatible());
    options.seek_compaction = seek_compaction;
    options.seek_compaction_bytes = seek_compaction_bytes;
    options.level0_file_num_compaction_trigger = 4;
    options.level0_slowdown_writes_trigger = 1000;
    let db = kit::store(options);
    for key in 0..100 {
        db.put(format!("{key:03}"), vec![b'v'; 1000]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.put("000", "newer").unwrap();
    db.put("099", "newer").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db
}

fn level_of_newer(db: &Db) -> usize {
    let layout = db.layout();
    layout.iter().find(|level| !level.tables.is_empty()).expect("a table").level
}

#[test]
fn point_lookups_exhaust_the_seek_budget() {
    for (wanted, moves) in [(true, true), (false, false)] {
        let db = two_layers(wanted, 0);
        let before = level_of_newer(&db);
        for _ in 0..200 {
            assert!(db.get("050").unwrap().is_some());
        }
        db.wait_idle().unwrap();
        assert_eq!(level_of_newer(&db) > before, moves, "seek_compaction {wanted}");
        assert_eq!(db.get("000").unwrap().as_deref(), Some(&b"newer"[..]));
    }
}

#[test]
fn a_table_with_much_overlap_is_compacted_when_reads_have_paid_for_it() {
    const WORTH: u64 = 16;
    let db = two_layers(true, WORTH);
    let before = level_of_newer(&db);
    let layout = db.layout();
    let met: u64 = layout.iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
    let price = met / WORTH;
    assert!(price > 150, "{price} reads are more than its own bytes allow");
    let read = |times| (0..times).for_each(|_| assert!(db.get("050").unwrap().is_some()));
    read(price - 1);
    db.wait_idle().unwrap();
    assert_eq!(level_of_newer(&db), before, "one read less than it costs");
    read(1);
    db.wait_idle().unwrap();
    assert!(level_of_newer(&db) > before, "now they have paid");
}

#[test]
fn long_scans_exhaust_the_seek_budget() {
    for (wanted, moves) in [(true, true), (false, false)] {
        let db = two_layers(wanted, 0);
        let before = level_of_newer(&db);
        let mut cursor = db.cursor(ReadOptions::new());
        for _ in 0..1200 {
            cursor.seek_to_first().unwrap();
            while cursor.valid() {
                cursor.next().unwrap();
            }
        }
        drop(cursor);
        db.wait_idle().unwrap();
        assert_eq!(level_of_newer(&db) > before, moves, "seek_compaction {wanted}");
    }
}

/// Tests that scans charge the seek budget as much for a deleted pair that they skip as for a live
/// pair that they return, because both take the same time.
#[test]
fn scans_over_tombstones_exhaust_the_seek_budget() {
    for (wanted, goes) in [(true, true), (false, false)] {
        let mut options: Options = tight(Options::leveldb_compatible());
        options.seek_compaction = wanted;
        (options.seek_compaction_bytes, options.tombstone_compaction_percent) = (0, 0);
        options.set("compression", "none").unwrap();
        options.level0_file_num_compaction_trigger = 4;
        options.level0_slowdown_writes_trigger = 1000;
        let db = kit::store(options);
        (0..100).for_each(|key| db.put(format!("{key:03}"), vec![b'v'; 1000]).unwrap());
        db.compact_range(None, None).unwrap();
        (0..100).for_each(|key| db.delete(format!("{key:03}")).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let mut cursor = db.cursor(ReadOptions::new());
        for _ in 0..1200 {
            cursor.seek_to_first().unwrap();
            assert!(!cursor.valid());
        }
        drop(cursor);
        db.wait_idle().unwrap();
        let bytes: u64 = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
        assert_eq!(bytes < 10_000, goes, "seek_compaction {wanted}: {bytes} bytes");
    }
}

/// Tests which tables a cursor charges. It must charge the seek budgets of the tables that it has
/// to read. It must not charge tables that a filter excludes, or tables that it does not need
/// after it has found the key.
#[test]
fn seeks_compact_level_0_when_it_pays() {
    #[derive(Clone, Copy, Debug)]
    enum By {
        /// A seek to an absent key.
        Seek,
        /// A seek to a present key, followed by a step.
        SeekAndStep,
        /// A seek to a present key.
        SeekFound,
        Get,
    }
    let cases = [
        ("64KiB", By::Seek, true),
        ("64KiB", By::SeekAndStep, true),
        ("64KiB", By::SeekFound, false),
        ("64KiB", By::Get, false),
        ("0", By::Seek, false),
    ];
    for (worth, by, empties) in cases {
        let mut options: Options = tight(Options::leveldb_compatible());
        options.set("seek_compaction", "off").unwrap();
        options.set("level0_seek_compaction_bytes", worth).unwrap();
        options.set("level0_file_num_compaction_trigger", "100").unwrap();
        options.set("level0_slowdown_writes_trigger", "1000").unwrap();
        options.set("level0_stop_writes_trigger", "1000").unwrap();
        let db = kit::store(options);
        for round in 0..5 {
            for key in 0..100 {
                db.put(format!("{key:03}"), vec![round; 1000]).unwrap();
            }
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        let runs = || db.layout()[0].tables.len();
        // Levels 0 and 1 together have less than 2 MiB. After this count of seeks, their compaction
        // is due.
        let (before, needed) = (runs(), 1 + (2 << 20) / (64 << 10));
        assert!(before > 1, "{before} runs in level 0");
        let seek = || {
            let mut cursor = db.cursor(ReadOptions::new());
            match by {
                By::Seek => cursor.seek(b"0495").unwrap(),
                By::SeekFound => cursor.seek(b"050").unwrap(),
                By::SeekAndStep => cursor.seek(b"049").and_then(|()| cursor.next()).unwrap(),
                By::Get => return assert_eq!(db.get("050").unwrap(), Some(vec![4; 1000])),
            }
            assert_eq!((cursor.key(), cursor.value()), (&b"050"[..], &[4; 1000][..]));
        };
        seek();
        db.wait_idle().unwrap();
        assert_eq!(runs(), before, "one seek is not worth a merge");
        // Each round writes three memtables with one key range each. A compaction takes the tables
        // that overlap the oldest one. Seeks before the end of this compaction do not lead to
        // another one.
        for _ in 0..3 {
            (0..needed).for_each(|_| seek());
            db.wait_idle().unwrap();
        }
        assert_eq!(runs() == 0, empties, "worth {worth}, {by:?}");
    }
}
