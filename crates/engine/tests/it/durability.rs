//! Tests which writes each durability mode promises to keep, and from which moment on. These are
//! small deterministic cases; `crash.rs` cuts the power at every step of long histories.
use crate::common::kit;
use kit::{Model, Place, TIGHT, contents, options};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use terrace::{Db, Error, Options, ReadOptions, WriteOptions};
use terrace_sim::{CrashFs, LateTracker, Rules};
use terrace_storage::{
    IoStats,
    backends::files::fs::FileSystem,
    durability::{BatchTracker, DurabilityTracker, Evidence, JournalTracker, Way},
    open_files,
    placement::OpenMode,
};

const CUTS: u64 = 40;

fn open_with(fs: &CrashFs, tracker: Arc<dyn DurabilityTracker>, options: &Options) -> terrace::Result<Db> {
    Db::open_manual(open_files(Arc::new(fs.clone()), OpenMode::Create, tracker, &options.setup())?, options.clone())
}

/// Returns the contents of the store after each of many simulated power cuts at the present step.
fn after_cuts(disk: &CrashFs) -> Vec<Model> {
    let step = disk.steps();
    let reopened = |seed| kit::open(&disk.power_loss(step, seed).file_system(), &kit::plain(TIGHT), true);
    let read = |seed| contents(&reopened(seed).unwrap_or_else(|e| panic!("cut {seed}: {e}"))).unwrap();
    (0..CUTS).map(|seed| read(seed).into_iter().collect()).collect()
}

fn all_have(models: &[Model], keys: &[&str]) -> bool {
    models.iter().all(|model| keys.iter().all(|key| model.contains_key(key.as_bytes())))
}

#[test]
fn mode_sync_keeps_synced_writes() {
    let db = Place::any().open(&options(TIGHT), true).unwrap();
    assert_eq!((db.last_sequence(), db.durable_sequence()), (0, 0));
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    assert_eq!((db.last_sequence(), db.durable_sequence()), (2, 0), "not synced, not promised");
    db.put_with("c", "3", WriteOptions::synced()).unwrap();
    assert_eq!(db.durable_sequence(), 3, "one promise covers all before it");
    db.put("d", "4").unwrap();
    db.wait_durable(3).unwrap();
    assert_eq!(db.durable_sequence(), 3, "promised already: nothing to do");
    db.wait_durable(4).unwrap();
    assert_eq!(db.durable_sequence(), 4);
    let error = db.wait_durable(5).unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains('5') && text.contains('4')), "{error}");
    db.put("e", "5").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.durable_sequence(), 5, "its table is synced");
}

#[test]
fn mode_none_promises_and_syncs_nothing() {
    let place = Place::directory();
    let volatile = Options::preset("volatile").unwrap();
    let db = place.open(&volatile, false).unwrap();
    db.put_with("a", "1", WriteOptions::synced()).unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_durable(1).expect("it returns, without a sync");
    db.wait_idle().unwrap();
    let said = db.statistics();
    assert_eq!((said.durable_sequence, said.durability, said.preset), (0, "none", "volatile"));
    let data_syncs: u64 =
        said.syncs.iter().filter(|(kind, _)| *kind != "directory").map(|(_, syncs)| syncs.count).sum();
    assert_eq!(data_syncs, 0, "{:?}", said.syncs);
    db.close().unwrap();
    // A kill must lose nothing in any durability mode.
    let db = place.open(&volatile, false).unwrap();
    db.put("b", "2").unwrap();
    drop(db);
    assert_eq!(contents(&place.open(&volatile, false).unwrap()).unwrap().len(), 2);
}

/// Tests that a close does not wait until the next batch of tables is due. Fixed bug: a close
/// waited for it if edits were added after the close's last commit of pending edits.
#[test]
fn a_close_does_not_wait_until_a_batch_is_due() {
    for round in 0..5u32 {
        let place = Place::directory();
        let slow =
            [("durability", "background"), ("durability_interval_ms", "60000"), ("max_background_compactions", "2")];
        let db = place.open(&options(&[TIGHT, &slow].concat()), false).unwrap();
        for n in 0..2000u32 {
            db.put((n * 7919 % 2000).to_be_bytes(), [round as u8; 500]).unwrap();
        }
        let started = Instant::now();
        db.close().unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "closing took {:?}", started.elapsed());
    }
}

#[test]
fn an_idle_store_becomes_durable_if_configured() {
    let idle = |interval: &str| {
        let db = Place::any().open(&options(&[("idle_durability_ms", interval)]), false).unwrap();
        db.put("a", "1").unwrap();
        db
    };
    let (never, soon) = (idle("0"), idle("20"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while soon.durable_sequence() < soon.last_sequence() {
        assert!(Instant::now() < deadline, "an idle store did not become durable");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(never.durable_sequence(), 0, "an interval of 0 means never");
}

#[test]
fn late_durability_handles_promise_late_and_never_retract() {
    for seed in 0..60 {
        let disk = CrashFs::new(Rules::Ext4);
        let files_max = if seed % 12 < 6 { 0 } else { usize::MAX };
        let journal = |evidence| {
            let tracker = JournalTracker::new(evidence, Duration::ZERO, Duration::from_secs(3600));
            Arc::new(tracker.with_files_max(files_max))
        };
        let batched = |way| Arc::new(BatchTracker::new(way, Duration::ZERO).with_files_max(files_max));
        let tracker: Arc<dyn DurabilityTracker> = match seed % 6 {
            0 => journal(Evidence::Count),
            1 => journal(Evidence::Transactions),
            2 => batched(Way::Group),
            3 => batched(Way::Background),
            _ => Arc::new(LateTracker::new(seed)),
        };
        let db = open_with(&disk, tracker, &options(TIGHT)).unwrap();
        let mut promised = 0;
        for n in 0..60u32 {
            db.put(format!("{n:03}"), [0; 200]).unwrap();
            match n % 10 {
                4 => db.flush().unwrap(),
                9 => db.wait_durable(db.last_sequence() - 3).unwrap(),
                _ => drop(db.step(u64::from(n))),
            }
            assert!(db.durable_sequence() >= promised, "seed {seed}: a promise was taken back");
            promised = db.durable_sequence();
            assert!(n % 10 != 9 || promised + 3 >= db.last_sequence(), "seed {seed}: waited in vain");
            if n % 10 == 6 {
                let survivors = after_cuts(&disk).into_iter().map(|model| model.len() as u64).min();
                assert!(survivors >= Some(promised), "seed {seed}: {survivors:?} pairs of {promised} promised");
            }
        }
        db.wait_idle().unwrap();
        db.close().unwrap();
        assert!(after_cuts(&disk).iter().all(|model| model.len() == 60), "seed {seed}: closed means durable");
    }
}

/// Tests that after a failed writeback the store removes no file that the failure may concern.
/// Inputs of compactions and WALs must stay, and the next open must recover the contents from
/// them.
#[test]
fn a_failed_durability_handle_stops_writing_and_loses_nothing() {
    let disk = CrashFs::new(Rules::Ext4);
    let db = open_with(&disk, Arc::new(LateTracker::failing(1, 1000)), &options(TIGHT)).unwrap();
    (0..50).for_each(|n| db.put(format!("{n:03}"), "value").unwrap());
    db.wait_durable(50).unwrap();
    db.flush().unwrap();
    while db.step(0).is_some() {}
    let error = db.put("more", "").expect_err("the flush's handle has failed");
    assert!(matches!(&error, Error::FailStopped(first) if first.to_string().contains("writeback")), "{error}");
    assert_eq!(contents(&db).unwrap().len(), 50, "reads go on");
    assert!(db.close().is_err());
    assert!(after_cuts(&disk).iter().all(|model| model.len() == 50), "everything promised is there");
}

#[test]
fn a_close_makes_everything_durable_and_a_drop_does_not() {
    let disk = CrashFs::new(Rules::Ext4);
    for (key, orderly) in [("dropped", false), ("closed", true)] {
        let db = kit::open(&(Arc::new(disk.clone()) as Arc<dyn FileSystem>), &options(TIGHT), true).unwrap();
        db.put(key, "").unwrap();
        if orderly {
            db.close().unwrap()
        } else {
            drop(db)
        }
        assert_eq!(all_have(&after_cuts(&disk), &[key]), orderly, "{key}");
    }
    assert!(all_have(&after_cuts(&disk), &["dropped", "closed"]), "the next open made the first one durable");
}

/// Tests that a synced write first syncs all older WALs. LevelDB syncs only the newest WAL, so it
/// can lose the tail of an older WAL although a later synced write survives.
#[test]
fn a_synced_write_syncs_all_older_wals_first() {
    let disk = CrashFs::new(Rules::Ext4);
    let mut roomy = options(TIGHT);
    roomy.max_write_buffer_number = 8;
    let db = kit::open(&(Arc::new(disk.clone()) as Arc<dyn FileSystem>), &roomy, true).unwrap();
    let mut keys = Vec::new();
    for n in 0..4 {
        keys.push(format!("in log {n}"));
        // This put fills the memtable, so the next write begins a new WAL.
        db.put(&keys[n], vec![0; 70 << 10]).unwrap();
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(db.statistics().sealed_memtables, 3, "no flush runs in this test");
    assert!(!all_have(&after_cuts(&disk), &keys), "the control: without a sync something is lost");
    db.put_with("synced", "", WriteOptions::synced()).unwrap();
    let left = after_cuts(&disk);
    assert!(all_have(&left, &["synced"]), "the synced write itself is lost");
    assert!(all_have(&left, &keys), "a later write survived an earlier one");
}

/// Tests the removal of a table that is in no durable version: a flush adds it and a compaction
/// deletes it between two commits of the manifest. Its file must still be removed.
#[test]
fn a_table_added_and_deleted_between_commits_is_removed() {
    let place = Place::any();
    let db = place.open(&kit::plain(TIGHT), true).unwrap();
    for _ in 0..12 {
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        // Runs the other jobs first, if there is a choice, and stops at a commit of edits.
        while db.step(1).is_some_and(|job| job != "commit edits") {}
    }
    db.wait_idle().unwrap();
    let named: usize = db.layout().iter().map(|level| level.tables.len()).sum();
    let there = place.fs.list().unwrap().iter().filter(|entry| entry.name.ends_with(".ldb")).count();
    assert_eq!((there, db.statistics().pending_deletions), (named, 0), "files of tables, and tables");
}

/// Tests that obsolete tables which a reader pins are removed at the latest when the store is
/// closed.
#[test]
fn a_closed_store_leaves_no_obsolete_table() {
    let place = Place::any();
    let db = place.open(&kit::plain(TIGHT), false).unwrap();
    let there = || place.fs.list().unwrap().iter().filter(|entry| entry.name.ends_with(".ldb")).count();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let cursor = db.cursor(ReadOptions::default());
    db.put("a", "2").unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(there(), 2, "the cursor's, and the one that replaced it");
    drop(cursor);
    db.close().unwrap();
    assert_eq!(there(), 1);
}

/// Tests that unsynced bytes are limited even if batches of tables are rare. At the limit, writes
/// must wait for a batch, and the store must report the time of this wait as a stall.
#[test]
fn unsynced_wals_and_tables_are_bounded() {
    ["group", "background", "journal"].into_iter().for_each(are_bounded_under);
}

fn are_bounded_under(durability_mode: &str) {
    const MAX: u64 = 1 << 20;
    let place = Place::memory();
    let rare: &[_] =
        &[("durability", durability_mode), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1MiB")];
    let db = place.open(&options(&[TIGHT, rare].concat()), false).unwrap();
    for n in 0..20_000u32 {
        db.put(format!("{:05}", n % 5000), vec![n as u8; 500]).unwrap();
        if n % 100 == 0 {
            let files = place.fs.list().unwrap();
            let logs: u64 = files.iter().filter(|entry| entry.name.ends_with(".log")).map(|entry| entry.bytes).sum();
            // The active and the sealed memtable add to the limit, and files that the last durable
            // batch made obsolete may still exist.
            assert!(logs < 2 * MAX, "{logs} B of logs after {n} writes");
        }
    }
    assert_eq!(db.statistics().durability, durability_mode);
    assert!(db.durable_sequence() > 10_000, "batches were made: {}", db.durable_sequence());
    let reported = db.statistics();
    assert!(
        reported.stalls > 0 && !reported.stall_time.is_zero(),
        "{durability_mode}: {} stalls of {:?}",
        reported.stalls,
        reported.stall_time
    );
    db.close().unwrap();
}

/// Tests the settings of the NobLSM paper. A flush must be durable immediately and make its WAL
/// obsolete, even while earlier compactions still wait for a commit of the journal.
#[test]
fn a_durable_flush_overtakes_unsynced_compactions() {
    let disk = CrashFs::new(Rules::Ext4);
    let never = Arc::new(JournalTracker::new(Evidence::Count, Duration::from_secs(3600), Duration::from_secs(3600)));
    let mut faithful = kit::in_files(TIGHT);
    faithful.sync_flushes = true;
    let db = open_with(&disk, never, &faithful).unwrap();
    for n in 0..40u32 {
        // The keys of each flush overlap those of the previous one.
        db.put(format!("{}", n % 4), [n as u8; 200]).unwrap();
        if n % 4 == 3 {
            db.flush().unwrap();
            while db.step(0).is_some_and(|job| job != "commit edits") {}
            while db.step(0).is_some_and(|job| job != "commit edits") {}
        }
    }
    let said = db.statistics();
    let compactions = said.levels.iter().map(|level| level.compactions.count).sum::<u64>();
    assert!(compactions > 0 && said.pending_edits > 0 && said.shadow_bytes > 0, "nothing was overtaken: {said:?}");
    assert_eq!((said.durable_sequence, said.retained_wal_bytes), (40, 0), "a flush waits");
    let logs = disk.list().unwrap().iter().filter(|entry| entry.name.ends_with(".log")).count();
    assert_eq!(logs, 1, "the logs of flushed memtables are kept");
    let newest = |model: &Model| (36..40u8).all(|n| model.get((n % 4).to_string().as_bytes()) == Some(&vec![n; 200]));
    assert!(after_cuts(&disk).iter().all(newest));
    let syncs = |kind: &str| said.syncs.iter().find(|(name, _)| *name == kind).expect("a kind").1;
    let flushed: u64 = said.flushes.bytes_written;
    assert_eq!(
        (syncs("tables").count, syncs("tables").bytes),
        (said.flushes.count, flushed),
        "flushes alone are synced"
    );
    assert_eq!(syncs("filesystem").count, 0, "no commit is forced");
    db.close().unwrap();
    assert!(after_cuts(&disk).iter().all(newest));
}

/// Returns a tracker that makes its next batch of tables durable only in an hour.
fn batch_per_hour(way: Way, disk: &CrashFs) -> Arc<BatchTracker> {
    let tracker = BatchTracker::new(way, Duration::from_secs(3600));
    tracker.commit(disk, &IoStats::default()).unwrap();
    Arc::new(tracker)
}

/// Tests the modes with batches: before the batch sync, no table may be reported as durable; after
/// it, all earlier tables must be durable.
#[test]
fn a_batch_makes_all_earlier_tables_durable() {
    for way in [Way::Group, Way::Background] {
        let disk = CrashFs::new(Rules::Ext4);
        let tracker = batch_per_hour(way, &disk);
        let db = open_with(&disk, tracker, &options(TIGHT)).unwrap();
        (0..50).for_each(|n| db.put(format!("{n:03}"), [7; 1100]).unwrap());
        db.flush().unwrap();
        for _ in 0..20 {
            db.step(0);
        }
        assert_eq!((db.durable_sequence(), db.statistics().pending_edits), (0, 1), "{way:?}");
        let reported = || db.property("terrace.durability").unwrap();
        assert!(reported().contains(": 0 of 50 changes are durable\n"), "{}", reported());
        assert!(reported().contains(": 0.1 MB of WALs, 0.0 MB of tables, for 1 pending edit\n"), "{}", reported());
        assert!(after_cuts(&disk).iter().any(|model| model.is_empty()), "{way:?}: the control");
        db.wait_durable(50).unwrap();
        assert!(reported().contains(": 50 of 50 changes are durable\n"), "{}", reported());
        assert!(
            reported().contains(": 0.1 MB of WALs") && reported().contains("\nsyncs of log: 1, "),
            "by the log: {}",
            reported()
        );
        db.close().unwrap();
        assert!(after_cuts(&disk).iter().all(|model| model.len() == 50), "{way:?}");
    }
}

/// Tests a compaction that passes its many output tables to the durability tracker in parts, which
/// become durable in any order. The inputs of the compaction must stay until all parts are
/// durable.
#[test]
fn compaction_inputs_stay_until_all_outputs_are_durable() {
    let options = options(&[TIGHT, &[("write_buffer_size", "1MiB"), ("compression", "none")]].concat());
    let mut pending = 0;
    for seed in 0..12 {
        let disk = CrashFs::new(Rules::Ext4).with_open_files_max(16); // builds need two of them
        let db = open_with(&disk, Arc::new(LateTracker::new(seed)), &options).unwrap();
        for round in 0..2u8 {
            (0..16).for_each(|n| db.put(format!("{n:02}"), vec![round; 20_000]).unwrap());
            db.flush().unwrap();
        }
        db.wait_durable(32).unwrap();
        db.compact_range(None, None).unwrap();
        let tables: usize = db.layout().iter().map(|level| level.tables.len()).sum();
        assert!(tables >= 4, "seed {seed}: {tables} tables");
        loop {
            pending += db.statistics().pending_edits;
            for cut in 0..8 {
                let left = disk.power_loss(disk.steps(), cut).file_system();
                let found = kit::open(&left, &kit::plain(TIGHT), true).and_then(|db| contents(&db));
                let found = found.unwrap_or_else(|error| panic!("seed {seed}, cut {cut}: {error}"));
                let is_whole = found.len() == 16 && found.iter().all(|(_, value)| *value == [1; 20_000]);
                assert!(is_whole, "seed {seed}, cut {cut}: a durable write is lost");
            }
            if db.step(seed).is_none() {
                break;
            }
        }
    }
    assert!(pending > 20, "nothing was waited for: {pending}");
}

/// Tests that the sixteenth closed WAL starts a batch, whatever the size of the WALs and the
/// interval between batches. Each closed WAL keeps a descriptor open until the batch.
#[test]
fn sixteen_wals_start_a_batch() {
    for way in [Way::Group, Way::Background] {
        let disk = CrashFs::new(Rules::Ext4);
        let tracker = batch_per_hour(way, &disk);
        let lazy = [
            ("level0_file_num_compaction_trigger", "900"),
            ("level0_slowdown_writes_trigger", "900"),
            ("level0_stop_writes_trigger", "900"),
        ];
        let db = open_with(&disk, tracker, &options(&[TIGHT, &lazy].concat())).unwrap();
        for n in 1..=16 {
            assert_eq!((db.durable_sequence(), db.statistics().pending_edits), (0, n - 1), "{way:?}");
            db.put(format!("{n:03}"), "value").unwrap();
            db.flush().unwrap();
            while db.step(0).is_some_and(|job| job != "commit edits") {}
        }
        assert_eq!((db.durable_sequence(), db.statistics().pending_edits), (16, 0), "{way:?}");
        assert!(after_cuts(&disk).iter().all(|model| model.len() == 16), "{way:?}");
    }
}

/// Returns the count of write system calls that this thread has made, from the kernel's
/// statistics. Returns `None` if the kernel does not count them.
fn writing_calls() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse().ok())
}

/// Tests that a small write to a memory-mapped WAL needs no system call. The test counts the
/// system calls.
#[test]
fn mapped_writes_make_no_system_call_each() {
    const PUTS: u64 = 2000;
    let calls = |wal_write_mode: &str| {
        let place = Place::directory();
        let db = place.open(&options(&[("wal_write_mode", wal_write_mode)]), false).unwrap();
        let before = writing_calls()?;
        (0..PUTS).for_each(|n| db.put(n.to_be_bytes(), [7; 100]).unwrap());
        Some(writing_calls()? - before)
    };
    let Some((written, mapped)) = calls("write").zip(calls("map")) else { return };
    assert!(written >= PUTS, "the control: {written} calls");
    assert!(mapped == 0 || mapped >= PUTS, "{mapped} calls: some records took one, and some none");
    assert!(mapped == 0 || !is_mappable(), "{mapped} calls where mappings can be had");
}

/// Returns whether the file system of temporary directories permits memory-mapped WALs.
fn is_mappable() -> bool {
    let output = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(std::env::temp_dir()).output();
    output.is_ok_and(|out| ["ext2/ext3", "ext4", "xfs", "tmpfs"].contains(&String::from_utf8_lossy(&out.stdout).trim()))
}
