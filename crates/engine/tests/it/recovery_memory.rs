//! Tests of the memory that recovery needs. Recovery keeps one memtable at a time in memory, so
//! its peak memory must not depend on the size of the WALs.
//!
//! Each test writes WALs far larger than `write_buffer_size` through the storage interface, so
//! that no memtable exists. It then measures the peak resident set of the tested call in a
//! separate process. `TERRACE_TEST_WAL_BYTES` sets the total size of the WALs (default 96 MiB).
//! The bounds were chosen for 4 GiB of WALs.
use crate::common::{alone::in_own_process, kit};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace::{Db, Options, WriteOptions};
use terrace_format::{LogId, SeqNo, batch, batch::Batch};
use terrace_sim::SmallFs;
use terrace_storage::{
    Location,
    backends::files::{fs::FileSystem, real::RealFs},
    placement::{LogKind, OpenMode},
};

const MIB: u64 = 1 << 20;
/// The size of a memtable.
const WRITE_BUFFER: &str = "1MiB";
/// The approximate size of each WAL in bytes.
const WAL_BYTES: u64 = 24 * MIB;
/// The bytes by which the resident set may grow during a recovery. They are for memtables, tables
/// being written, the table cache and read buffers.
const GROWTH_MAX: u64 = 32 * MIB;
/// The bytes by which the resident set may grow during a repair. A repair collects up to 48 MiB of
/// WAL entries in memory before it writes them to a temporary sorted run. Each run adds a cursor.
/// Therefore a repair may also grow by an eightieth of the size of the WALs: 51 MiB for 4 GiB.
const REPAIR_GROWTH_MAX: u64 = 80 * MIB;
/// The number of distinct keys. Keys repeat, so the WALs have several versions of each key.
const KEYS: u64 = 50_000;
const VALUE_BYTES: usize = 1000;

fn total_bytes() -> u64 {
    let bytes = env::var("TERRACE_TEST_WAL_BYTES").ok();
    bytes.map_or(96 * MIB, |text| text.parse().expect("a number of bytes"))
}

fn options(changes: &[(&str, &str)]) -> Options {
    let usual = [("write_buffer_size", WRITE_BUFFER), ("block_cache_size", "1MiB"), ("durability", "sync")];
    kit::in_files(&[&usual, changes].concat())
}

fn key(seq: u64) -> String {
    format!("{:08}", seq * 7919 % KEYS)
}

fn value(seq: u64) -> Vec<u8> {
    let mut value = vec![seq as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&seq.to_le_bytes());
    value
}

/// Makes a store at `path` whose WALs have `total_bytes()` bytes. Returns the last sequence number
/// in the WALs.
fn store_with_wals(path: &Path, options: &Options) -> u64 {
    Db::open(path, options.clone()).unwrap().close().unwrap();
    let storage =
        terrace_storage::open(&Location::at(path), OpenMode::Write, options.durability, &options.setup()).unwrap();
    let (mut last, mut written, mut log) = (0, 0, LogId(100));
    while written < total_bytes() {
        let mut wal = storage.create_log(log, LogKind::Wal, &batch::head(SeqNo(last + 1))).unwrap();
        while wal.bytes() < WAL_BYTES {
            let mut batch = Batch::new();
            batch.put(key(last + 1).as_bytes(), &value(last + 1));
            batch.set_sequence(SeqNo(last + 1));
            wal.append_batch(&mut batch).unwrap();
            last += 1;
        }
        written += wal.bytes();
        log = LogId(log.0 + 1);
    }
    last
}

/// Returns the peak resident set of this process in bytes since the last [`reset_peak`].
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux reports the peak");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Sets the recorded peak to the current resident set.
fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Runs `call` and asserts that the resident set of the process grows by less than `growth_max`
/// bytes during the call.
fn within_bound<T>(what: &str, growth_max: u64, call: impl FnOnce() -> T) -> T {
    reset_peak();
    let before = peak();
    let result = call();
    let growth = peak().saturating_sub(before);
    println!("{what}: the resident set grew by {} KiB", growth >> 10);
    assert!(growth < growth_max, "{what}: the resident set grew by {} MiB", growth >> 20);
    result
}

fn assert_newest_values(db: &Db, last: u64) {
    for seq in (last - KEYS.min(last) + 1..=last).step_by(97) {
        assert_eq!(db.get(key(seq)).unwrap(), Some(value(seq)), "sequence {seq}");
    }
}

fn open_is_bounded(path: &Path, options: &Options) {
    let last = store_with_wals(path, options);
    let db = within_bound("open", GROWTH_MAX, || Db::open(path, options.clone()).unwrap());
    assert_eq!(db.last_sequence(), last);
    assert_newest_values(&db, last);
    db.close().unwrap();
}

#[test]
fn open_replays_large_wals_in_the_memory_of_one_memtable() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        open_is_bounded(&folder.path().join("store"), &options(&[]));
    });
}

#[test]
fn open_replays_large_value_logs_in_the_memory_of_one_memtable() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        open_is_bounded(&folder.path().join("store"), &options(&[("values", "log")]));
    });
}

#[test]
fn check_reads_large_wals_in_the_memory_of_one_memtable() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let (path, options) = (folder.path().join("store"), options(&[]));
        let last = store_with_wals(&path, &options);
        let report = within_bound("check", GROWTH_MAX, || terrace::check(&path, &options, true).unwrap());
        assert_eq!((report.wal_entries, report.last_sequence, report.problems.len()), (last, last, 0));
    });
}

#[test]
fn repair_reads_large_wals_in_the_memory_of_a_few_memtables() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let (path, fresh, options) = (folder.path().join("store"), folder.path().join("fresh"), options(&[]));
        let last = store_with_wals(&path, &options);
        fs::remove_file(path.join("CURRENT")).unwrap();
        let report = within_bound("repair", REPAIR_GROWTH_MAX + total_bytes() / 80, || {
            Db::repair(&path, &fresh, &options).unwrap()
        });
        assert_eq!((report.pairs, report.last_sequence), (KEYS.min(last), last));
        let db = Db::open(&fresh, options).unwrap();
        assert_newest_values(&db, last);
    });
}

/// Makes a store at `path` with more WAL entries than a repair keeps in memory: puts, overwrites,
/// tombstones and range tombstones.
fn store_with_tombstones(path: &Path, changes: &[(&str, &str)]) -> kit::Model {
    let usual = [("write_buffer_size", "256MiB"), ("range_tombstones", "true"), ("durability", "sync")];
    let db = Db::open(path, kit::in_files(&[&usual, changes].concat())).unwrap();
    let mut model = kit::Model::new();
    for seq in 1..=90_000 {
        let (key, mut value) = (format!("{:08}", seq * 7919 % 9000), value(seq));
        if seq % 10 == 5 {
            value.resize(3000, 7); // above the threshold for separated values
        }
        match seq % 10 {
            3 => {
                db.delete(&key).unwrap();
                model.remove(key.as_bytes());
            }
            7 if seq % 700 == 7 => {
                let to = format!("{:08}", seq * 7919 % 9000 + 50);
                db.delete_range(&key, &to, WriteOptions::default()).unwrap();
                model.retain(|found, _| !(key.as_bytes()..to.as_bytes()).contains(&&found[..]));
            }
            _ => {
                db.put(&key, &value).unwrap();
                model.insert(key.into_bytes(), value);
            }
        }
    }
    model
}

#[test]
fn a_repair_that_spills_wal_entries_salvages_the_same_pairs() {
    let forms = [&[][..], &[("values", "log"), ("value_log_threshold", "2000")], &[("tables", "directory")]];
    for changes in forms {
        let folder = tempfile::tempdir().unwrap();
        let (path, fresh) = (folder.path().join("store"), folder.path().join("fresh"));
        let model = store_with_tombstones(&path, changes);
        fs::remove_file(path.join("CURRENT")).unwrap();
        let made = options(&[&[("range_tombstones", "true")], changes].concat());
        let report = Db::repair(&path, &fresh, &made).unwrap();
        assert_eq!(report.pairs, model.len() as u64);
        let db = Db::open(&fresh, made.clone()).unwrap();
        assert_eq!(kit::contents(&db).unwrap(), model.into_iter().collect::<Vec<_>>());
        db.close().unwrap();
        let report = terrace::check(&fresh, &made, true).unwrap();
        assert_eq!((report.problems, report.leftovers), (vec![], vec![]), "the repair left files");
    }
}

/// Returns the default options of the tests with `changes` and with memtables of this size.
fn with_memtables(bytes: &str, changes: &[(&str, &str)]) -> Options {
    options(&[&[("write_buffer_size", bytes)], changes].concat())
}

/// Makes a store with 2,000 writes, every 500th synced, in a WAL that is damaged in the middle.
fn store_with_damaged_wal(path: &Path, changes: &[(&str, &str)]) {
    let db = Db::open(path, with_memtables("64MiB", changes)).unwrap();
    for seq in 1..=2000 {
        db.put_with(key(seq), value(seq), WriteOptions { sync: seq % 500 == 0, ..WriteOptions::default() }).unwrap();
    }
    drop(db);
    let is_wal = |name: &PathBuf| name.extension().is_some_and(|end| end == "log" || end == "vlog");
    let bytes_of = |name: &PathBuf| fs::metadata(name).unwrap().len();
    let wal = kit::names_below(path).into_iter().filter(is_wal).max_by_key(bytes_of).expect("a WAL");
    let mut bytes = fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(wal, bytes).unwrap();
}

/// Tests that the refused open of a store with a damaged WAL leaves no new file.
fn a_refused_open_leaves_no_file(changes: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store_with_damaged_wal(&path, changes);
    let names = || kit::names_below(&path).into_iter().collect::<BTreeSet<_>>();
    let before = names();
    let refused = Db::open(&path, with_memtables("64KiB", changes)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("durable writes are damaged"), "{changes:?}: {refused}");
    assert_eq!(names(), before, "{changes:?}: the refused open left files");
    let mut salvage = with_memtables("64KiB", changes);
    salvage.recovery = terrace::Recovery::Salvage;
    let db = Db::open(&path, salvage).unwrap();
    assert_eq!(db.get(key(2000)).unwrap(), Some(value(2000)), "{changes:?}");
}

/// Tests the open of a damaged store on a full disk. The open is refused, and must not delete any
/// SSTable. An SSTable that no manifest names yet may be the only intact copy of durable writes.
#[test]
fn an_open_refused_on_a_full_disk_deletes_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store_with_damaged_wal(&path, &[]);
    let unnamed = path.join("000900.ldb");
    fs::write(&unnamed, [0; 64 << 10]).unwrap();
    let disk = SmallFs::new(Arc::new(RealFs::new(&path)), u64::MAX);
    disk.leave(4 << 10);
    let full: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let refused = kit::open(&full, &with_memtables("64KiB", &[]), true).map(drop).unwrap_err().to_string();
    assert!(refused.contains("durable writes are damaged"), "{refused}");
    assert!(disk.refused() > 0, "the disk was never full");
    assert!(unnamed.exists(), "the refused open deleted a table");
}

#[test]
fn a_refused_open_removes_the_tables_that_replay_wrote() {
    for changes in [&[][..], &[("tables", "bundled")], &[("values", "log")]] {
        a_refused_open_leaves_no_file(changes);
    }
}
