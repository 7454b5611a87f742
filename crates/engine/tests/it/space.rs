//! Tests of the reserve (disk space that is kept for the case of a full disk), and of recovery
//! from a full disk. After the reserve was used, it must be allocated again. A wait for space must
//! end as soon as there is space. An error that free space does not cure must not be reported as
//! lack of space.
use crate::common::kit;
use kit::{TIGHT, options};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use terrace::{Db, Error, Options};
use terrace_sim::{CrashFs, Fault, FaultFs, Plan, Rng, Rules, SmallFs};
use terrace_storage::{Memory, backends::files::fs::FileSystem};

const RESERVE: u64 = 256 << 10;
const LARGE: u64 = 1 << 30;

fn small() -> (SmallFs, Arc<dyn FileSystem>) {
    let fs = SmallFs::new(Arc::new(Memory::new()), LARGE);
    (fs.clone(), Arc::new(fs))
}

fn reserving(more: &[(&str, &str)]) -> Options {
    let calm = [
        ("max_bytes_for_level_base", "1GiB"),
        ("level0_stop_writes_trigger", "1000"),
        ("level0_slowdown_writes_trigger", "1000"),
        ("level0_file_num_compaction_trigger", "1000"),
    ];
    options(&[TIGHT, &calm, &[("reserve_bytes", "256KiB")], more].concat())
}

/// Returns `bytes` random bytes, which do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes / 8).flat_map(|n| Rng::of(7, n as u64).next_u64().to_le_bytes()).collect()
}

/// Flushes a memtable on a disk with so little space that the flush needs the reserve.
fn flush_from_the_reserve(db: &Db, disk: &SmallFs) {
    disk.leave(LARGE);
    db.put("k", noise(50_000)).unwrap();
    assert_eq!(disk.reserved(), RESERVE);
    disk.leave(1000);
    db.flush().unwrap();
}

#[test]
fn a_used_reserve_is_reallocated() {
    let (disk, fs) = small();
    let db = kit::open(&fs, &reserving(&[]), false).unwrap();
    flush_from_the_reserve(&db, &disk);
    db.wait_idle().unwrap(); // removes the WAL; the reserve may follow later
    let begun = Instant::now();
    while disk.reserved() != RESERVE {
        assert!(begun.elapsed() < Duration::from_secs(30), "there would be space for it");
        std::thread::sleep(Duration::from_millis(1));
    }
    flush_from_the_reserve(&db, &disk);
    db.close().unwrap();
}

#[test]
fn a_stop_uses_the_reserve_and_a_resume_restores_it() {
    let (disk, fs) = small();
    let db = kit::open(&fs, &reserving(&[]), false).unwrap();
    db.put("k", noise(50_000)).unwrap();
    // In addition to its WAL, the table needs more space than is left, so the flush also uses the
    // reserve.
    disk.leave(100);
    let still = (0..1000u32).find_map(|n| {
        let refused = db.put(n.to_le_bytes(), noise(9000)).err()?;
        assert!(refused.is_no_space(), "{refused}");
        db.resume().err() // continues while part of the reserve is left
    });
    let still = still.expect("the disk is full, and the reserve used up");
    // Half of the reserve is for the manifest alone.
    assert!(still.is_no_space() && disk.reserved() == RESERVE / 2, "{still}");
    disk.leave(1 << 20);
    db.resume().unwrap();
    assert_eq!(disk.reserved(), RESERVE);
    db.put("k", "v").unwrap();
}

#[test]
fn an_open_on_a_full_disk_uses_the_reserve() {
    let (disk, fs) = small();
    let db = kit::open(&fs, &reserving(&[]), false).unwrap();
    db.put("k", noise(50_000)).unwrap();
    drop(db);
    disk.leave(2000);
    let db = kit::open(&fs, &reserving(&[]), false).unwrap_or_else(|e| panic!("the reserve is for this: {e}"));
    assert_eq!(db.get("k").unwrap(), Some(noise(50_000)));
    assert_eq!(disk.reserved(), RESERVE, "obsolete files were removed");
}

/// Tests a thread that needs space immediately and therefore commits the pending edits itself. The
/// commit job that is already in the queue must stay there, and no second one may be queued.
#[test]
fn one_manifest_commit_is_queued_at_a_time() {
    let (disk, fs) = small();
    let db = kit::open(&fs, &reserving(&[("max_write_buffer_number", "8")]), true).unwrap();
    // The fourth put finds the memtable full and seals it.
    let fill = || (0..4).for_each(|n| db.put([n], noise(30_000)).unwrap());
    fill();
    assert_eq!(db.step(0), Some("flush"));
    fill();
    disk.leave(1000); // the queue is now: commit edits, flush
    assert_eq!(db.step(1), Some("flush"), "with the space freed by the commit");
    let rest: Vec<_> = std::iter::from_fn(|| db.step(0)).collect();
    assert_eq!(rest, ["commit edits"]);
}

/// Tests overwrites on a small disk. Obsolete entries that wait for compaction, and unsynced
/// bytes, may take as much space as the options of a large disk allow. On a small disk they must
/// not fill the disk, even if jobs run only while a writer waits for them.
#[test]
fn overwrites_need_no_large_disk() {
    [false, true].into_iter().for_each(overwrite_repeatedly);
}

fn overwrite_repeatedly(manual: bool) {
    const PAIRS: u64 = 20_000; // 20 of 32 MiB
    let mut options = Options::preset("default").unwrap();
    for (name, value) in [
        ("write_buffer_size", "256KiB"),
        ("target_file_size", "128KiB"),
        ("max_bytes_for_level_base", "1MiB"),
        ("durability", "background"),
        ("wal_write_mode", "write"),
        ("compression", "none"),
        ("reserve_bytes", "64KiB"),
        // In manual mode no job runs while a writer sleeps, so a delayed write would not help.
        ("delayed_writes", if manual { "false" } else { "true" }),
    ] {
        options.set(name, value).unwrap();
    }
    let small = SmallFs::new(Arc::new(Memory::new()), 32 << 20);
    let value = noise(1024);
    let fs: Arc<dyn FileSystem> = Arc::new(small);
    let db = kit::open(&fs, &options, manual).unwrap();
    let mut rng = Rng::new(1);
    for n in 0..6 * PAIRS {
        let key = if n < PAIRS { n } else { rng.below(PAIRS as usize) as u64 };
        db.put(key.to_be_bytes(), &value).unwrap_or_else(|error| panic!("manual {manual}, put {n}: {error}"));
    }
    let left = db.statistics().free_bytes;
    assert!(left.is_some_and(|left| left < 15 << 20), "{left:?} left: the disk was not small");
    db.close().unwrap();
}

/// Tests a compaction that would exceed the limit of unsynced bytes while no commit of pending
/// edits has run yet. The compaction must first commit the pending edits.
#[test]
fn compactions_on_a_small_disk_do_not_outrun_manifest_commits() {
    const DISK: u64 = 4 << 20;
    let slow = [("durability", "background"), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1GiB")];
    let due = [
        ("level0_file_num_compaction_trigger", "8"),
        ("max_write_buffer_number", "8"),
        ("reserve_bytes", "64KiB"),
        ("compression", "none"),
    ];
    let fs: Arc<dyn FileSystem> = Arc::new(SmallFs::new(Arc::new(Memory::new()), DISK));
    let db = kit::open(&fs, &reserving(&[&slow[..], &due].concat()), true).unwrap();
    let merged = (0..20u8).find_map(|n| {
        (0..4).for_each(|part| db.put([part, n], noise(20_000)).unwrap()); // more than a memtable
        let unsynced = db.statistics().retained_wal_bytes;
        // If several jobs are queued, the first one is a commit of edits, and the test runs the
        // second.
        (db.step(1).or_else(|| db.step(0)) == Some("compact")).then(|| [unsynced, db.statistics().retained_wal_bytes])
    });
    let [before, after] = merged.expect("level 0 is due");
    assert!(before > DISK / 8 && after == 0, "unsynced {before} before, {after} after");
}

/// Makes a store in which a reader pins an obsolete table of 50 kB.
fn store_with_reader(reserve: &str) -> (SmallFs, Db, terrace::Scan) {
    let (disk, fs) = small();
    let db = kit::open(&fs, &reserving(&[("durability", "background"), ("reserve_bytes", reserve)]), false).unwrap();
    db.put("k", noise(50_000)).unwrap();
    db.flush().unwrap();
    let reader = db.scan(Default::default());
    db.put("k", noise(40_000)).unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.statistics().pending_deletions, 1, "the table that the reader has");
    (disk, db, reader)
}

/// Tests a flush that finds the disk full while a reader pins an obsolete table. The flush must
/// wait a short time for the end of the reader before the store stops.
#[test]
fn a_flush_waits_for_space_pinned_by_a_reader() {
    let (disk, db, reader) = store_with_reader("0");
    db.put("l", noise(40_000)).unwrap();
    disk.leave(1000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            drop(reader);
        });
        db.flush().unwrap_or_else(|error| panic!("it did not wait: {error}"));
    });
    assert_eq!(db.get("l").unwrap(), Some(noise(40_000)));
}

#[test]
fn a_write_waits_for_space_pinned_by_a_reader() {
    let (disk, db, reader) = store_with_reader("256KiB");
    disk.leave(15_000); // for WALs without the batch, and for the manifest
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            drop(reader);
        });
        db.put("l", noise(20_000)).unwrap_or_else(|error| panic!("it did not wait: {error}"));
    });
    assert_eq!(disk.reserved(), RESERVE);
    assert_eq!(db.get("l").unwrap(), Some(noise(20_000)));
}

/// Tests that a write does not use the reserve, which is for jobs that free space. A write would
/// not free the space afterwards, and the next open on the full disk would lack the reserve.
#[test]
fn a_write_leaves_the_reserve_to_jobs_that_free_space() {
    let (disk, db, _reader) = store_with_reader("256KiB");
    disk.leave(15_000);
    let refused = db.put("l", noise(20_000)).expect_err("it is in the RESERVE");
    assert!(refused.is_no_space(), "{refused}");
    assert_eq!(disk.reserved(), RESERVE);
}

/// Tests a disk that is nearly full. Unsynced bytes may take only a share of the free space, so
/// pending edits must be committed earlier, and writers must wait earlier, than the options
/// request.
#[test]
fn unsynced_bytes_are_bounded_on_a_small_disk() {
    const DISK: u64 = 6 << 20;
    let slow = [("durability", "background"), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1GiB")];
    let options = reserving(
        &[&slow[..], &[("compression", "none"), ("max_write_buffer_number", "8"), ("reserve_bytes", "64KiB")]].concat(),
    );
    // One call puts more than a memtable can contain.
    let fill = |db: &Db, n: u8| (0..4).for_each(|part| db.put([n, part], noise(20_000)).unwrap());
    let unsynced = |releases: bool| {
        let fs: Arc<dyn FileSystem> = Arc::new(SmallFs::new(Arc::new(Memory::new()), DISK));
        let db = kit::open(&fs, &options, true).unwrap();
        let all = (0..32).map(|n| {
            fill(&db, n);
            // A commit job that is not due queues itself again. Flush jobs are queued after it.
            for _ in (0..4).filter(|_| releases) {
                db.step(0);
            }
            let _ = releases || db.step(1).or_else(|| db.step(0)).is_some();
            db.statistics().retained_wal_bytes
        });
        all.max().unwrap()
    };
    let by_releases = unsynced(true);
    assert!((1..DISK / 8).contains(&by_releases), "{by_releases} before a release committed: more than an eighth");
    let by_writers = unsynced(false);
    assert!(
        (DISK / 8..DISK / 3).contains(&by_writers),
        "{by_writers} before writers waited: more than a quarter, and a memtable"
    );
}

/// Tests a disk that obsolete files fill because they wait for a journal commit that never
/// happens. No write may stop.
#[test]
fn a_disk_full_of_obsolete_files_stops_no_write() {
    let waiting = [("durability", "journal"), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1GiB")];
    let options = kit::options(&[TIGHT, &waiting, &[("compression", "none"), ("reserve_bytes", "64KiB")]].concat());
    // With threads, more files exist at the same time, so the disk is larger.
    for (manual, mebibytes) in [(true, 2), (false, 6)] {
        let disk = CrashFs::new(Rules::Ext4);
        let small = SmallFs::new(Arc::new(disk.clone()), mebibytes << 20);
        let fs: Arc<dyn FileSystem> = Arc::new(small.clone());
        let db = kit::open(&fs, &options, manual).unwrap();
        let value = |n: u32| [n.to_le_bytes().to_vec(), noise(9000)].concat();
        for n in 0..1000u32 {
            db.put((n % 20).to_le_bytes(), value(n)).unwrap_or_else(|e| panic!("manual {manual}, put {n}: {e}"));
        }
        let forced = db.statistics().syncs.iter().find(|(kind, _)| *kind == "filesystem").unwrap().1.count;
        assert!((1..200).contains(&forced), "{forced} commits");
        drop(db);
        small.leave(8 << 20); // for the entries in the WALs
        let db = kit::open(&fs, &options, manual).unwrap();
        (980..1000u32).for_each(|n| assert_eq!(db.get((n % 20).to_le_bytes()).unwrap(), Some(value(n)), "put {n}"));
        db.wait_durable(db.last_sequence()).unwrap();
        drop(db);
        for seed in 0..20 {
            let left = disk.power_loss(disk.steps(), seed).file_system();
            let db = kit::open(&left, &options, true).unwrap();
            assert!((980..1000u32).all(|n| db.get((n % 20).to_le_bytes()).unwrap() == Some(value(n))), "seed {seed}");
        }
    }
}

/// Tests that the reserve is allocated again by the job that freed the space. This job ran while
/// the reserve was in use, and no later commit job follows that could allocate the reserve.
#[test]
fn a_job_that_used_the_reserve_restores_it() {
    let disk = SmallFs::new(Arc::new(CrashFs::new(Rules::Ext4)), LARGE);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let waiting = [("durability", "journal"), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1GiB")];
    let db = kit::open(&fs, &reserving(&waiting), true).unwrap();
    let put = |n: u8| db.put([n], noise(30_000)).unwrap();
    (0..4).for_each(put); // the fourth put seals the memtable
    assert_eq!(db.step(0), Some("flush"));
    (4..6).for_each(put);
    disk.leave(10); // too little for a WAL until the first WAL is removed
    put(6);
    assert_eq!(disk.reserved(), RESERVE);
}

/// Tests that a reader of a memtable does not pin the WAL, because the reader has its values in
/// memory.
#[test]
fn a_memtable_reader_pins_no_wal() {
    let (_, fs) = small();
    let db = kit::open(&fs, &reserving(&[]), false).unwrap();
    db.put("k", noise(50_000)).unwrap();
    let reader = db.scan(Default::default());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let logs: u64 = fs.list().unwrap().iter().filter(|file| file.name.ends_with(".log")).map(|file| file.bytes).sum();
    assert!(logs < 100, "{logs} bytes of logs");
    let seen: terrace::Result<Vec<_>> = reader.collect();
    assert_eq!(seen.unwrap(), [(b"k".to_vec(), noise(50_000))]);
}

/// Tests a resume that must not wait for compactions. A batch of tables becomes durable here once
/// per minute, or when a job forces it. The resume forces the batch of its flush. It must not
/// force the batch of the compaction that follows: further compactions would follow, and the
/// resume would take hours.
#[test]
fn resume_does_not_wait_for_compactions() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let slow = [("durability", "background"), ("durability_interval_ms", "60000"), ("write_buffer_size", "4MiB")];
    let slow = options(
        &[
            TIGHT,
            &slow,
            &[("level0_file_num_compaction_trigger", "3"), ("level_compaction_dynamic_level_bytes", "off")],
        ]
        .concat(),
    );
    let db = kit::open(&fs, &slow, true).unwrap();
    let fill = |db: &Db| (0..20u8).for_each(|n| db.put([n], "").unwrap());
    for _ in 0..4 {
        fill(&db);
        db.flush().unwrap(); // into levels 2, 1, 0 and 0
    }
    db.close().unwrap();
    let db = kit::open(&fs, &slow, true).unwrap();
    fill(&db);
    assert_eq!(db.layout()[0].tables.len(), 2);
    disk.arm(Plan::from_then_on(disk.calls(), Fault::Enospc));
    assert!(db.put("k", "v").unwrap_err().is_no_space());
    disk.heal();
    let begun = Instant::now();
    db.resume().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited for a compaction's batch");
    assert_eq!(db.durable_sequence(), db.last_sequence());
}

/// Tests the error of a failed sync of a table that already serves reads. Free space does not cure
/// this failure, so the error must not report lack of space.
#[test]
fn a_failed_table_sync_is_not_a_lack_of_space() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let db = kit::open(&fs, &options(&[TIGHT, &[("durability", "background")]].concat()), true).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    disk.arm(Plan::from_then_on(disk.calls(), Fault::EnospcAtSync));
    while db.step(0).is_some() {}
    let refused = db.put("l", "w").unwrap_err();
    assert!(matches!(&refused, Error::FailStopped(_)) && !refused.is_no_space(), "{refused}");
    assert!(refused.to_string().contains("000005"), "{refused}");
    disk.heal();
    let still = db.resume().unwrap_err();
    assert!(!still.is_no_space(), "freeing space would go on for ever: {still}");
    drop(db);
    let db = kit::open(&fs, &options(TIGHT), true).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}
