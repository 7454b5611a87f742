//! Tests of range tombstones, in addition to the model, metamorphic and crash suites. They test
//! the cost of writing range tombstones and of reading over them, calls that must be refused, and
//! that repairs and checkpoints keep range tombstones.
use crate::common::{kit, leveldb};
use kit::{Backwards, Place, contents, options};
use leveldb::{Layout, Side, Store};
use std::{fs, sync::Arc};
use terrace::{Db, Error, Op, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_peers::{leveldb::Library, require};
use terrace_sim::{FaultFs, Plan};
use terrace_storage::backends::files::fs::FileSystem;

const RANGED: &[(&str, &str)] = &[
    ("range_tombstones", "on"),
    ("target_file_size", "64KiB"),
    ("max_bytes_for_level_base", "64KiB"),
    ("seek_compaction", "off"),
];

fn ranged() -> Options {
    options(RANGED)
}

fn key(number: u64) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}

fn filled(db: &Db, keys: u64) {
    for number in 0..keys {
        db.put(key(number), [number as u8; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
}

/// Tests a seek to a key that a range tombstone deletes. The seek finds the key in a newer table,
/// so it does not search older tables at first. But the next live key is in an older table, and
/// the seek must return that key.
#[test]
fn a_seek_to_a_deleted_key_continues_in_every_source() {
    let mut options = ranged();
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (100, 200, 300);
    let db = kit::store(options);
    for numbers in [&[0, 5][..], &[1, 2, 8], &[9]] {
        numbers.iter().for_each(|number| db.put(key(*number), "").unwrap());
        if numbers == [9] {
            db.delete_range(key(1), key(3), WriteOptions::default()).unwrap();
        }
        db.flush().unwrap();
    }
    let mut cursor = db.cursor(ReadOptions::new());
    for (sought, wanted) in [(1, 5), (2, 5), (3, 5), (5, 5), (6, 8), (9, 9)] {
        cursor.seek(&key(sought)).unwrap();
        assert_eq!(cursor.key(), key(wanted), "sought {sought}");
    }
}

#[test]
fn a_range_tombstone_costs_one_write_and_is_skipped_at_once() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut cold = kit::plain(RANGED);
    (cold.block_cache_size, cold.target_file_size) = (1, 2 << 20);
    cold.set("compression", "none").unwrap();
    let db = kit::open(&fs, &cold, true).unwrap();
    filled(&db, 60_000);
    let reads = |reverse: bool| {
        let before = disk.calls();
        let scan = if reverse { db.scan_reverse(ReadOptions::new()) } else { db.scan(ReadOptions::new()) };
        (scan.collect::<terrace::Result<Vec<_>>>().unwrap().len(), disk.calls() - before)
    };
    let (pairs, full) = reads(false);
    assert!(pairs == 60_000 && full > 60, "{pairs} pairs in {full} calls");
    let last = db.last_sequence();
    let before = disk.calls();
    db.delete_range(key(10), key(59_990), WriteOptions::default()).unwrap();
    assert_eq!((db.last_sequence(), disk.calls() - before), (last + 1, 1), "one record of the log");
    for flushed in [false, true] {
        for reverse in [false, true] {
            let (pairs, calls) = reads(reverse);
            assert!(
                pairs == 20 && calls < full / 4,
                "{pairs} pairs in {calls} calls, reverse {reverse}, flushed {flushed}; {full} for all"
            );
        }
        assert_eq!(db.get(key(10)).unwrap(), None);
        assert!(db.get(key(9)).unwrap().is_some() && db.get(key(59_990)).unwrap().is_some());
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let bytes: u64 = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
    assert!(bytes < 20_000, "{bytes} bytes of deleted entries remain");
}

#[test]
fn a_store_that_leveldb_reads_deletes_key_by_key() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, kit::plain(&[])).unwrap();
    filled(&db, 5000);
    db.delete_range(key(100), key(4900), WriteOptions::synced()).unwrap();
    assert_eq!(db.last_sequence(), 5000 + 4800);
    assert_eq!(db.durable_sequence(), db.last_sequence(), "a synced one is durable as a whole");
    db.delete_range(key(7), key(7), WriteOptions::default()).expect("no key lies there");
    let mut batch = WriteBatch::new();
    batch.delete_range(key(1), key(2));
    let refused = db.write(batch, WriteOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::Unsupported(_)) && refused.to_string().contains("range_tombstones"), "{refused}");
    let ours = contents(&db).unwrap();
    assert_eq!(ours.len(), 200);
    db.close().unwrap();
    let refused = Db::open(&path, kit::plain(&[("range_tombstones", "on")])).map(drop).unwrap_err().to_string();
    assert!(refused.contains("range_tombstones=on"), "{refused}");
    let Some(_) = require("leveldb", Library::load()) else { return };
    assert_eq!(Store::open(Side::Theirs, &path, &Layout::default()).forward(), ours);
}

#[test]
fn leveldb_refuses_a_store_with_range_tombstones() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let place = Place::directory();
    let path = place.path().unwrap();
    Db::open(&path, ranged()).unwrap().close().unwrap();
    let Err(refusal) = Store::try_open(Side::Theirs, &path, &Layout::default()) else { panic!("LevelDB opened it") };
    assert!(refusal.contains("unknown tag"), "{refusal}");
    let format_file = fs::read_to_string(path.join("TERRACE")).unwrap();
    assert!(format_file.contains("range-deletes"), "{format_file}");
    let db = Db::open(&path, kit::plain(&[])).expect("it remembers, whatever the options say");
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range("a", "b").put("b", "2");
    db.write(batch.clone(), WriteOptions::default()).unwrap();
    assert_eq!(contents(&db).unwrap(), [(b"b".to_vec(), b"2".to_vec())]);
    let update = db.updates_since(1).unwrap().next().unwrap().unwrap();
    assert!(update.batch.ops().eq([Op::DeleteRange(b"a", b"b"), Op::Put(b"b", b"2")]), "{update:?}");
}

/// Tests range deletes whose range is empty; the comparator decides which ranges are. An empty
/// range must have no effect and must not make the other operations of its batch fail.
#[test]
fn an_empty_range_is_a_no_op_alone_and_in_a_batch() {
    for (ranges, backwards) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut layout = options(&[("range_tombstones", if ranges { "on" } else { "off" })]);
        if backwards {
            layout = layout.comparator(Arc::new(Backwards));
        }
        let db = kit::store(layout);
        let (low, high) = if backwards { ("c", "a") } else { ("a", "c") };
        ["a", "b", "c"].iter().for_each(|key| db.put(key, "").unwrap());
        for (from, to) in [("b", "b"), (high, low), ("", "")] {
            let last = db.last_sequence();
            db.delete_range(from, to, WriteOptions::default()).unwrap();
            let mut batch = WriteBatch::new();
            batch.delete_range(from, to);
            assert_eq!(db.write(batch.clone(), WriteOptions::default()).unwrap(), last, "nothing was written");
            assert_eq!(db.write(batch.clone(), WriteOptions::without_wal()).unwrap(), last);
            batch.put("k", from).delete_range(from, to);
            assert_eq!(db.write(batch, WriteOptions::default()).unwrap(), last + 1);
            assert_eq!(db.get("k").unwrap().as_deref(), Some(from.as_bytes()));
            assert_eq!(contents(&db).unwrap().len(), 4, "{ranges} {backwards} {from} {to}");
        }
        let mut batch = WriteBatch::new();
        batch.delete_range("b", "b").delete_range(low, high).put("d", "");
        let written = db.write(batch, WriteOptions::default());
        assert_eq!(written.is_ok(), ranges, "a range that is not empty counts: {written:?}");
    }
}

/// Tests a range delete in a store without range tombstones, which writes a tombstone for each
/// key. These tombstones must be in one batch if they fit into a memtable.
#[test]
fn a_range_deleted_key_by_key_is_one_batch_that_fits_a_memtable() {
    let db = kit::store(options(&[
        ("write_buffer_size", "128KiB"),
        ("range_tombstones", "off"),
        ("wal_size_limit", "1GiB"),
    ]));
    filled(&db, 16_000);
    let batches_of = |from: u64, to: u64| {
        let last = db.last_sequence();
        db.delete_range(key(from), key(to), WriteOptions::default()).unwrap();
        let updates: Vec<_> = db.updates_since(last).unwrap().map(|update| update.unwrap().batch).collect();
        assert_eq!(updates.iter().map(WriteBatch::len).sum::<usize>() as u64, to - from);
        updates
    };
    assert_eq!(batches_of(1, 9000).len(), 1, "108 kB of deletes");
    assert_eq!(batches_of(9000, 9001).len(), 1);
    assert_eq!(batches_of(9001, 9001 + 6000).len(), 1);
    filled(&db, 16_000);
    let split = batches_of(0, 16_000);
    assert_eq!(split.len(), 2);
    assert!(split.iter().all(|batch| batch.byte_len() <= (128 << 10) + 12));
}

#[test]
fn repairs_and_checkpoints_keep_range_tombstones() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, ranged()).unwrap();
    filled(&db, 3000);
    let held = db.snapshot(); // while it exists, no entry is dropped
    db.delete_range(key(100), key(1000), WriteOptions::default()).unwrap();
    db.flush().unwrap();
    db.put(key(500), "again").unwrap();
    db.delete_range(key(2000), key(2900), WriteOptions::default()).unwrap(); // only in the WAL
    let wanted = contents(&db).unwrap();
    assert_eq!(wanted.len(), 100 + 1 + 1000 + 100);
    let folder = tempfile::tempdir().unwrap();
    db.checkpoint(folder.path().join("copy")).unwrap();
    let copy = Db::open(folder.path().join("copy"), options(&[])).unwrap();
    assert!(contents(&copy).unwrap() == wanted, "the copy");
    drop((held, db));
    fs::remove_file(path.join("CURRENT")).unwrap();
    let report = Db::repair(&path, folder.path().join("repaired"), &options(&[])).unwrap();
    assert_eq!(report.pairs, wanted.len() as u64);
    let repaired = Db::open(folder.path().join("repaired"), options(&[])).unwrap();
    assert!(contents(&repaired).unwrap() == wanted, "the repaired store");
}
