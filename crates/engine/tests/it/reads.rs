//! Tests of the cost of point lookups and scans, by counting allocations and storage calls.
use crate::common::{counting, kit};
use std::{sync::Arc, time::Duration};
use terrace::{Db, ReadOptions};
use terrace_sim::{Fault, FaultFs, Plan};
use terrace_storage::backends::files::{fs::FileSystem, real::RealFs};

const KEYS: u64 = 4000;

/// Returns the key number `number`. The store contains the keys with even numbers.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user/00000000000";
    key[8..].copy_from_slice(format!("{number:08}").as_bytes());
    key
}

fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[8..]).unwrap().parse().unwrap()
}

const BASE: &[(&str, &str)] = &[
    ("write_buffer_size", "64KiB"),
    ("target_file_size", "64KiB"),
    ("max_bytes_for_level_base", "64KiB"),
    ("compression", "none"),
    ("bloom_bits", "10"),
    ("filter_form", "table"),
    ("seek_compaction", "off"),
    ("durability", "none"),
];

/// Makes a store with tables in several levels and empty memtables.
fn store(fs: Arc<dyn FileSystem>, changes: &[(&str, &str)]) -> Db {
    let options = kit::plain(&[BASE, changes].concat());
    let db = kit::open(&fs, &options, false).unwrap();
    for round in [3, 1] {
        for number in (0..KEYS).step_by(2 * round) {
            db.put(key(number), [number as u8; 100]).unwrap();
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = kit::open(&fs, &options, false).unwrap();
    db.wait_idle().unwrap();
    db
}

/// Runs `work`. Returns the count of allocations that this thread made during `work`, and the
/// result.
fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = counting::of_thread();
    let done = work();
    (counting::of_thread() - before, done)
}

#[test]
fn a_cached_get_allocates_only_its_result() {
    let folder = tempfile::tempdir().unwrap();
    for (fs, mapped) in [(kit::anywhere(), "off"), (Arc::new(RealFs::new(folder.path().join("store"))), "on")] {
        let db = store(fs, &[("allow_mmap_reads", mapped)]);
        for number in 0..KEYS {
            drop(db.get(key(number)).unwrap()); // fills the cache and opens tables
        }
        for number in 0..KEYS {
            let key = key(number);
            let (count, found) = allocations(|| db.get(key).unwrap());
            assert_eq!(found.is_some(), number % 2 == 0, "{number}");
            assert_eq!(count, u64::from(found.is_some()), "{number}, mapped: {mapped}");
        }
    }
}

#[test]
fn a_filter_saves_the_read() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), &[("block_cache_size", "1")]);
    let calls = |numbers: &mut dyn Iterator<Item = u64>| {
        let before = fs.calls();
        numbers.for_each(|number| drop(db.get(key(number)).unwrap()));
        fs.calls() - before
    };
    calls(&mut (0..KEYS)); // opens tables
    assert!(calls(&mut (0..KEYS).step_by(2)) >= KEYS / 2, "without a cache, each answer is read");
    let unnecessary_reads = calls(&mut (1..KEYS).step_by(2));
    // A Bloom filter with ten bits per key passes one absent key in a hundred, and a lookup checks
    // the filters of several tables. The limit of unnecessary reads allows for that.
    assert!(unnecessary_reads < KEYS / 2 / 5, "of {} absent keys, {unnecessary_reads} cost a read", KEYS / 2);
}

/// Options without a block cache and without compactions, so that the keys stay in two sorted
/// runs, whatever levels the flushes write to.
const UNMERGED: &[(&str, &str)] = &[
    ("block_cache_size", "1"),
    ("max_bytes_for_level_base", "64MiB"),
    ("level0_file_num_compaction_trigger", "100"),
    ("level0_slowdown_writes_trigger", "200"),
    ("level0_stop_writes_trigger", "300"),
];

#[test]
fn a_seek_to_a_present_key_reads_one_block() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), UNMERGED);
    let placed = |number: u64| {
        let mut cursor = db.cursor(ReadOptions::new());
        cursor.seek(&key(number)).unwrap();
        assert_eq!(cursor.key(), key(number.next_multiple_of(2)));
        cursor
    };
    let calls = |numbers: std::ops::Range<u64>| {
        let before = fs.calls();
        numbers.step_by(2).for_each(|number| drop(placed(number)));
        fs.calls() - before
    };
    calls(0..KEYS); // opens tables
    let (there, absent) = (calls(0..KEYS), calls(1..KEYS - 1));
    assert!(
        there < KEYS / 2 * 11 / 10,
        "{there} calls for {} keys, and one in a hundred passes a filter in vain",
        KEYS / 2
    );
    assert!(absent > KEYS / 2 * 3 / 2, "{absent} calls for {} absent keys: there are not several runs", KEYS / 2);
    // The seek has not searched all sources. When the cursor then moves forward or backward, it
    // must still return the entries of the other sources.
    for number in (2..KEYS - 2).step_by(2) {
        let (mut forward, mut back) = (placed(number), placed(number));
        forward.next().unwrap();
        back.prev().unwrap();
        assert_eq!([forward.key(), back.key()], [key(number + 2), key(number - 2)]);
    }
}

#[test]
fn a_source_skipped_by_a_seek_can_fail_the_step() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), UNMERGED);
    db.put(key(1000), "newer").unwrap();
    db.flush().unwrap();
    for step in [terrace::Cursor::next, terrace::Cursor::prev] {
        let mut cursor = db.cursor(ReadOptions::new());
        cursor.seek(&key(1000)).unwrap();
        fs.arm(Plan::from_then_on(fs.calls(), Fault::Eio));
        let failed = step(&mut cursor);
        assert!(failed.is_err() && !cursor.valid(), "{failed:?}");
        fs.heal();
        cursor.seek(&key(1000)).unwrap();
        step(&mut cursor).unwrap();
        assert!([998, 1002].contains(&number(cursor.key())));
    }
}

#[test]
fn a_scan_reads_many_blocks_by_one_call() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let changes = [("block_size", "1KiB"), ("target_file_size", "1MiB"), ("max_bytes_for_level_base", "64MiB")];
    let db = store(Arc::new(fs.clone()), &changes);
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap(); // background I/O is counted too
    for fill_cache in [true, false] {
        let calls = |scan: terrace::Scan| {
            let before = fs.calls();
            assert_eq!(scan.map(Result::unwrap).count() as u64, KEYS / 2);
            fs.calls() - before
        };
        let read = || ReadOptions::new().fill_cache(fill_cache);
        let bytes: u64 = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
        for calls in [calls(db.scan(read())), calls(db.scan_reverse(read()))] {
            assert!(calls < 20 && bytes > 200 << 10, "{calls} calls for {bytes} bytes in blocks of 1 KiB");
        }
    }
}

#[test]
fn a_scan_that_ends_early_returns_its_buffer() {
    let db = store(kit::anywhere(), &[("block_size", "1KiB"), ("target_file_size", "1MiB")]);
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let held = || db.statistics().memory.cursors;
    let before = held();
    for _ in 0..3 {
        assert_eq!(db.scan(ReadOptions::new()).take(200).map(Result::unwrap).count(), 200);
        assert!(held() >= 256 << 10 && held() <= before.max(256 << 10), "{} were held, then {}", before, held());
    }
}

#[test]
fn open_tables_stay_below_max_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let changes =
        [("max_open_files", "16"), ("max_bytes_for_level_base", "64MiB"), ("level0_file_num_compaction_trigger", "1")];
    let db = store(Arc::new(RealFs::new(&path)), &changes);
    let open = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        files.filter(|file| file.starts_with(&path) && file.extension().is_some_and(|kind| kind == "ldb")).count()
    };
    (0..KEYS).for_each(|number| db.put(key(number), [7; 600]).unwrap());
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let tables: usize = db.layout().iter().map(|level| level.tables.len()).sum();
    (0..KEYS).for_each(|number| drop(db.get(key(number)).unwrap()));
    assert!(open() == 16 && tables > 32, "{} of {tables} tables are open", open());
    let mut cursor = db.cursor(ReadOptions::new());
    cursor.seek_to_first().unwrap();
    (0..KEYS).rev().for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
    assert!((16..=17).contains(&open()), "a cursor holds on to the table that it reads");
    while cursor.valid() {
        cursor.next().unwrap();
    }
}

#[test]
fn multi_get_returns_values_in_key_order() {
    let db = store(kit::anywhere(), &[]);
    let before = db.snapshot();
    db.put(key(2), "new").unwrap();
    let keys: Vec<_> = (0..KEYS).map(|number| key(number * 7919 % KEYS)).collect();
    let found: terrace::Result<Vec<_>> = db.multi_get(&keys).into_iter().collect();
    assert!(found.unwrap().into_iter().eq(keys.iter().map(|key| db.get(key).unwrap())));
    let old = db.multi_get_with(&[key(2), key(1)], &ReadOptions::new().snapshot(&before));
    assert_eq!(old.into_iter().collect::<terrace::Result<Vec<_>>>().unwrap(), [Some(vec![2; 100]), None]);
    let strange = kit::store(kit::options(&[])).snapshot();
    let refused = db.multi_get_with(&keys, &ReadOptions::new().snapshot(&strange));
    assert!(refused.len() == keys.len() && refused.iter().all(Result::is_err));
    assert!(db.multi_get::<&[u8]>(&[]).is_empty());
}

/// Tests `multi_get` of many keys whose blocks are not cached. It must request all these blocks
/// before it waits for the first one.
#[test]
fn multi_get_prefetches_blocks() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), &[]);
    let keys: Vec<_> = (0..16).map(|number| key(number * 200)).collect();
    let expected = |keys: &[[u8; 16]]| {
        let before = fs.expected();
        let found: terrace::Result<Vec<_>> = db.multi_get(keys).into_iter().collect();
        assert!(found.unwrap().iter().all(Option::is_some));
        fs.expected() - before
    };
    assert_eq!(expected(&keys[..1]), 0, "one key waits for nothing else");
    assert_eq!(expected(&keys), 15, "a block for each key but the first");
    assert_eq!(expected(&keys), 0, "all are cached");
}

/// Tests that `multi_get` prefetches separated values at each call. (The block cache does not
/// contain such values.)
#[test]
fn multi_get_prefetches_separated_values() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), &[("values", "log"), ("value_log_threshold", "50")]);
    let keys: Vec<_> = (0..16).map(|number| key(number * 200)).collect();
    let get = || db.multi_get(&keys).into_iter().for_each(|found| assert!(found.unwrap().is_some()));
    get(); // fills the cache
    let before = fs.expected();
    get();
    assert!(fs.expected() - before >= 15, "{} of 16 values", fs.expected() - before);
}

/// Tests that a scan which waits for values of the value log prefetches the next values, in both
/// directions.
#[test]
fn a_scan_prefetches_separated_values() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let db = store(Arc::new(fs.clone()), &[("values", "log"), ("value_log_threshold", "50")]);
    fs.delay_reads(Duration::from_micros(200));
    let mut cursor = db.cursor(ReadOptions::new());
    let asked = |walk: &mut dyn FnMut()| {
        let before = fs.expected();
        walk();
        fs.expected() - before
    };
    let forward = asked(&mut || {
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
    });
    let backward = asked(&mut || {
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            cursor.prev().unwrap();
        }
    });
    assert!(forward > KEYS / 4 && backward > KEYS / 4, "{forward} and {backward} of {} values", KEYS / 2);
}
