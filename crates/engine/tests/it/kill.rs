//! Tests that kill processes (SIGKILL) at random moments, on a real file system. A child process
//! writes to a growing store and reports the batches that were acknowledged. After each kill, no
//! acknowledged write may be lost, the contents must be a prefix of the history, and a deep check
//! must find no problem. With root and loop devices, each store is on an ext4 file system of its
//! own, which must be intact at the end.
//!
//! The writes are derived from `SEED`, but the times of the kills are random.
use crate::common::{kit, leveldb, loop_fs};
use kit::{COUNT_KEY, Model, TIGHT, apply, batch, contents, write};
use leveldb::{child, child_argument, is_child};
use loop_fs::{LoopFs, is_root};
use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Stdio},
    thread,
    time::Duration,
};
use terrace::{Db, Options, check};
use terrace_peers::require;
use terrace_sim::Rng;

const SEED: u64 = 9;
/// The stores by name, each with its options in addition to [`TIGHT`].
const LAYOUTS: &[(&str, &[(&str, &str)])] = &[
    ("usual", &[]),
    ("mapped", &[("wal_write_mode", "map"), ("durability", "auto"), ("durability_interval_ms", "20")]),
    ("background", &[("durability", "background"), ("durability_interval_ms", "20")]),
    ("bundled", &[("tables", "bundled")]),
    (
        "directory",
        &[
            ("tables", "directory"),
            ("min_value_file_size", "20"),
            ("durability", "background"),
            ("durability_interval_ms", "20"),
        ],
    ),
    (
        "separated",
        &[("values", "log"), ("value_log_threshold", "40"), ("durability", "auto"), ("value_log_gc_percent", "1")],
    ),
    (
        "separated, from the tail",
        &[("values", "log"), ("value_log_threshold", "40"), ("value_log_gc_percent", "1"), ("value_log_gc", "tail")],
    ),
    (ON_A_DEVICE, &[("durability", "group"), ("durability_interval_ms", "20")]),
    (
        "on a device, separated",
        &[("durability", "group"), ("values", "log"), ("value_log_threshold", "40"), ("value_log_gc_percent", "1")],
    ),
];
/// Stores whose name has this prefix are in a file that is used as a raw device.
const ON_A_DEVICE: &str = "on a device";
const DEVICE_BYTES: u64 = 64 << 20;
/// The count of batches after which a child writes no more and only waits to be killed.
const BATCHES_MAX: usize = 4000;

fn with_layout(layout: &str) -> Options {
    let (_, changes) = LAYOUTS.iter().find(|(name, _)| *name == layout).expect("a layout of that name");
    kit::plain(&[TIGHT, changes].concat())
}

fn count(db: &Db) -> usize {
    let bytes = db.get(COUNT_KEY).expect("get");
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize)
}

/// Not a test: the child process. It opens the store, continues the history, and prints `ack N`
/// when batch N has been acknowledged.
#[test]
fn writer() {
    if !is_child("kill::writer") {
        return;
    }
    let db = Db::open(child_argument("DIR"), with_layout(&child_argument("SHAPE"))).expect("open");
    let mut out = std::io::stdout().lock();
    let first = count(&db) + 1;
    for number in first..first + BATCHES_MAX {
        write(&db, &batch(SEED, number), number % 37 == 0).expect("write");
        writeln!(out, "ack {number}").and_then(|()| out.flush()).expect("the parent listens");
        match number % 500 {
            250 => db.compact_range(None, None).expect("compact"),
            400 => db.flush().expect("flush"),
            _ => {}
        }
    }
    loop {
        thread::park();
    }
}

/// Prepares the directory or the device file that a store of this layout needs.
fn prepare(directory: &Path, layout: &str) {
    if layout.starts_with(ON_A_DEVICE) {
        kit::device_file(directory, DEVICE_BYTES);
    }
}

fn start(directory: &Path, layout: &str) -> Child {
    let arguments = [("DIR", directory.display().to_string()), ("SHAPE", layout.to_string())];
    let mut command = child(&[], "kill::writer", &arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("start the child")
}

/// Lets a child process write for a while and kills it. Returns the last batch that it
/// acknowledged.
fn killed_after(directory: &Path, layout: &str, delay: Duration) -> usize {
    let mut child = start(directory, layout);
    let mut out = child.stdout.take().expect("piped");
    let listener = thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).expect("plain text");
        text
    });
    thread::sleep(delay);
    child.kill().expect("kill");
    let status = child.wait().expect("wait");
    assert!(status.code().is_none(), "the child ended by itself: {status}");
    let text = listener.join().expect("listen");
    // The kill may have cut off the last line, and an incomplete line is ignored.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let acknowledged = whole.lines().filter_map(|line| line.strip_prefix("ack ")).next_back();
    acknowledged.map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_9() {
    LAYOUTS.iter().for_each(|(layout, _)| kill_repeatedly(layout));
}

fn kill_repeatedly(layout: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = require("root", is_root()).and_then(|()| require("loop", LoopFs::new()));
    let directory = disk.as_ref().map_or(folder.path(), |disk| &disk.mount).join("store");
    prepare(&directory, layout);
    let (mut rng, mut model, mut applied, mut progress) = (Rng::new(SEED), Model::new(), 0, 0);
    let kills = if kit::is_full() { 40 } else { 10 };
    for kill in 0..kills {
        let delay = Duration::from_millis(rng.below(160) as u64);
        let acknowledged = killed_after(&directory, layout, delay);
        let db = Db::open(&directory, with_layout(layout)).unwrap_or_else(|e| panic!("{layout}, kill {kill}: {e}"));
        let found = count(&db);
        assert!(found >= acknowledged.max(applied), "{layout}, kill {kill}: {found} of {acknowledged} batches");
        assert!(acknowledged == 0 || found <= acknowledged + 1, "{layout}, kill {kill}: more than was written");
        (applied + 1..=found).for_each(|number| apply(&mut model, &batch(SEED, number)));
        let same = model.iter().eq(contents(&db).expect("scan").iter().map(|(key, value)| (key, value)));
        assert!(same, "{layout}, kill {kill}: not the contents after {found} batches");
        progress += usize::from(found > applied);
        applied = found;
        if kill % 3 == 0 {
            db.close().expect("close")
        } else {
            drop(db)
        }
        let mut problems = check(&directory, &kit::plain(TIGHT), true).expect("check").problems;
        if layout.starts_with(ON_A_DEVICE) {
            problems.extend(kit::problems_of_device(&directory));
        }
        assert_eq!(problems, Vec::<String>::new(), "{layout}, kill {kill}");
    }
    if let Some(disk) = disk {
        disk.check().unwrap_or_else(|e| panic!("{layout}: {e}"));
    }
    println!("{layout}: {applied} batches, {kills} kills, {progress} of them after new batches");
    assert!(progress >= kills / 4, "only {progress} of {kills} children wrote anything before they were killed");
}

/// Tests a store that is killed repeatedly during its recovery. No recovery completes between the
/// kills.
#[test]
fn recovery_can_be_killed_repeatedly() {
    ["mapped", ON_A_DEVICE].iter().for_each(|layout| kill_during_recovery(layout));
}

fn kill_during_recovery(layout: &str) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    prepare(&directory, layout);
    let mut acknowledged = killed_after(&directory, layout, Duration::from_millis(300));
    let mut rng = Rng::new(SEED + 1);
    for _ in 0..15 {
        // The start of a process takes some milliseconds, so these kills happen before, during, or
        // right after the open.
        acknowledged = acknowledged.max(killed_after(&directory, layout, Duration::from_millis(rng.below(25) as u64)));
    }
    let db = Db::open(&directory, kit::plain(TIGHT)).expect("open");
    let found = count(&db);
    let what = format!("{layout}, seed {SEED}: {found} of {acknowledged} batches");
    assert!(found >= acknowledged && found > 0, "{what}");
    let mut model = Model::new();
    (1..=found).for_each(|number| apply(&mut model, &batch(SEED, number)));
    assert!(model.into_iter().eq(contents(&db).expect("scan")), "{what}: other contents");
}
