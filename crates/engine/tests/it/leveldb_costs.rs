//! Tests that Terrace with the preset `leveldb` costs as much as LevelDB 1.23. For the same
//! history it must make as many table syncs, write as many bytes to the device, and leave a store
//! of the same size.
//!
//! Each run uses a new ext4 file system on a loop device, and a child process under `strace` that
//! writes the history. After every [`PACE`] puts the child waits until it is idle, so that the
//! result depends little on timing. Five runs of LevelDB give a range for each figure. The median
//! of three runs of Terrace must be in this range, with a tolerance of 2 % on either side. The
//! test needs root, loop devices, strace and LevelDB (`TERRACE_REQUIRE` names: `root`, `loop`,
//! `strace`, `leveldb`).
use crate::common::{leveldb, loop_fs};
use leveldb::{Layout, Pairs, Random, Side, Store, child, child_argument, is_child, side_name, side_named};
use loop_fs::{LoopFs, is_root};
use std::{
    collections::BTreeMap,
    fs, mem,
    path::Path,
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use terrace_peers::{leveldb::Library, require};

/// The number of puts in one run. The [`KEYS`] keys are in random order, and each is written about
/// twice.
const PUTS: u64 = 60_000;
const KEYS: u64 = 30_000;
const VALUE_BYTES: usize = 400;
/// The count of puts between two waits for an idle process. These puts have 0.8 MB in total, so at
/// most one memtable becomes full between two waits.
const PACE: u64 = 2000;
const SHAPE: Layout =
    Layout { snappy: false, write_buffer_size: 1 << 20, bloom_bits: 0, paranoid: false, mapped_log: false };

/// The costs of one run, in the order of [`FIGURES`].
type Costs = [u64; 3];
const FIGURES: [&str; 3] = ["table syncs", "device bytes", "store bytes"];

#[test]
fn preset_leveldb_costs_as_much_as_leveldb() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let Some(()) = require("root", is_root()) else { return };
    let Some(()) = require("strace", can_trace()) else { return };
    let Some(probe) = require("loop", LoopFs::new()) else { return };
    drop(probe);

    let theirs: Vec<Costs> = (1..=5).map(|run| measure(Side::Theirs, run)).collect();
    let ours: Vec<Costs> = (1..=3).map(|run| measure(Side::Ours, run)).collect();
    println!("{:<13} {:>12} {:>12} {:>12} {:>7}", "", "LevelDB min", "LevelDB max", "median ours", "inside");
    let outside = (0..FIGURES.len()).filter(|&figure| !compare(figure, &theirs, &ours)).map(|figure| FIGURES[figure]);
    assert_eq!(outside.collect::<Vec<_>>(), [""; 0], "figures outside LevelDB's range; the table above has them all");
}

/// Prints one line of the summary. Returns whether Terrace's median is in the range of LevelDB's
/// runs.
fn compare(figure: usize, theirs: &[Costs], ours: &[Costs]) -> bool {
    let column = |runs: &[Costs]| {
        let mut values: Vec<u64> = runs.iter().map(|costs| costs[figure]).collect();
        values.sort_unstable();
        values
    };
    let (theirs, ours) = (column(theirs), column(ours));
    let (least, most, median) = (theirs[0], theirs[theirs.len() - 1], ours[ours.len() / 2]);
    let inside = least as f64 * 0.98 <= median as f64 && median as f64 <= most as f64 * 1.02;
    println!("{:<13} {least:>12} {most:>12} {median:>12} {:>7}", FIGURES[figure], if inside { "yes" } else { "NO" });
    inside
}

/// Makes one run on a new file system. At the end LevelDB reads the contents, and the function
/// compares them with the model.
fn measure(side: Side, run: u32) -> Costs {
    let file_system = LoopFs::new().expect("the probe succeeded a moment ago");
    let (store, trace) = (file_system.mount.join("store"), file_system.directory.path().join("trace"));
    let before = file_system.bytes_written();
    let started = Instant::now();

    let trace_path = trace.display().to_string();
    // With --seccomp-bpf, the traced process stops only at the named system calls. Without this
    // option it would stop at every system call, for example at each futex call.
    let wrapper = ["strace", "-f", "--seccomp-bpf", "-y", "-e", "trace=fdatasync,fsync,msync", "-o", &trace_path];
    let arguments = [("SIDE", side_name(side)), ("STORE", store.display().to_string())];
    let output = child(&wrapper, "leveldb_costs::driver_of_a_paced_history", &arguments).spawn().expect("start strace");
    let output = output.wait_with_output().expect("wait for the driver");
    assert!(output.status.success(), "the driver failed: {}", String::from_utf8_lossy(&output.stderr));

    let device_bytes = file_system.bytes_written() - before;
    let store_bytes = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let syncs = Syncs::of(&fs::read_to_string(&trace).expect("strace's output"));
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{side:?} run {run}: syncs: tables {}, manifests {}, others {}; device {device_bytes} B; store {store_bytes} B; \
         {seconds:.1} s",
        syncs.tables, syncs.manifests, syncs.others
    );
    let reopened = Store::open(Side::Theirs, &store, &SHAPE);
    assert!(reopened.forward() == expected(), "the store of {side:?} does not hold the history");
    reopened.close();
    [syncs.tables, device_bytes, store_bytes]
}

/// Not a test: the child process that [`measure`] traces. It exits without closing the store,
/// because the writes of a close are not compared.
#[test]
fn driver_of_a_paced_history() {
    if !is_child("leveldb_costs::driver_of_a_paced_history") {
        return;
    }
    let store = Store::open(side_named(&child_argument("SIDE")), Path::new(&child_argument("STORE")), &SHAPE);
    for (n, (key, value)) in history().enumerate() {
        store.put(&key, &value);
        if (n as u64 + 1).is_multiple_of(PACE) {
            wait_until_idle();
        }
    }
    wait_until_idle();
    mem::forget(store);
    process::exit(0);
}

/// Returns all puts in order. Keys are decimal with 16 bytes, and values do not compress.
fn history() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut random = Random::new(1);
    (0..PUTS).map(move |_| (format!("{:016}", random.below(KEYS)).into_bytes(), random.bytes(VALUE_BYTES)))
}

fn expected() -> Pairs {
    history().collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Returns when the process is idle: in five consecutive samples, 2 ms apart, all its other
/// threads were asleep, and none of them has run between the samples.
fn wait_until_idle() {
    let deadline = Instant::now() + Duration::from_secs(30);
    let (mut quiet, mut last) = (0, None);
    while quiet < 5 {
        assert!(Instant::now() < deadline, "background work does not end");
        thread::sleep(Duration::from_millis(2));
        let now = others_asleep();
        quiet = if now.is_some() && now == last { quiet + 1 } else { 0 };
        last = now;
    }
}

/// Returns the other threads of this process, each with its running time in ns. Returns `None` if
/// one of them is running or is waiting for a device.
fn others_asleep() -> Option<Vec<(String, String)>> {
    let own = fs::read_link("/proc/thread-self").ok()?;
    let mut threads = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path();
        if path.file_name() == own.file_name() {
            continue;
        }
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        // The thread name, which precedes this field, may contain any character.
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        if state != 'S' {
            return None;
        }
        let ran = fs::read_to_string(path.join("schedstat")).ok()?;
        threads.push((path.display().to_string(), ran.split(' ').next()?.to_string()));
    }
    threads.sort();
    Some(threads)
}

/// The sync calls in a trace, by kind of file.
#[derive(Debug, Default, PartialEq)]
struct Syncs {
    tables: u64,
    manifests: u64,
    others: u64,
}

impl Syncs {
    /// Counts the sync calls in a trace. Only lines that begin a call are counted. A line `<...
    /// fdatasync resumed>` ends a call that was counted already.
    fn of(trace: &str) -> Syncs {
        let mut syncs = Syncs::default();
        for line in trace.lines().filter(|line| line.contains("sync(")) {
            if line.contains(".ldb>") {
                syncs.tables += 1;
            } else if line.contains("/MANIFEST-") {
                syncs.manifests += 1;
            } else {
                syncs.others += 1;
            }
        }
        syncs
    }
}

#[test]
fn a_trace_is_counted_by_kind_and_each_call_once() {
    let trace = "7 fdatasync(5</m/store/000005.ldb>) = 0\n\
                 8 fdatasync(5</m/store/000007.ldb> <unfinished ...>\n\
                 8 <... fdatasync resumed>) = 0\n\
                 7 fdatasync(3</m/store/MANIFEST-000002>) = 0\n\
                 7 fsync(4</m/store>) = 0\n\
                 7 +++ exited with 0 +++\n";
    assert_eq!(Syncs::of(trace), Syncs { tables: 2, manifests: 1, others: 1 });
}

fn can_trace() -> Result<(), String> {
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-e", "trace=fsync", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("strace cannot trace here: {status}")),
        Err(e) => Err(format!("strace: {e}; on Debian and Ubuntu: apt-get install strace")),
    }
}
