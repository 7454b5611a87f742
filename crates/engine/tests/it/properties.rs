//! Tests of LevelDB's property strings. For the same directory, Terrace and LevelDB must return
//! the same text.
use crate::common::{kit, leveldb};
use kit::Place;
use leveldb::{Layout, Side, Store};
use terrace::Db;
use terrace_peers::{leveldb::Library, require};

/// Makes a store with tables in several levels, one of them in level 0. The keys contain every
/// byte value.
fn filled(place: &Place) -> Db {
    let db = Db::open(
        place.path().unwrap(),
        kit::plain(&[("target_file_size", "64KiB"), ("max_bytes_for_level_base", "64KiB"), ("seek_compaction", "off")]),
    )
    .unwrap();
    for number in 0..4000u64 {
        db.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [number as u8; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.put("\"quoted\" \\ 'key'\n", "").unwrap();
    db.delete(1u64.to_be_bytes()).unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db
}

#[test]
fn properties_agree_with_the_layout() {
    let place = Place::directory();
    let db = filled(&place);
    let layout = db.layout();
    for level in &layout {
        let name = format!("leveldb.num-files-at-level{}", level.level);
        assert_eq!(db.property(&name), Some(level.tables.len().to_string()));
    }
    let tables: usize = layout.iter().map(|level| level.tables.len()).sum();
    let lines = db.property("leveldb.sstables").unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with(' ')).count(), tables, "{lines}");
    let held = layout.iter().filter(|level| !level.tables.is_empty()).count();
    let stats = db.property("leveldb.stats").unwrap();
    assert!(stats.lines().count() >= 3 + held && stats.contains("Size(MB)"), "{stats}");
    for unknown in
        ["leveldb.num-files-at-level7", "leveldb.num-files-at-level01", "leveldb.num-files-at-level", "stats", ""]
    {
        assert_eq!(db.property(unknown), None, "{unknown}");
    }
}

#[test]
fn memory_usage_grows_with_reads_and_writes() {
    let place = Place::directory();
    let db = filled(&place);
    let usage = || db.property("leveldb.approximate-memory-usage").unwrap().parse::<u64>().unwrap();
    let before = usage();
    kit::scan(&db, terrace::ReadOptions::new()).unwrap();
    for number in 0..4000u64 {
        db.get(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap();
    }
    let read = usage();
    assert!(read > before + (100 << 10), "{before}, after reading {read}");
    db.put("large", vec![7; 1 << 20]).unwrap();
    assert!(usage() >= read + (1 << 20), "{read}, after writing {}", usage());
}

#[test]
fn leveldb_reports_the_same_properties() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let place = Place::directory();
    let db = filled(&place);
    let names: Vec<String> = (0..7).map(|level| format!("leveldb.num-files-at-level{level}")).collect();
    let ours: Vec<_> = names.iter().map(|name| db.property(name)).collect();
    let tables = db.property("leveldb.sstables").unwrap();
    assert!(tables.contains(r#"'"quoted" \ 'key'\x0a' @ 4001 : 1"#), "{tables}");
    db.close().unwrap();
    let Store::Theirs(store) = Store::open(Side::Theirs, &place.path().unwrap(), &Layout::default()) else {
        unreachable!("theirs was asked for")
    };
    assert_eq!(names.iter().map(|name| store.property(name)).collect::<Vec<_>>(), ours);
    assert_eq!(store.property("leveldb.sstables"), Some(tables));
}
