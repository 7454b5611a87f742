//! Tests of the memory budget of a store. At every sample, the memory that `statistics` reports
//! must be within the budget and must equal the memory that the process uses.
use crate::common::alone::in_own_process;
use crate::common::{counting, kit};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use terrace::{Db, ReadOptions};

const LIMIT: u64 = 24 << 20;
const KEYS: u64 = 40_000;
const VALUE: usize = 1000;
/// The bytes of memory that may be in use although the budget does not count them: buffers of
/// tables being written, versions, the current blocks of cursors, and this test itself.
const UNCOUNTED: usize = 6 << 20;

fn key(number: u64) -> String {
    format!("{:08}", number * 7919 % KEYS)
}

fn sample(db: &Db) -> u64 {
    let memory = db.statistics().memory;
    assert_eq!(memory.limit, Some(LIMIT));
    assert!(memory.sum() <= LIMIT, "{memory:?}");
    memory.blocks
}

/// Reads until the block cache is full, and keeps cursors open that have read ahead.
fn read(db: &Db) {
    for number in 0..KEYS / 4 {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    let cursors: Vec<_> = (0..4)
        .map(|at| {
            let mut cursor = db.cursor(ReadOptions::new());
            cursor.seek(format!("{:08}", at * KEYS / 4).as_bytes()).unwrap();
            (0..2000).for_each(|_| cursor.next().unwrap());
            cursor
        })
        .collect();
    sample(db);
    drop(cursors);
}

#[test]
fn memtables_tables_cursors_and_cache_stay_within_the_budget() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        stays_within_budget(&folder.path().join("store"), &[]);
        let device = folder.path().join("device");
        kit::device_file(&device, 512 << 20);
        stays_within_budget(&device, &[("direct_io", "true")]);
    });
}

fn stays_within_budget(path: &Path, changes: &[(&str, &str)]) {
    let usual = [
        ("memory_budget", "24MiB"),
        ("write_buffer_size", "1MiB"),
        ("max_write_buffer_number", "4"),
        ("block_cache_size", "0"),
        ("target_file_size", "1MiB"),
        ("bloom_bits", "10"),
        ("durability", "none"),
    ];
    let options = kit::in_files(&[&usual, changes].concat());
    let before = counting::live_bytes();
    let db = Db::open(path, options).unwrap();
    let (done, mut blocks_max) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                sample(&db);
                let taken = counting::live_bytes() - before;
                assert!(taken < LIMIT as usize + UNCOUNTED, "{taken} bytes are taken, {:?}", db.statistics().memory);
            }
        });
        for number in 0..KEYS {
            db.put(key(number), [number as u8; VALUE]).unwrap();
        }
        for round in 0..3 {
            read(&db);
            blocks_max = sample(&db).max(blocks_max);
            for number in 0..KEYS / 8 {
                db.put(key(number * 8 + round), [round as u8; VALUE]).unwrap();
            }
        }
        done.store(true, Relaxed);
    });
    // Memtables and their unused pages take up to half of the limit.
    assert!(
        blocks_max > LIMIT * 2 / 5,
        "the cache had {blocks_max} bytes at most: it was never large enough to give way"
    );
    let taken = counting::live_bytes() - before;
    let memory = db.statistics().memory;
    // The counting allocator does not see large memtable blocks, which are mapped pages.
    let reported = (memory.sum() - memory.memtables) as usize;
    assert!(reported <= taken && taken < reported + UNCOUNTED, "reported {memory:?}, taken {taken}");
}
