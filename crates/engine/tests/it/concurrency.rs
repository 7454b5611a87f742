//! Tests in which many threads use one store. Batches must be atomic, counters must never
//! decrease, snapshots must not change, and a close or drop must end all work cleanly. Threads
//! interleave at random, and these properties must be true for every interleaving.
use crate::common::kit;
use kit::{Place, TIGHT, options};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};
use terrace::{Comparator, Cursor, Db, Error, Options, ReadOptions, Scan, Snapshot, WriteBatch, WriteOptions};
use terrace_sim::Rng;
use terrace_storage::{
    Memory,
    vfs::{DirEntry, DirectoryLock, FileSystem, Folders, JournalCommit, ReadFile, WriteFile},
};

#[test]
fn handles_are_send_and_sync() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Db>();
    shared::<Snapshot>();
    shared::<Options>();
    shared::<Error>();
    sent::<Cursor>();
    sent::<Scan>();
}

/// Options that let compactions run in parallel in all possible ways.
const PARALLEL: &[(&str, &str)] = &[
    ("max_background_compactions", "3"),
    ("max_subcompactions", "3"),
    ("min_subcompaction_size", "16KiB"),
    ("intra_l0_compaction_trigger", "2"),
    ("compaction_pri", "min_overlapping_ratio"),
];

/// The time after which the test fails if a thread makes no progress.
const PATIENCE: Duration = Duration::from_secs(120);
const WRITERS: usize = 4;
const READERS: usize = 3;

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")))
}

/// The work of writer `w`. Each batch increments two counters, whose keys are far from each other.
/// Sometimes the batch also deletes filler keys.
fn count(db: &Db, w: usize, stop: &AtomicBool) -> (u64, Error) {
    let mut rng = Rng::new(w as u64);
    for n in 1u64.. {
        let mut batch = WriteBatch::new();
        let value = [&n.to_le_bytes()[..], &vec![n as u8; rng.below(500)]].concat();
        batch.put(format!("a/{w}"), &value).put(format!("z/{w}"), &value);
        batch.put(format!("m/{w}/{}", rng.below(100)), &value).delete(format!("m/{w}/{}", rng.below(100)));
        if let Err(error) = db.write(batch, WriteOptions { sync: rng.chance(1, 20), ..WriteOptions::default() }) {
            return (n - 1, error);
        }
        if stop.load(Relaxed) {
            return (n, Error::Closed);
        }
    }
    unreachable!("the loop has no end")
}

/// Reads both counters of each writer in one scan. The two must be equal. If they differ, a part
/// of a batch is visible.
fn counters(pairs: impl Iterator<Item = terrace::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<u64> {
    let pairs: BTreeMap<_, _> = pairs.collect::<terrace::Result<_>>().expect("scan");
    let read = |name: &str, w: usize| number(pairs.get(format!("{name}/{w}").as_bytes()).cloned());
    for w in 0..WRITERS {
        assert_eq!(read("a", w), read("z", w), "writer {w}: half a batch");
    }
    (0..WRITERS).map(|w| read("a", w)).collect()
}

/// The work of a reader: it reads in every possible way until it is stopped. It fails if a counter
/// decreases.
fn watch(db: &Db, reader: usize, stop: &AtomicBool) {
    let mut rng = Rng::new(1000 + reader as u64);
    let mut seen = vec![0; WRITERS];
    while !stop.load(Relaxed) {
        let now = match rng.below(4) {
            0 => counters(db.scan(ReadOptions::new().fill_cache(rng.chance(1, 2)))),
            1 => counters(db.scan_reverse(ReadOptions::new())),
            2 => {
                let snapshot = db.snapshot();
                let at = ReadOptions::new().snapshot(&snapshot);
                let first = counters(db.scan(at.clone()));
                for (w, wanted) in first.iter().enumerate() {
                    thread::yield_now();
                    let key = format!("{}/{w}", if rng.chance(1, 2) { "a" } else { "z" });
                    assert_eq!(number(db.get_with(key, &at).expect("get")), *wanted, "a snapshot moved");
                }
                assert_eq!(counters(db.scan_reverse(at)), first, "a snapshot moved");
                first
            }
            _ => (0..WRITERS)
                .map(|w| {
                    let first = number(db.get(format!("a/{w}")).expect("get"));
                    let second = number(db.get(format!("z/{w}")).expect("get"));
                    assert!(second >= first, "writer {w}: {second} read after {first}");
                    second
                })
                .collect(),
        };
        for w in 0..WRITERS {
            assert!(now[w] >= seen[w], "writer {w} decreased from {} to {}", seen[w], now[w]);
        }
        seen = now;
    }
}

/// Repeats flushes, compactions, reads of statistics, and waits, until it is stopped.
fn maintain(db: &Db, stop: &AtomicBool) {
    let mut rng = Rng::new(2000);
    let mut promised = 0;
    while !stop.load(Relaxed) {
        match rng.below(5) {
            0 => db.flush().expect("flush"),
            1 => db.compact_range(Some(b"b"), None).expect("compact"),
            2 => db.wait_durable(db.last_sequence()).expect("wait"),
            3 => drop(db.approximate_sizes(&[(b"a", b"z")]).expect("sizes")),
            _ => thread::sleep(Duration::from_millis(5)),
        }
        assert!(db.durable_sequence() >= promised, "a promise was taken back");
        promised = db.durable_sequence();
        kit::check_layout(&db.layout(), Options::default().order()).expect("an intact layout");
    }
}

#[test]
fn batches_are_atomic_and_snapshots_are_stable() {
    const PIPELINED: &[(&str, &str)] =
        &[("pipelined_writes", "on"), ("group_commit_wait_us", "500"), ("max_write_buffer_number", "3")];
    const SMOOTH: &[(&str, &str)] =
        &[("pipelined_writes", "on"), ("delayed_writes", "on"), ("max_write_buffer_number", "4")];
    const BUNDLED: &[(&str, &str)] = &[("tables", "bundled"), ("max_open_files", "16"), ("block_cache_size", "1")];
    const PAIRS: &[(&str, &str)] = &[
        ("tables", "directory"),
        ("min_value_file_size", "100"),
        ("max_write_buffer_number", "4"),
        ("max_open_files", "16"),
    ];
    for (place, changes) in [
        (Place::memory(), [&[][..], &[]]),
        (Place::directory(), [PARALLEL, &[]]),
        (Place::memory(), [PIPELINED, &[]]),
        (Place::directory(), [PIPELINED, PARALLEL]),
        (Place::directory(), [SMOOTH, PARALLEL]),
        (Place::device(), [PIPELINED, &[("tables", "block")]]),
        (Place::directory(), [BUNDLED, PARALLEL]),
        (Place::memory(), [PAIRS, PARALLEL]),
        (Place::directory(), [PAIRS, &[("durability", "background")]]),
    ] {
        let tight = options(&[TIGHT, changes[0], changes[1]].concat());
        let db = place.open(&tight, false).unwrap();
        let (stop, begun) = (AtomicBool::new(false), Instant::now());
        let last: Vec<u64> = thread::scope(|scope| {
            let (db, stop) = (&db, &stop);
            let writers: Vec<_> = (0..WRITERS).map(|w| scope.spawn(move || count(db, w, stop).0)).collect();
            (0..READERS).for_each(|reader| drop(scope.spawn(move || watch(db, reader, stop))));
            scope.spawn(|| maintain(db, stop));
            // The threads run for half a second, or two seconds in a full run. On a busy machine or
            // under a sanitizer they run longer, until every writer has made progress.
            let got_far = || (0..WRITERS).all(|w| number(db.get(format!("a/{w}")).expect("get")) > 50);
            let time = Duration::from_millis(if kit::is_full() { 2000 } else { 500 });
            while begun.elapsed() < time || !got_far() && begun.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Relaxed);
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
        });
        assert!(last.iter().all(|n| *n > 50), "{}: {last:?}", place.name);
        assert_eq!(counters(db.scan(ReadOptions::new())), last, "{}", place.name);
        db.close().unwrap();
        let db = place.open(&tight, false).unwrap();
        assert_eq!(counters(db.scan(ReadOptions::new())), last, "{}: after reopening", place.name);
    }
}

#[test]
fn a_concurrent_close_stops_every_writer_and_loses_nothing() {
    for seed in 0..12 {
        let place = Place::any();
        let db = place.open(&options(TIGHT), false).unwrap();
        let stop = AtomicBool::new(false);
        let last: Vec<u64> = thread::scope(|scope| {
            let write = |w: usize| {
                let (db, stop) = (db.clone(), &stop);
                scope.spawn(move || count(&db, w, stop))
            };
            let writers: Vec<_> = (0..WRITERS).map(write).collect();
            thread::sleep(Duration::from_millis(5 + 7 * seed));
            db.clone().close().expect("close");
            let ended = writers.into_iter().map(|writer| writer.join().expect("a writer"));
            ended
                .map(|(n, error)| {
                    assert!(matches!(error, Error::Closed), "{error}");
                    n
                })
                .collect()
        });
        assert_eq!(counters(db.scan(ReadOptions::new())), last, "a closed store can still be read");
        for outcome in [db.flush(), db.compact_range(None, None), db.delete("a/0"), db.clone().close()] {
            assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
        }
        drop(db);
        assert_eq!(counters(place.open(&options(TIGHT), true).unwrap().scan(ReadOptions::new())), last, "seed {seed}");
    }
}

/// A file system in memory with slow syncs. It counts the syncs that have begun.
#[derive(Clone, Default)]
struct Slow {
    inner: Memory,
    syncs: Arc<AtomicU64>,
}

struct SlowFile(Box<dyn WriteFile>, Arc<AtomicU64>);

impl WriteFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(100));
        self.0.sync()
    }
    fn write_back(&self) -> io::Result<()> {
        self.0.write_back()
    }
}

impl FileSystem for Slow {
    fn name(&self) -> String {
        "slow memory".into()
    }
    fn make_directory(&self) -> io::Result<()> {
        self.inner.make_directory()
    }
    fn exists(&self) -> io::Result<bool> {
        self.inner.exists()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(SlowFile(self.inner.create(name)?, self.syncs.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.inner.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.link(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn folders(&self) -> Option<&dyn Folders> {
        self.inner.folders()
    }
    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.list()
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }
    fn journal(&self) -> Option<&dyn JournalCommit> {
        self.inner.journal()
    }
    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.inner.sync_file(name)
    }
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock(exclusive)
    }
}

/// Tests that a store ends cleanly if its last user handle is dropped while the idle timer syncs.
/// During the sync the idle timer keeps a reference to the store.
#[test]
fn a_drop_during_an_idle_tick_releases_the_lock() {
    let slow = Slow::default();
    let fs: Arc<dyn FileSystem> = Arc::new(slow.clone());
    let idle = options(&[("idle_durability_ms", "4")]);
    let db = kit::open(&fs, &idle, false).unwrap();
    db.put("a", "1").unwrap();
    let before = slow.syncs.load(Relaxed);
    while slow.syncs.load(Relaxed) == before {
        thread::yield_now(); // until the idle timer syncs the WAL
    }
    drop(db);
    let again = kit::open(&fs, &idle, true).expect("no handle has the store open");
    assert_eq!(again.get("a").unwrap(), Some(b"1".to_vec()));
}

/// A comparator that blocks every comparison with the key `slow` until the gate is opened.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    stopped: AtomicBool,
}

impl Comparator for Gate {
    fn name(&self) -> &str {
        "test.Gate"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        while b == b"slow" && self.closed.load(SeqCst) {
            self.stopped.store(true, SeqCst);
            thread::yield_now();
        }
        a.cmp(b)
    }
}

/// Tests pipelined writes, in which a later write group may be inserted into the memtable before
/// an earlier one. The later group must still become visible after the earlier one, and the
/// memtable must not be sealed during an insert.
#[test]
fn a_group_inserted_early_becomes_visible_in_order() {
    for later in ["a write", "a flush"] {
        let gate = Arc::new(Gate::default());
        let pipelined = options(&[("pipelined_writes", "on")]).comparator(gate.clone());
        let db = Place::any().open(&pipelined, false).unwrap();
        db.put("first", "1").unwrap();
        gate.closed.store(true, SeqCst);
        thread::scope(|scope| {
            // The value is large, so other writers can finish their inserts before this write.
            let slow = scope.spawn(|| db.put("slow", vec![0; 100_000]));
            while !gate.stopped.load(SeqCst) {
                thread::yield_now();
            }
            let other = scope.spawn(|| match later {
                "a write" => db.put_with("fast", "1", WriteOptions::synced()),
                _ => db.flush(),
            });
            thread::sleep(Duration::from_millis(100));
            let waits = !slow.is_finished() && !other.is_finished();
            let seen = (db.last_sequence(), db.durable_sequence(), db.get("fast").unwrap());
            let sealed = db.statistics().sealed_memtables + db.statistics().flushes.count;
            gate.closed.store(false, SeqCst);
            assert!(waits, "{later} was acknowledged before what had been written before it");
            assert_eq!((seen, sealed), ((1, 0, None), 0), "{later} overtook what had been written before it");
            slow.join().unwrap().unwrap();
            other.join().unwrap().unwrap();
        });
        let last = if later == "a write" { 3 } else { 2 };
        assert_eq!(db.last_sequence(), last);
        assert_eq!(db.get("slow").unwrap(), Some(vec![0; 100_000]));
    }
}

/// Tests that one sync of the WAL serves all threads that wait for a sync. This includes threads
/// whose previous write was already part of the previous sync.
#[test]
fn synced_writers_share_syncs() {
    const EACH: usize = 12;
    let syncs = |changes: &[(&str, &str)]| {
        let slow = Slow::default();
        let fs: Arc<dyn FileSystem> = Arc::new(slow.clone());
        let db = kit::open(&fs, &options(changes), false).unwrap();
        let before = slow.syncs.load(Relaxed);
        thread::scope(|scope| {
            for w in 0..WRITERS {
                let db = &db;
                scope.spawn(move || {
                    (0..EACH).for_each(|n| db.put_with(format!("{w}/{n}"), "", WriteOptions::synced()).expect("put"));
                });
            }
        });
        slow.syncs.load(Relaxed) - before
    };
    let gathered = syncs(&[("group_commit_wait_us", "50000")]);
    assert!(gathered <= EACH as u64 * 3 / 2, "{gathered} syncs for {EACH} rounds of {WRITERS} writers");
    assert!(syncs(&[]) >= gathered, "waiting for others made it worse");
}
