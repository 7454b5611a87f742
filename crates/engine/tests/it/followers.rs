//! Tests of followers: readers that open a store while another handle, or another process, writes
//! it.
use crate::common::kit;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};
use terrace::{Db, Error, Options, ReadOptions, WriteOptions};

fn small() -> Options {
    let small = [
        ("write_buffer_size", "64KiB"),
        ("target_file_size", "64KiB"),
        ("max_bytes_for_level_base", "256KiB"),
        ("memory_budget", "8MiB"),
        ("compression", "none"),
        ("durability_interval_ms", "20"),
    ];
    let mut options = Options::default();
    small.iter().for_each(|(name, value)| options.set(name, value).unwrap());
    options
}

fn key(number: u64) -> String {
    format!("{number:08}")
}

#[test]
fn a_follower_keeps_its_moment_while_the_writer_replaces_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path, small()).unwrap();
    let fill = |value: u8| (0..20_000).for_each(|n| db.put(key(n), [value; 100]).unwrap());
    fill(1);
    let old = Db::open_follower(&path, small()).unwrap();
    let iterator = old.scan(ReadOptions::new());
    fill(2);
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    db.put(key(0), "new").unwrap();
    let new = Db::open_follower(&path, small()).unwrap();
    db.close().unwrap();
    Db::destroy(&path).unwrap();
    assert_eq!(iterator.filter(|pair| pair.as_ref().unwrap().1 == [1; 100]).count(), 20_000);
    for number in 0..20_000 {
        assert_eq!(old.get(key(number)).unwrap().unwrap(), [1; 100], "{number}");
        let wanted = if number == 0 { b"new".to_vec() } else { vec![2; 100] };
        assert_eq!(new.get(key(number)).unwrap().unwrap(), wanted, "{number}");
    }
    assert!(matches!(new.put("key", "value"), Err(Error::ReadOnly)));
    assert!(matches!(Db::open_follower(&path, small()), Err(Error::Missing { .. })));
}

#[test]
fn every_follower_of_a_busy_writer_sees_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path, small()).unwrap();
    let (next, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(SeqCst) {
                    break;
                }
                // The value at "last" belongs to the newest of the keys.
                let mut batch = terrace::WriteBatch::new();
                batch.put(key(number), [number as u8; 200]).put("last", number.to_string());
                db.write(batch, WriteOptions::default()).unwrap();
                next.store(number + 1, SeqCst);
            }
        });
        for round in 0..40 {
            let written = next.load(SeqCst);
            let follower = Db::open_follower(&path, small()).unwrap_or_else(|error| panic!("round {round}: {error}"));
            let last = follower
                .get("last")
                .unwrap()
                .map_or(0, |text| String::from_utf8(text).unwrap().parse::<u64>().unwrap() + 1);
            assert!(last >= written, "round {round}: {last} of {written}");
            let mut numbers = 0;
            for pair in follower.scan(ReadOptions::new().to("last")) {
                let (found, value) = pair.unwrap();
                assert_eq!((found, value), (key(numbers).into_bytes(), vec![numbers as u8; 200]), "round {round}");
                numbers += 1;
            }
            assert_eq!(numbers, last, "round {round}");
        }
        done.store(true, SeqCst);
    });
}

#[test]
fn a_follower_refuses_what_it_cannot_follow() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("tables", "bundled"), ("tables", "directory"), ("values", "log")] {
        let path = folder.path().join(value);
        let _db = Db::open(&path, kit::in_files(&[(name, value)])).unwrap();
        let refused = Db::open_follower(&path, Options::default()).err().unwrap();
        assert!(matches!(refused, Error::Unsupported(_)) && refused.to_string().contains("block tables"), "{refused}");
    }
    let path = folder.path().join("many");
    let db = Db::open(&path, small()).unwrap();
    (0..20_000).for_each(|n| db.put(key(n), [1; 100]).unwrap());
    db.compact_range(None, None).unwrap(); // into SSTables of 64 KiB
    db.wait_idle().unwrap();
    let mut few = small();
    few.max_open_files = 16;
    let refused = Db::open_follower(&path, few).err().unwrap();
    assert!(matches!(refused, Error::Unsupported(_)) && refused.to_string().contains("at most 16"), "{refused}");
    assert!(Db::open_follower(&path, small()).unwrap().statistics().torn_wals == 0);
    let device = folder.path().join("device");
    kit::device_file(&device, 64 << 20);
    assert!(matches!(Db::open_follower(&device, Options::default()), Err(Error::Unsupported(_))));
    let missing = folder.path().join("missing");
    assert!(matches!(Db::open_follower(&missing, Options::default()), Err(Error::Missing { .. })));
    assert!(!missing.exists());
}
