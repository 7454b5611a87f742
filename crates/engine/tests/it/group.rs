//! Tests of durability on a real ext4 file system. In the modes `group` and `journal`, data that
//! was promised as durable must be on the device. Where such a mode is impossible, an open with it
//! must be refused, and the error must name the reason. With mapped WALs, synced writes must
//! survive a power cut and must not force a journal commit.
//!
//! The tests need root and loop devices (`TERRACE_REQUIRE` names: `root`, `loop`).
use crate::common::{kit, loop_fs};
use kit::{TIGHT, contents};
use loop_fs::{LoopFs, is_root, run};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use terrace::{Db, DurabilityMode, Error, Options, Syncs, WriteOptions, check};
use terrace_peers::require;
use terrace_storage::Watch;

/// A mount option that keeps the kernel from committing and writing back by itself during a test.
/// All data on the device was therefore written because the store requested it.
const QUIET: &str = "commit=300";

fn durability_mode(name: &str) -> Options {
    kit::plain(
        &[
            TIGHT,
            &[
                ("durability", name),
                ("durability_interval_ms", "0"),
                ("idle_durability_ms", "0"),
                ("compression", "none"),
            ],
        ]
        .concat(),
    )
}

/// Returns the number of pairs in the store `name` that a power cut now would leave.
fn survivors_in(file_system: &LoopFs, name: &str) -> usize {
    survivors_of(file_system, name, &durability_mode("sync"))
}

fn survivors_of(file_system: &LoopFs, name: &str, options: &Options) -> usize {
    let image = file_system.after_power_cut().expect("the image can be mounted");
    let store = image.mount.join(name);
    let Ok(db) = Db::open(&store, options.clone()) else { return 0 };
    let pairs = contents(&db).expect("scan").len();
    drop(db);
    assert_eq!(check(&store, options, true).expect("check").problems, Vec::<String>::new(), "{name}");
    pairs
}

fn fill(store: &Path, tier_name: &str) -> Db {
    fill_with(store, durability_mode(tier_name))
}

fn fill_with(store: &Path, options: Options) -> Db {
    let db = Db::open(store, options).expect("open");
    for n in 0..2000u32 {
        db.put(format!("{:05}", n * 7919 % 2000), vec![n as u8; 300]).expect("put");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    db
}

#[test]
fn a_durable_batch_is_on_the_device() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let db = fill(&file_system.mount.join("store"), "group");
    let said = db.statistics();
    assert_eq!((said.durability, said.durable_sequence), ("group", 2000));
    let syncs = |kind: &str| said.syncs.iter().find(|(name, _)| *name == kind).expect("a kind").1.count;
    assert_eq!((syncs("tables"), syncs("log")), (0, 0), "no table and no log was synced by itself");
    let tables: usize = db.layout().iter().map(|level| level.tables.len()).sum();
    assert!(tables > 3, "only {tables} tables");
    assert_eq!(survivors_in(&file_system, "store"), 2000);
    drop(db);

    // A control: without commits the device has no data. This shows that the assertion above can
    // fail.
    let file_system = LoopFs::with(&[], QUIET).expect("it could be made a moment ago");
    let db = fill(&file_system.mount.join("store"), "none");
    assert!(survivors_in(&file_system, "store") < 2000, "the kernel has written by itself");
    drop(db);
}

/// Tests that a batch of directory tables which was reported as durable is on the device. One sync
/// of the file system makes the whole batch durable.
#[test]
fn a_durable_batch_of_directory_tables_is_on_the_device() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let pairs = |tier_name: &str| {
        let mut options = durability_mode(tier_name);
        options.set("tables", "directory").expect("a form of tables");
        options
    };
    for tier_name in ["group", "background", "journal"] {
        let db = fill_with(&file_system.mount.join(tier_name), pairs(tier_name));
        assert_eq!(db.durable_sequence(), 2000, "{tier_name}");
        assert_eq!(survivors_of(&file_system, tier_name, &pairs("sync")), 2000, "{tier_name}");
        db.close().expect("close");
    }
    let db = fill_with(&file_system.mount.join("none"), pairs("none"));
    assert!(survivors_of(&file_system, "none", &pairs("sync")) < 2000, "the kernel has written by itself");
    drop(db);
    file_system.check().expect("an intact file system");
}

/// Tests mode `journal`: data must be on the device after a commit that ext4 makes by itself. In
/// this test ext4 makes a commit every second.
#[test]
fn data_of_a_journal_commit_is_on_the_device() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], "commit=1")) else { return };
    let db = fill(&file_system.mount.join("store"), "journal");
    let said = db.statistics();
    assert_eq!((said.durability, said.durable_sequence), ("journal", 2000));
    let syncs = |kind: &str| said.syncs.iter().find(|(name, _)| *name == kind).expect("a kind").1.count;
    assert_eq!((syncs("tables"), syncs("log"), syncs("filesystem")), (0, 0, 0), "{:?}", said.syncs);
    assert_eq!(said.syncs.iter().map(|(_, syncs)| syncs.blocking).sum::<u64>(), 0, "{:?}", said.syncs);
    assert_eq!(survivors_in(&file_system, "store"), 2000);
    drop(db);
}

/// Tests the processor time that waiting for the journal costs. A thread that polls the journal as
/// often as a store does must use less than a hundredth of the time it waits.
#[test]
fn waiting_for_the_journal_takes_less_than_a_hundredth_of_a_processor() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], "commit=1")) else { return };
    let on_processor = || {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
    };
    let watch =
        Watch::open(&file_system.mount, DurabilityMode::Journal, Duration::from_millis(200)).expect("a tracker");
    let mut file = File::create(file_system.mount.join("table")).expect("create");
    file.write_all(&[7; 1 << 20]).expect("write");
    let handle = watch.watch([file]).expect("watch");
    assert!(!watch.is_committed(&handle).expect("asked"), "it was only written back");
    let (begin, Some(before)) = (Instant::now(), on_processor()) else { return };
    while !watch.is_committed(&handle).expect("asked") {
        assert!(begin.elapsed() < Duration::from_secs(120), "the journal does not commit");
        thread::sleep(Duration::from_millis(20));
    }
    let (waited, used) = (begin.elapsed(), on_processor().expect("as before") - before);
    println!("{used:?} on a processor in {waited:?}");
    assert!(used < waited / 100, "{used:?} on a processor in {waited:?}");
}

/// Tests the claims of the NobLSM paper by counting syncs. There must be as many table syncs as
/// flushes, these must sync as many bytes as the flushes wrote, and compactions must make no sync.
/// In modes with batches, no sync of a table may block a write.
#[test]
fn noblsm_syncs_each_flush_once_and_batches_block_no_write() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], "commit=1")) else { return };
    for preset in ["noblsm", "default", "leveldb"] {
        let mut options = Options::preset(preset).expect("a preset");
        for (name, value) in [TIGHT, &[("compression", "none"), ("idle_durability_ms", "0")]].concat() {
            options.set(name, value).expect("an option");
        }
        let db = Db::open(file_system.mount.join(preset), options).expect("open");
        let before = db.statistics().syncs;
        for n in 0..8000u32 {
            db.put(format!("{:05}", n * 7919 % 2000), vec![n as u8; 300]).expect("put");
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        let said = db.statistics();
        let compacted: u64 = said.levels.iter().map(|level| level.compactions.bytes_written).sum();
        assert!(compacted > said.flushes.bytes_written, "{preset}: {compacted} B compacted");
        let since = |kind: &str| {
            let of = |all: &[(&str, Syncs)]| all.iter().find(|(name, _)| *name == kind).expect("a kind").1;
            let (new, old) = (of(&said.syncs), of(&before));
            (new.count - old.count, new.blocking - old.blocking, new.bytes - old.bytes)
        };
        let (tables, commits) = (since("tables"), since("filesystem"));
        let of = |purpose: &str| {
            let syncs = said.table_syncs.iter().find(|(name, _)| *name == purpose).expect("a purpose").1;
            (syncs.count, syncs.blocking, syncs.bytes)
        };
        let flushes = (said.flushes.count, said.flushes.count, said.flushes.bytes_written);
        println!("{preset}: {} flushes, {tables:?} syncs of tables, {} B compacted", said.flushes.count, compacted);
        match preset {
            "noblsm" => {
                assert_eq!((tables, of("flush"), of("compaction")), (flushes, flushes, (0, 0, 0)));
                assert_eq!(commits, (0, 0, 0), "commits that were forced");
            }
            "leveldb" => {
                let merged = of("compaction"); // the control
                assert_eq!((of("flush"), merged.2, merged.0), (flushes, compacted, merged.1));
                assert_eq!((tables.0, tables.2), (flushes.0 + merged.0, flushes.2 + compacted));
                assert!(merged.0 > flushes.0, "{merged:?}");
            }
            _ => {
                let blocking: u64 = said.syncs.iter().map(|(_, syncs)| syncs.blocking).sum();
                assert_eq!((blocking, tables), (0, (0, 0, 0)), "{preset}: {:?}", said.syncs);
                // A table that a compaction replaced before its batch sync is in no batch.
                let most = flushes.2 + compacted;
                assert!(commits.1 == 0 && (1..=most).contains(&commits.2), "{commits:?} of {most} B");
            }
        }
        db.close().expect("close");
        assert_eq!(survivors_in(&file_system, preset), 2000, "{preset}");
    }
}

/// Tests that a synced write to a mapped WAL forces no journal commit. Once every part of a window
/// of the WAL has been written, a synced record changes no metadata of the file, so the journal
/// has nothing to commit.
#[test]
fn synced_mapped_writes_force_no_journal_commit() {
    const WRITES: u64 = 400;
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let commits_of = |wal_write_mode: &str| {
        let mut options = durability_mode("group");
        options.set("wal_write_mode", wal_write_mode).expect("an option");
        let db = Db::open(file_system.mount.join(wal_write_mode), options).expect("open");
        let before = file_system.commits();
        for n in 0..WRITES {
            db.put_with(n.to_be_bytes(), [7; 100], WriteOptions::synced()).expect("put");
        }
        let commits = file_system.commits() - before;
        assert_eq!((db.durable_sequence(), survivors_in(&file_system, wal_write_mode)), (WRITES, WRITES as usize));
        commits
    };
    let (mapped, written) = (commits_of("map"), commits_of("write"));
    println!("commits of the journal for {WRITES} synced writes: {mapped} mapped, {written} written");
    assert!(mapped <= 8, "{mapped} commits for {WRITES} synced writes");
    assert!(written >= WRITES / 2, "the control: {written} commits where each write variants the log grow");
}

/// Tests that a sync writes only the dirty range of the WAL. The page cache has the preallocated
/// window of the WAL in large folios (groups of pages), and a sync must not write a whole folio.
#[test]
fn a_synced_write_writes_only_dirty_bytes() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let mut options = Options::preset("default").expect("a preset");
    options.idle_durability_ms = 0;
    let db = Db::open(file_system.mount.join("store"), options).expect("open");
    for n in 0..4000_u32 {
        db.put(n.to_be_bytes(), [7; 1000]).expect("put");
    }
    let synced = |n: u32| db.put_with(n.to_be_bytes(), [9; 100], WriteOptions::synced()).expect("put");
    synced(5000); // writes the earlier records and the zeros of the windows
    let before = file_system.bytes_written();
    (0..100).for_each(synced);
    let written = file_system.bytes_written() - before;
    println!("{written} B written for 100 synced puts");
    assert!(written <= 100 * (64 << 10), "{written} B were written for 100 synced puts of 100 B");
}

#[test]
fn group_modes_refuse_unsupported_file_systems() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(intact) = require("loop", LoopFs::with(&[], "barrier=1")) else { return };
    let no_barrier = LoopFs::with(&[], "barrier=0").expect("mount");
    let early = LoopFs::with(&[], "journal_async_commit,data=writeback").expect("mount");
    let no_journal = LoopFs::with(&["-O", "^has_journal"], "defaults").expect("mount");
    let (elsewhere, _journal) = LoopFs::with_journal_elsewhere().expect("mount");
    let refused = [
        (&no_barrier, "nobarrier"),
        (&early, "journal_async_commit"),
        (&no_journal, "no journal"),
        (&elsewhere, "on another device"),
    ];
    for (file_system, reason) in refused {
        refuses(&file_system.mount.join("store"), reason);
    }

    // A file system that is stacked on a supported one must be refused.
    let at = |name: &str| intact.mount.join(name).display().to_string();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(at(name)).expect("make a directory");
    }
    let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    run("mount", &["-t", "overlay", "overlay", "-o", &layers, &at("merged")]).expect("mount an overlay");
    let outcome = std::panic::catch_unwind(|| refuses(&Path::new(&at("merged")).join("store"), "not on ext4"));
    run("umount", &[&at("merged")]).expect("unmount");
    outcome.expect("an overlay is refused");
    let memory = run("mount", &["-t", "tmpfs", "tmpfs", &at("merged")])
        .map(|_| std::panic::catch_unwind(|| refuses(&Path::new(&at("merged")).join("store"), "not on ext4")));
    run("umount", &[&at("merged")]).expect("unmount");
    memory.expect("mount a tmpfs").expect("memory is refused");
    assert_eq!(Db::open(at("store"), durability_mode("auto")).expect("open").statistics().durability, "group");
}

fn refuses(store: &Path, reason: &str) {
    for name in ["group", "journal", "journal-bpf"] {
        let error = Db::open(store, durability_mode(name)).map(drop).expect_err(reason);
        let reported = |text: &str| text.contains(reason) && text.contains(name);
        assert!(
            matches!(&error, Error::Unsupported(text) if reported(text)),
            "{error} does not say {name} and {reason:?}"
        );
    }
    let db = Db::open(store, durability_mode("auto")).expect("auto is never refused");
    db.put("a", "1").expect("put");
    assert_eq!(db.statistics().durability, "background", "{reason}");
    db.close().expect("close");
}
