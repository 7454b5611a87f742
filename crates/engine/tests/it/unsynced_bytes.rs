//! Tests of the limit of unsynced bytes. The files that wait for durability may take at most as
//! much space as the live data and the writes during the wait together.
use crate::common::kit;
use kit::{TIGHT, options};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use terrace::{Db, LevelInfo};
use terrace_sim::{Rng, SmallFs};
use terrace_storage::{
    DurabilityHandle, IoStats, Result,
    backends::files::fs::FileSystem,
    durability::{BatchTracker, DurabilityTracker, Evidence, Finished, JournalTracker, Way},
    open_files,
    placement::OpenMode,
};

/// A durability tracker that makes nothing durable until its gate is opened.
struct Gate {
    inner: Box<dyn DurabilityTracker>,
    open: AtomicBool,
}

impl DurabilityTracker for Gate {
    fn durability_mode(&self) -> &'static str {
        self.inner.durability_mode()
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle> {
        self.inner.watch(fs, files, io_stats)
    }

    fn cancel_sync(&self, name: &str) -> Option<Finished> {
        self.inner.cancel_sync(name)
    }

    fn waits_for_fs_commit(&self) -> bool {
        true // otherwise half of the limit would force a commit
    }

    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool> {
        if self.open.load(Relaxed) { self.inner.advance(fs, io_stats) } else { Ok(true) }
    }

    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        if self.open.load(Relaxed) { self.inner.commit(fs, io_stats) } else { Ok(()) }
    }
}

fn live(layout: &[LevelInfo]) -> u64 {
    layout.iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum()
}

/// Returns the unsynced bytes as the store counts them and as the write controller uses them. For
/// a WAL the store counts the size of its memtable, which is a little larger than the WAL.
fn unsynced(db: &Db) -> u64 {
    let statistics = db.statistics();
    statistics.retained_wal_bytes + statistics.shadow_bytes
}

fn written(db: &Db) -> u64 {
    db.statistics().bytes_written.iter().map(|(_, bytes)| bytes).sum()
}

/// The count of puts between two commits. It models the delay of a durability mode that waits for
/// the file system's own commits.
const LAG: u32 = 3000;
/// The bytes of files that always exist: the WAL of the active memtable, the manifest, and the
/// previous manifest.
const OWN: u64 = 128 << 10;

/// Tests modes that wait for the commits of the file system. The store may take the space of the
/// live data plus write rate × delay of a commit. Between two commits no obsolete file may be
/// removed. After a commit, all files that were obsolete before it must be removed.
#[test]
fn transient_space_is_bounded_by_writes_during_a_commit() {
    let journal = JournalTracker::new(Evidence::Count, Duration::ZERO, Duration::from_secs(3600));
    let batch = |way| Box::new(BatchTracker::new(way, Duration::ZERO));
    let trackers: [Box<dyn DurabilityTracker>; 3] = [Box::new(journal), batch(Way::Group), batch(Way::Background)];
    for inner in trackers {
        let (gate, disk, db) = store(inner, &[("unsynced_bytes_limit", "1024GiB")]);
        keeps_no_more(&db, &disk, &gate);
    }
}

fn store(inner: Box<dyn DurabilityTracker>, more: &[(&str, &str)]) -> (Arc<Gate>, SmallFs, Db) {
    let gate = Arc::new(Gate { inner, open: AtomicBool::new(true) });
    let options = options(&[TIGHT, more].concat());
    let disk = SmallFs::new(kit::anywhere(), u64::MAX); // it counts the holes of files
    let storage = open_files(Arc::new(disk.clone()), OpenMode::Create, gate.clone(), &options.setup()).expect("open");
    let db = Db::open_manual(storage, options).expect("open");
    (gate, disk, db)
}

/// Puts entry number `n`. After every 250 puts it runs all due jobs.
fn put(db: &Db, n: u32) {
    let mut value = [0; 100];
    value[..8].copy_from_slice(&Rng::of(1, n.into()).next_u64().to_le_bytes());
    db.put((n * 7919 % LAG).to_be_bytes(), value).expect("put");
    if n.is_multiple_of(250) {
        for _ in 0..8 {
            db.step(0);
        }
    }
}

fn keeps_no_more(db: &Db, disk: &SmallFs, gate: &Gate) {
    let (mut at_commit, mut most_kept) = ((0, 0), 0);
    for n in 0..12 * LAG {
        put(db, n);
        let when = format!("{}, put {n}", gate.durability_mode());
        if n % LAG == 0 {
            gate.open.store(true, Relaxed);
            db.wait_idle().expect("all jobs, and a commit");
            gate.open.store(false, Relaxed);
            let (there, live) = (disk.used(), live(&db.layout()));
            assert!(there <= live + OWN, "{when}: {there} B after a commit, {live} B live");
            at_commit = (there, written(db));
        } else if n % 250 == 0 {
            let (there, since) = (disk.used(), written(db) - at_commit.1);
            assert!(there <= at_commit.0 + since, "{when}: {there} B, {} B before {since} B came", at_commit.0);
            most_kept = most_kept.max(there - at_commit.0);
        }
    }
    assert!(
        most_kept > 2 * OWN,
        "{}: only {most_kept} B were ever kept, so nothing was awaited",
        gate.durability_mode()
    );
    gate.open.store(true, Relaxed);
}

/// Tests that tables which were added and deleted between two commits are removed after the second
/// one. Some of these tables are in no manifest; for others, the inputs from which they were made
/// are in no manifest. Background jobs run in any order.
#[test]
fn tables_added_and_deleted_during_a_commit_are_removed_after_it() {
    for (seed, tables) in (0..12).map(|seed| (seed, ["block", "bundled"][seed as usize % 2])) {
        let batch = Box::new(BatchTracker::new(Way::Background, Duration::ZERO));
        let more = [("unsynced_bytes_limit", "1024GiB"), ("tables", tables), ("max_write_buffer_number", "8")];
        let (gate, disk, db) = store(batch, &more);
        let mut rng = Rng::new(seed);
        for n in 0..30_000u32 {
            db.put((n * 7919 % 3000).to_be_bytes(), [n as u8; 100]).expect("put");
            if n.is_multiple_of(100) {
                let choice = rng.below(3) as u64;
                let _ = db.step(choice).or_else(|| db.step(0));
            }
            if n % 6000 == 5999 {
                gate.open.store(true, Relaxed);
                db.wait_idle().expect("all jobs, and a commit");
                gate.open.store(false, Relaxed);
                let (there, live) = (disk.used(), live(&db.layout()));
                assert!(there <= live + OWN, "seed {seed}, {tables}, put {n}: {there} B STAY, {live} B live");
            }
        }
        gate.open.store(true, Relaxed);
    }
}

/// Tests that, while writes are delayed, each follower of a group commit gets the same throttle
/// debt (sleeping time that it has not served yet) as a writer that writes alone. Both debts are
/// here far above 50 ms, the maximum credit for a sleep that took too long on a busy machine.
#[test]
fn followers_of_a_group_commit_are_delayed_too() {
    const MEMTABLE: usize = 8 << 20;
    let changes = [
        ("delayed_writes", "on"),
        ("soft_pending_compaction_bytes_limit", "1GiB"),
        ("write_buffer_size", "8MiB"),
        ("max_write_buffer_number", "8"),
        ("pipelined_writes", "off"),
    ];
    let (_gate, _disk, db) = store(Box::new(BatchTracker::new(Way::Group, Duration::ZERO)), &changes);
    let fill = |bytes: usize| (0..bytes / 4000).for_each(|n| db.put(n.to_be_bytes(), [7; 4000]).expect("put"));
    fill(MEMTABLE / 5 * 31); // six memtables to flush: the delayed write rate is 10 MiB/s
    let slept = |writers: usize, puts: usize, bytes: usize| {
        let before = db.statistics().stall_time;
        thread::scope(|scope| {
            for writer in 0..writers {
                let db = &db;
                let put = move |n| db.put([writer as u8, n as u8], vec![7; bytes]).expect("put");
                scope.spawn(move || (0..puts / writers).for_each(put));
            }
        });
        db.statistics().stall_time - before
    };
    let (alone, together) = (slept(1, 2048, 1000), slept(8, 2048, 1000));
    assert!(alone > Duration::from_millis(100), "one writer sleeps {alone:?}");
    assert!(together > alone / 2, "eight writers sleep {together:?} for what one sleeps {alone:?}");
    slept(7, 7, 140 << 10); // while the first writer sleeps, the others join one group
    db.wait_idle().expect("all jobs");
    let before = db.statistics().stall_time;
    db.put("later", "").expect("put");
    assert_eq!(db.statistics().stall_time, before, "it pays debt of an ended delay");
}

/// Tests that the statistics count a commit as blocking only if writers wait for it because of the
/// limit of unsynced bytes.
#[test]
fn a_commit_that_stops_writers_counts_as_blocking() {
    const MAX: u64 = 1 << 20;
    for (kept, is_blocking) in [(MAX / 16 * 13, false), (MAX, true)] {
        let group = Box::new(BatchTracker::new(Way::Group, Duration::ZERO));
        let (gate, _disk, db) = store(group, &[("unsynced_bytes_limit", "1MiB"), ("max_write_buffer_number", "64")]);
        gate.open.store(false, Relaxed);
        let enough = (0..100_000).find(|n| {
            put(&db, *n);
            unsynced(&db) >= kept
        });
        enough.expect("so much is unsynced");
        gate.open.store(true, Relaxed);
        db.wait_idle().expect("a commit");
        let syncs = db.statistics().syncs;
        let forced = syncs.iter().find(|(kind, _)| *kind == "filesystem").expect("a kind").1;
        assert!(forced.count > 0, "{syncs:?}");
        assert_eq!(forced.blocking > 0, is_blocking, "AWAITED? {kept} B unsynced: {syncs:?}");
    }
}

/// Tests a writer that fills a memtable at the limit of unsynced bytes. It must wait for a commit,
/// and the store must report the time of this wait as a stall.
#[test]
fn writers_stop_at_the_limit_until_a_commit() {
    const STOPPED: Duration = Duration::from_millis(200);
    let group = Box::new(BatchTracker::new(Way::Group, Duration::ZERO));
    let (gate, _disk, db) = store(group, &[("unsynced_bytes_limit", "1MiB"), ("max_write_buffer_number", "64")]);
    gate.open.store(false, Relaxed);
    let is_enough = |n: &u32| {
        put(&db, *n);
        unsynced(&db) >= 1 << 20
    };
    (0..100_000).find(is_enough).expect("so much is unsynced");
    while db.step(0).is_some_and(|job| job != "commit edits") {} // ends all other stalls
    let before = db.statistics();
    let is_done = AtomicBool::new(false);
    let is_stopped = thread::scope(|scope| {
        let opener = scope.spawn(|| {
            thread::sleep(STOPPED);
            gate.open.store(true, Relaxed);
            !is_done.load(Relaxed)
        });
        (0..2000u32).for_each(|n| db.put(n.to_be_bytes(), [1; 100]).expect("put"));
        is_done.store(true, Relaxed);
        opener.join().expect("no panic")
    });
    let after = db.statistics();
    assert!(is_stopped, "no writer stopped with {} B unsynced", unsynced(&db));
    assert!(after.stalls > before.stalls, "no stall was counted");
    // The writer may need a while to reach the limit, so its stall may be shorter than the stop.
    assert!(after.stall_time - before.stall_time > STOPPED / 4, "{:?}", after.stall_time - before.stall_time);
}

/// Tests that writers near the limit of unsynced bytes are delayed, but only until the next
/// commit.
#[test]
fn writers_are_delayed_near_the_limit_and_no_longer() {
    const MAX: u64 = 32 << 20;
    let group = Box::new(BatchTracker::new(Way::Group, Duration::ZERO));
    let smooth =
        [("delayed_writes", "on"), ("unsynced_bytes_limit", "32MiB"), ("soft_pending_compaction_bytes_limit", "1GiB")];
    let (gate, disk, db) = store(group, &smooth);
    gate.open.store(false, Relaxed);
    let (mut n, mut unslowed) = (0, 0);
    loop {
        put(&db, n);
        n += 1;
        let kept = unsynced(&db);
        if db.statistics().stalls == 0 {
            assert!(n < 400_000, "no write was ever delayed");
            unslowed = kept;
        } else if kept > MAX / 32 * 31 {
            break;
        }
    }
    let there = disk.used() - live(&db.layout());
    assert!((MAX / 8 * 5..MAX).contains(&there), "{there} B of files are not live");
    assert!((MAX / 8 * 5..MAX / 8 * 7).contains(&unslowed), "{unslowed} B were unsynced before anybody was slowed");
    while db.step(0).is_some_and(|job| job != "commit edits") {} // these jobs would wake the writers
    let (begun, slowed) = (Instant::now(), db.statistics());
    // On a busy machine a sleep may take too long. At most 50 ms of the excess are credited to
    // later writes; at 4 MiB/s this is 1,900 writes. If a sleep of half a millisecond is exact, the
    // credit is at most 19 writes.
    let sleeps_well = |n: &u32| {
        let before = db.statistics();
        put(&db, *n);
        let after = db.statistics();
        after.stalls > before.stalls && after.stall_time - before.stall_time < Duration::from_micros(500)
    };
    let last = (n..n + 4000).find(sleeps_well).expect("no write is delayed, or every sleep is too long");
    let (stalls, time) = (db.statistics().stalls - slowed.stalls, db.statistics().stall_time - slowed.stall_time);
    assert!(!time.is_zero() && time <= begun.elapsed(), "{time:?} in {stalls} stalls");
    gate.open.store(true, Relaxed);
    assert!(db.statistics().pending_edits > 0);
    db.wait_idle().expect("a commit");
    let stalls = db.statistics().stalls;
    (last + 1..last + 41).for_each(|n| put(&db, n));
    assert_eq!(db.statistics().stalls, stalls, "stalls after the commit");
}
