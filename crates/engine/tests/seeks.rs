//! Seek compaction: a table that costs many reads a second look is merged away, in the presets that want it.
#[path = "common/history.rs"]
mod history;

use history::tight_options;
use terrace::{Db, Options, ReadOptions};

/// Tables so laid out that a read of a key in the middle asks one table in vain before it finds the key deeper down.
fn two_layers(seek_compaction: bool) -> Db {
    let mut options: Options = tight_options();
    options.seek_compaction = seek_compaction;
    options.l0_compact_runs = 4;
    options.l0_slow_runs = 1000;
    let db = Db::open_in_memory(options).unwrap();
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
fn fruitless_point_reads_wear_a_table_out() {
    for (wanted, moves) in [(true, true), (false, false)] {
        let db = two_layers(wanted);
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
fn long_scans_wear_a_table_out() {
    for (wanted, moves) in [(true, true), (false, false)] {
        let db = two_layers(wanted);
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
