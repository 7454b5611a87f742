//! Tests of fixed bugs in running stores. Each comment describes the former wrong behaviour.
//! `regressions_open.rs` has the fixed bugs in the open of a store.
use crate::common::{history, kit};
use history::{Model, Tracker, contents, storage, tight_options};
use kit::anywhere;
use std::{
    cmp::Ordering,
    collections::BTreeSet,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};
use terrace::{Comparator, Db, Error, Options, ReadOptions, SortedTableWriter, WriteBatch, WriteOptions};
use terrace_format::FileName;
use terrace_sim::{LateTracker, Rng};
use terrace_storage::{
    DurabilityHandle, IoStats, Result as StorageResult,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// Options with small memtables, and without background jobs in an idle store.
fn small() -> Options {
    let mut options = Options::leveldb_compatible();
    options.write_buffer_size = 64 << 10;
    options.idle_durability_ms = 0;
    options
}

fn open_manual(fs: &Arc<dyn FileSystem>, tracker: Tracker, seed: u64, options: &Options) -> Db {
    let storage = storage(fs, tracker.make(seed), options).expect("open");
    Db::open_manual(storage, options.clone()).expect("open")
}

fn table_numbers(names: impl IntoIterator<Item = String>) -> BTreeSet<u64> {
    let number = |name: String| match FileName::parse(&name) {
        Some(FileName::Table(id)) => Some(id.0),
        _ => None,
    };
    names.into_iter().filter_map(number).collect()
}

fn live_tables(db: &Db) -> BTreeSet<u64> {
    db.layout().iter().flat_map(|level| &level.tables).map(|table| table.number).collect()
}

/// Returns how many removed WALs of `directory` this process still has open.
#[cfg(target_os = "linux")]
fn open_deleted_wals(directory: &Path) -> usize {
    let directory = directory.canonicalize().expect("the directory is there");
    let entries = std::fs::read_dir("/proc/self/fd").expect("list descriptors").flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|file| file.starts_with(&directory) && file.to_string_lossy().ends_with(".log (deleted)")).count()
}

/// Fixed bug: as long as no write was synced, the WALs of flushed memtables were never closed.
/// Each such WAL took a descriptor, until no descriptor was left, and the kernel wrote the
/// contents of removed WALs to the device. Now a commit of pending edits closes every WAL that
/// replay does not need any more.
#[cfg(target_os = "linux")]
#[test]
fn wals_of_flushed_memtables_are_closed_under_unsynced_load() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), small()).unwrap();
    for load in [1500u32, 3000] {
        for number in 0..load {
            db.put(number.to_le_bytes(), vec![7; 1000]).unwrap();
        }
        db.wait_idle().unwrap();
        let held = open_deleted_wals(directory.path());
        assert_eq!(held, 0, "deleted logs are open after {load} writes");
    }
    assert!(db.statistics().flushes.count > 50, "too few WALs for a verdict");
}

/// Fixed bug: the idle timer had a reference to the store. If the user dropped the last other
/// handle during a tick, the timer's thread closed the store; it then waited for its own end and
/// panicked. The drop by the user returned although the store was still locked.
#[test]
fn dropping_the_last_handle_during_an_idle_tick_closes_the_store() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let inherited = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let of_a_store = thread::current().name().is_some_and(|name| name.starts_with("terrace-"));
        PANICS.fetch_add(usize::from(of_a_store), SeqCst);
        inherited(info);
    }));
    let mut options = small();
    options.idle_durability_ms = 2;
    for round in 0..60 {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), options.clone()).unwrap();
        for number in 0..50u32 {
            db.put(number.to_le_bytes(), vec![7; 1000]).unwrap();
        }
        // At about this time the idle timer has its first ticks that sync.
        thread::sleep(Duration::from_micros(2000 + 25 * round));
        drop(db);
        let again = Db::open(directory.path(), options.clone());
        again.unwrap_or_else(|e| panic!("round {round}: the store cannot be opened at once: {e}"));
    }
    assert_eq!(PANICS.load(SeqCst), 0, "threads of a store panicked");
}

/// Fixed bug: the list of obsolete files was computed by comparing the versions before and after a
/// whole commit of pending edits. A table that was added and deleted within one commit was in
/// neither version, so its file stayed until the next open.
#[test]
fn tables_added_and_deleted_within_one_commit_are_removed() {
    for (tracker, seed) in Tracker::without_failures().flat_map(|tracker| (0..8).map(move |seed| (tracker, seed))) {
        let fs = anywhere();
        let db = open_manual(&fs, tracker, seed, &tight_options());
        let mut rng = Rng::new(seed);
        for round in 0..40 {
            for key in ["a", "z"] {
                db.put(key, format!("{round}")).unwrap();
            }
            db.flush().unwrap();
            for _ in 0..rng.below(4) {
                db.step(rng.next_u64());
            }
        }
        db.wait_idle().unwrap();
        let there = table_numbers(fs.list().unwrap().into_iter().map(|entry| entry.name));
        assert_eq!(there, live_tables(&db), "{tracker:?} seed {seed}");
    }
}

/// Tests, with threads, syncs and a real directory, that tables which were added and deleted
/// within one commit of pending edits are removed. Fixed bug: their files stayed until the next
/// open.
#[test]
fn an_idle_directory_holds_the_live_tables_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = small();
    options.target_file_size = 64 << 10;
    options.max_bytes_for_level_base = 64 << 10;
    let db = Db::open(directory.path(), options).unwrap();
    for number in 0..12_000u32 {
        db.put((number.wrapping_mul(7919) % 5000).to_le_bytes(), vec![7; 200]).unwrap();
    }
    db.wait_idle().unwrap();
    let names = std::fs::read_dir(directory.path()).unwrap();
    let there = table_numbers(names.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    assert_eq!(there, live_tables(&db));
    assert!(!there.is_empty());
}

/// A comparator with a name of its own and a chosen order.
struct Sorted {
    name: &'static str,
    compare: fn(&[u8], &[u8]) -> Ordering,
}

impl Comparator for Sorted {
    fn name(&self) -> &str {
        self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.compare)(a, b)
    }
}

/// Fixed bug: a prefix scan assumed that in every key order the keys with the prefix are
/// contiguous and begin at the prefix. With a custom comparator, a scan therefore missed keys
/// before the prefix, and a reverse scan found no key.
#[test]
fn prefix_finds_all_in_either_direction_with_any_comparator() {
    const KEYS: [&str; 9] = ["", "a", "aa", "ab", "ab1", "ab2", "ab3", "ac", "b"];
    const BOUNDS: [Option<&str>; 6] = [None, Some("a"), Some("ab"), Some("ab1"), Some("ab3"), Some("b")];
    let orders = [
        Sorted { name: "alike", compare: |a, b| a.cmp(b) },
        Sorted { name: "reversed", compare: |a, b| b.cmp(a) },
        Sorted { name: "last byte first", compare: |a, b| a.iter().rev().cmp(b.iter().rev()) },
    ];
    for order in orders {
        let (name, compare) = (order.name, order.compare);
        let db = kit::store(small().comparator(Arc::new(order)));
        KEYS.iter().for_each(|key| db.put(key, "value").unwrap());
        for place in ["memtable", "table"] {
            for (from, to) in BOUNDS.into_iter().flat_map(|from| BOUNDS.map(|to| (from, to))) {
                let mut range = ReadOptions::new().prefix("ab");
                range = from.map_or(range.clone(), |key| range.from(key));
                range = to.map_or(range.clone(), |key| range.to(key));
                let inside = |key: &&str| {
                    key.starts_with("ab")
                        && from.is_none_or(|from| compare(key.as_bytes(), from.as_bytes()).is_ge())
                        && to.is_none_or(|to| compare(key.as_bytes(), to.as_bytes()).is_lt())
                };
                let mut wanted: Vec<&str> = KEYS.into_iter().filter(inside).collect();
                wanted.sort_by(|a, b| compare(a.as_bytes(), b.as_bytes()));
                let keys = |scan: terrace::Scan| -> Vec<String> {
                    scan.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect()
                };
                assert_eq!(keys(db.scan(range.clone())), wanted, "{name}, {place}, {from:?} .. {to:?}");
                wanted.reverse();
                assert_eq!(keys(db.scan_reverse(range)), wanted, "{name}, {place}, {from:?} .. {to:?}, in reverse");
            }
            db.flush().unwrap();
        }
    }
}

/// A bytewise comparator that panics once, after the given count of comparisons. With a count of 0
/// it never panics.
struct PanickingComparator(AtomicUsize);

impl Comparator for PanickingComparator {
    fn name(&self) -> &str {
        "bomb"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let was = self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        assert!(was != Ok(1), "the comparator panics, as it should");
        a.cmp(b)
    }
}

/// Fixed bug: a write panicked after its append to the WAL and before its insert into the
/// memtable. Its sequence number was then used in the WAL but free in memory. The next write took
/// the same number and was acknowledged, and recovery stopped before it. Now such a panic stops
/// all writing.
///
/// Fixed bug: a write without WAL that panicked left sequence numbers that were never published,
/// and the next writer waited for them for ever.
#[test]
fn a_panicking_comparator_stops_writes_and_loses_nothing_acknowledged() {
    for (fuse, logged) in (1..=6).map(|fuse| (fuse, true)).chain((1..=3).map(|fuse| (fuse, false))) {
        let (fs, bomb) = (anywhere(), Arc::new(PanickingComparator(AtomicUsize::new(0))));
        let options = small().comparator(bomb.clone());
        let db = open_manual(&fs, Tracker::Sync, 0, &options);
        let mut acknowledged = Model::new();
        for key in ["a", "c", "e", "g"] {
            db.put(key, "acknowledged").unwrap();
            acknowledged.insert(key.into(), b"acknowledged".to_vec());
        }
        let (mut batch, mut with_batch) = (WriteBatch::new(), acknowledged.clone());
        for key in ["b", "d", "e", "f"] {
            batch.put(key, "unknown");
            with_batch.insert(key.into(), b"unknown".to_vec());
        }
        bomb.0.store(fuse, SeqCst);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if logged { db.write(batch, WriteOptions::default()) } else { db.write(batch, WriteOptions::without_wal()) }
        }));
        assert!(outcome.is_err(), "fuse {fuse}, logged {logged}: the bomb did not go off");

        let (reported, next) = mpsc::channel();
        let other = db.clone();
        let writer = thread::spawn(move || reported.send(other.put_with("h", "refused", WriteOptions::synced())));
        let next = next.recv_timeout(Duration::from_secs(100)).expect("the next write WAITS for ever");
        writer.join().expect("the message was sent").expect("the message was received");
        assert!(
            matches!(next, Err(Error::FailStopped(_))),
            "fuse {fuse}, logged {logged}: the next write gets {next:?}"
        );
        assert_eq!(contents(&db).as_ref(), Ok(&acknowledged), "fuse {fuse}, logged {logged}: reads go on");
        drop(db);
        let found = contents(&open_manual(&fs, Tracker::Sync, 0, &options)).unwrap();
        assert!(found == acknowledged || logged && found == with_batch, "fuse {fuse}: after reopening {found:?}");
    }
}

/// Fixed bug: an ingest panicked in the comparator after it had installed its tables. The writers'
/// sequence number then stayed below the sequence numbers of the ingested entries. The next write
/// was acknowledged, but recovery dropped it, because its sequence number seemed to be in tables
/// already.
#[test]
fn a_comparator_that_panics_in_an_ingest_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut went_off, mut refused) = (0, 0);
    for fuse in 1.. {
        let (fs, bomb) = (anywhere(), Arc::new(PanickingComparator(AtomicUsize::new(0))));
        let options = small().comparator(bomb.clone());
        let db = open_manual(&fs, Tracker::Sync, 0, &options);
        for key in ["a", "c", "e", "g", "i"] {
            db.put("a", "1").unwrap();
            db.put(key, "1").unwrap();
            db.flush().unwrap();
        }
        let path = folder.path().join(format!("{fuse}.ldb"));
        let mut table = SortedTableWriter::create(&path, &options).unwrap();
        ["b", "d"].iter().for_each(|key| table.put(key, "2").unwrap());
        table.finish().unwrap();
        bomb.0.store(fuse, SeqCst);
        let outcome = catch_unwind(AssertUnwindSafe(|| db.ingest(&[&path])));
        bomb.0.store(0, SeqCst);
        if outcome.is_ok() {
            break; // the attempt made fewer comparisons
        }
        went_off += 1;
        match db.put_with("h", "acknowledged", WriteOptions::synced()) {
            Err(error) => {
                assert!(matches!(error, Error::FailStopped(_)), "fuse {fuse}: {error}");
                refused += 1;
                drop(db);
            }
            Ok(_) => {
                drop(db);
                let found = contents(&open_manual(&fs, Tracker::Sync, 0, &options)).unwrap();
                assert!(found.contains_key(&b"h"[..]), "fuse {fuse}: lost an acknowledged write");
            }
        }
    }
    assert!(went_off > 20 && refused > 0, "{went_off} panics, {refused} of them stopped the store");
}

/// Fixed bug: a writer that waited for space in the memtable executed the first job of the queue
/// itself, even a job that syncs. Such a job needs the writer state. The waiting writer had locked
/// this state, so the two waited for each other for ever.
#[test]
fn a_stalled_writer_runs_no_job_that_needs_the_writer_state() {
    let (reported, names_operation_and_file) = mpsc::channel();
    let writer = thread::spawn(move || {
        let mut options = small();
        options.max_write_buffer_number = 2;
        let db = open_manual(&anywhere(), Tracker::Sync, 0, &options);
        let large = vec![b'v'; 64 << 10];
        db.put("a", &large).unwrap();
        let mut durable = pin!(db.when_durable(db.last_sequence()).unwrap());
        let mut context = Context::from_waker(Waker::noop());
        assert!(durable.as_mut().poll(&mut context).is_pending(), "a sync is queued");
        for (key, value) in [("b", &b""[..]), ("c", &large), ("d", b"")] {
            db.put(key, value).unwrap();
        }
        reported.send(contents(&db).unwrap().len()).expect("the receiver exists");
    });
    assert_eq!(names_operation_and_file.recv_timeout(Duration::from_secs(100)), Ok(4), "it WAITS for itself");
    writer.join().expect("no panic");
}

/// Fixed bug: a flush through a handle of a closed store could still seal the memtable. It created
/// a WAL in a directory whose lock had already been released.
#[test]
fn flush_after_close_is_refused_and_creates_no_file() {
    let fs = anywhere();
    let db = open_manual(&fs, Tracker::Sync, 0, &small());
    db.put("key", "value").unwrap();
    let other = db.clone();
    db.close().unwrap();
    let before = fs.list().unwrap();
    for outcome in [other.flush(), other.compact_range(None, None), other.put("key", "other")] {
        assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    }
    assert_eq!(fs.list().unwrap(), before);
}

/// A durability tracker that makes nothing durable until the store forces it. Commits of pending
/// edits therefore have to be retried.
struct ForcedOnlyTracker(LateTracker);

impl DurabilityTracker for ForcedOnlyTracker {
    fn durability_mode(&self) -> &'static str {
        "reluctant"
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> StorageResult<DurabilityHandle> {
        self.0.watch(fs, files, io_stats)
    }

    fn advance(&self, _: &dyn FileSystem, _: &IoStats) -> StorageResult<bool> {
        Ok(true)
    }

    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> StorageResult<()> {
        self.0.commit(fs, io_stats)
    }
}

/// Fixed bug: the idle timer ran only when its thread had no other job. While the tables of an
/// idle store took long to become durable, the store therefore did not sync its WAL.
#[test]
fn the_idle_tick_is_not_starved_by_background_work() {
    let mut options = small();
    options.idle_durability_ms = 20;
    let reluctant = Arc::new(ForcedOnlyTracker(LateTracker::new(1)));
    let db = Db::open_on(storage(&anywhere(), reluctant, &options).unwrap(), options).unwrap();
    for number in 0..4u8 {
        db.put([number], "value").unwrap();
        db.flush().unwrap();
    }
    assert!(db.statistics().pending_edits > 0, "there is no release to wait for");
    db.put("last", "write").unwrap();
    let started = Instant::now();
    while db.durable_sequence() < db.last_sequence() {
        assert!(started.elapsed() < Duration::from_secs(10), "an idle store does not become durable");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(db.statistics().pending_edits > 0, "the commit succeeded, so it delayed nothing");
}
