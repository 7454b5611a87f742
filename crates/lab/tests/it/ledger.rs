//! Tests of the ledger, which counts the syncs and bytes of a process. Its counts are compared
//! with independent sources: `strace`, the sizes of files, and the file system's own counters.
//!
//! A ledger counts its whole process, so each measurement runs in a child process. The child is
//! this test binary; an environment variable has the name of the measurement. The child writes its
//! result to the file that the variable `ANSWER` names.
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};
use terrace_lab::{
    device::{self, Device, DeviceSpec, FileSystem},
    ledger::{self, Ledger, LedgerDelta, settle},
    target::StoreMedium,
};
use terrace_peers::require;

const PART: &str = "TERRACE_LAB_PART";
const DIR: &str = "TERRACE_LAB_DIR";
const NODE: &str = "TERRACE_LAB_NODE";
const ANSWER: &str = "TERRACE_LAB_ANSWER";

/// Entry point of a child process: runs the measurement and reports its result. Returns
/// immediately if this process is not such a child.
#[test]
fn part_of_a_child() {
    let Ok(part) = env::var(PART) else { return };
    let of = |name| PathBuf::from(env::var_os(name).expect("set with the part"));
    let (dir, answer) = (of(DIR), of(ANSWER));
    let text = match part.as_str() {
        "syncs" => syncs(&dir),
        "bytes" => bytes(&dir, &of(NODE)),
        "causes" => causes(&dir, &of(NODE)),
        "settle" => settle_after_work(&dir),
        "cost" => cost(&dir),
        "killed" => {
            let _device = DeviceSpec::Loop(64 << 20, FileSystem::Ext4)
                .prepare(&dir, StoreMedium::FileSystem, false, None)
                .expect("a device");
            let _ledger = Ledger::open(&dir, None);
            fs::write(&answer, "ready").expect("written");
            Command::new("kill").args(["-9", &std::process::id().to_string()]).status().expect("kill");
            unreachable!("killed")
        }
        other => panic!("no part {other}"),
    };
    fs::write(answer, text).expect("written");
}

fn child(part: &str, under: Option<&str>, dir: &Path, node: &Path) -> (Output, String) {
    let me = env::current_exe().expect("this binary");
    let answer = tempfile::NamedTempFile::new().expect("a file");
    let mut command = match under.map(|line| line.split(' ').collect::<Vec<_>>()) {
        Some(words) => {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(me);
            command
        }
        None => Command::new(me),
    };
    command.args(["--exact", "ledger::part_of_a_child", "--nocapture"]);
    command.env(PART, part).env(DIR, dir).env(NODE, node).env(ANSWER, answer.path());
    let output = command.output().expect("the child ran");
    (output, fs::read_to_string(answer.path()).expect("an answer"))
}

/// Returns a loop device with an empty directory for a store. Returns `None` if this machine does
/// not support loop devices.
fn loop_device() -> Option<(tempfile::TempDir, Device)> {
    let work = tempfile::tempdir().expect("a directory");
    let device = require(
        "loop",
        DeviceSpec::Loop(256 << 20, FileSystem::Ext4).prepare(work.path(), StoreMedium::FileSystem, false, None),
    )?;
    fs::create_dir(&device.dir).expect("made");
    Some((work, device))
}

fn synced(path: PathBuf, times: u32, data_only: bool) {
    let mut file = File::create(path).expect("created");
    for _ in 0..times {
        file.write_all(b"some bytes").expect("written");
        if data_only { file.sync_data() } else { file.sync_all() }.expect("synced");
    }
}

fn syncs(dir: &Path) -> String {
    let ledger = Ledger::open(dir, None);
    let before = ledger.mark();
    thread::scope(|scope| {
        scope.spawn(|| synced(dir.join("000001.ldb"), 7, false));
        scope.spawn(|| synced(dir.join("000002.log"), 50, true));
        scope.spawn(|| synced(dir.join("MANIFEST-000003"), 3, false));
    });
    synced(dir.join("000004.dbtmp"), 1, false);
    fs::rename(dir.join("000004.dbtmp"), dir.join("CURRENT")).expect("renamed");
    let opened = File::open(dir).expect("opened");
    opened.sync_all().expect("synced");
    nix::unistd::syncfs(&opened).expect("synced");
    synced(dir.join("LOG"), 2, true);
    let delta = ledger.mark().since(&before);
    let Some(kinds) = delta.syncs_outside else { return format!("none: {:?}", delta.notes) };
    assert!(kinds.values().all(|kind| kind.blocking == kind.count && kind.bytes.is_none()));
    assert!(kinds["tables"].seconds > 0.0, "{kinds:?}");
    kinds.iter().map(|(kind, syncs)| format!("{kind} {}\n", syncs.count)).collect()
}

#[test]
fn syncs_counted_by_the_kernel_match_strace() {
    let strace = Command::new("strace").arg("-V").output().map_err(|error| format!("no strace: {error}"));
    let Some(_) = require("strace", strace) else { return };
    let Some((work, device)) = loop_device() else { return };
    let trace = work.path().join("trace");
    let under = format!("strace -f -y -qq -e trace=fsync,fdatasync,msync,syncfs,sync -o {}", trace.display());
    let (output, answer) = child("syncs", Some(&under), &device.dir, Path::new(""));
    assert!(output.status.success(), "{output:?}");
    let counted = if answer.starts_with("none") { Err(answer) } else { Ok(answer) };
    let Some(counted) = require("tracefs", counted) else { return };

    let mut expected = BTreeMap::new();
    let text = fs::read_to_string(&trace).expect("strace wrote");
    for line in text.lines().filter(|line| line.contains("sync(") || line.contains("syncfs(")) {
        *expected.entry(kind_in(line)).or_insert(0) += 1;
    }
    // strace also shows a sync that the ledger makes to test the kernel's trace. The ledger does
    // not count this sync.
    *expected.get_mut("directory").expect("the probe at least") -= 1;
    let expected: String = expected.iter().map(|(kind, count)| format!("{kind} {count}\n")).collect();
    assert_eq!(counted, expected);
    assert!(expected.contains("log 50\n"), "{expected}");
}

/// Returns the kind of file that a line of strace's output syncs, from the path in the line. An
/// example of a line is `123 fsync(4</dir/000001.ldb>) = 0`.
fn kind_in(line: &str) -> &'static str {
    let path = line.split(['<', '>']).nth(1).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        _ if line.contains("syncfs(") => "filesystem",
        "LOG" => "other",
        "store" => "directory",
        "000001.ldb" => "tables",
        "000002.log" => "log",
        "MANIFEST-000003" => "manifest",
        "000004.dbtmp" => "root",
        _ => panic!("unexpected: {line}"),
    }
}

/// Writes 3 MiB that remain, and 1 MiB that is deleted before the kernel writes it to the device.
/// Then compares the ledger's byte counters with these sizes.
fn bytes(dir: &Path, node: &Path) -> String {
    let mut ledger = Ledger::open(dir, Some(node));
    let before = ledger.mark();
    for number in 1..=3 {
        fs::write(dir.join(format!("{number:06}.ldb")), vec![number; 1 << 20]).expect("written");
    }
    fs::write(dir.join("000009.ldb"), vec![9; 1 << 20]).expect("written");
    fs::remove_file(dir.join("000009.ldb")).expect("removed");
    let settled = settle(&mut ledger, &mut |_| {}).expect("settled");
    assert!(settled.settled);
    let LedgerDelta { process_write_bytes, device_write_bytes, fs_session_write, device_flushes, notes, .. } =
        ledger.mark().since(&before);
    let device = device_write_bytes.expect("a loop device counts");
    let session = fs_session_write.expect("ext4 counts");
    assert!(device.abs_diff(session) <= 4096, "device {device}, ext4 {session}");
    assert!(((3 << 20)..(4 << 20)).contains(&device), "the deleted file never reached the device: {device}");
    let process = process_write_bytes.expect("the kernel counts");
    // The kernel also charges the blocks of directories and inodes to the process. Together they
    // are much smaller than either file.
    assert!(process.abs_diff(3 << 20) <= 64 << 10, "process {process}");
    assert!(device_flushes.is_some_and(|flushes| flushes > 0), "the sync flushed the device: {notes:?}");
    "same".into()
}

#[test]
fn bytes_of_process_and_device_match_the_files_and_ext4() {
    let Some((_work, device)) = loop_device() else { return };
    let node = device.node.clone().expect("a loop device");
    let (output, answer) = child("bytes", None, &device.dir, &node);
    assert_eq!(answer, "same", "{}", String::from_utf8_lossy(&output.stderr));
    let size: u64 =
        fs::read_dir(&device.dir).expect("listed").map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(size, 3 << 20);
}

/// Writes files of several kinds while another file already exists. Then compares the bytes that
/// the ledger attributes to each kind of file with the sizes of the files.
fn causes(dir: &Path, node: &Path) -> String {
    fs::write(dir.join("000001.ldb"), vec![1; 1 << 20]).expect("written");
    nix::unistd::syncfs(File::open(dir).expect("opened")).expect("synced");
    let mut ledger = Ledger::open(dir, Some(node));
    let before = ledger.mark();
    fs::write(dir.join("000002.ldb"), vec![2; 3 << 20]).expect("written");
    fs::write(dir.join("000003.sst"), vec![2; 5000]).expect("written");
    fs::write(dir.join("MANIFEST-000004"), vec![3; 8192]).expect("written");
    fs::write(dir.parent().expect("the mount point").join("stranger"), vec![4; 4096]).expect("written");
    // The WAL is synced ten times. The first sync writes its block for the first time, and the
    // other nine syncs rewrite it. Writing one byte into an existing SSTable is also a rewrite of a
    // block.
    synced(dir.join("000005.log"), 10, true);
    let mut there = File::options().write(true).open(dir.join("000001.ldb")).expect("opened");
    there.write_all(b"!").expect("written");
    fs::write(dir.join("000006.ldb"), vec![5; 1 << 20]).expect("written");
    fs::remove_file(dir.join("000006.ldb")).expect("removed");
    assert!(settle(&mut ledger, &mut |_| {}).expect("settled").settled);
    let delta = ledger.mark().since(&before);
    let Some(causes) = delta.device_by_cause else { return format!("none: {:?}", delta.notes) };
    // The page cache may contain the existing SSTable in one folio. The kernel then charges the
    // whole folio to the process for a write of one byte, and a note says so.
    assert!(delta.notes.iter().all(|note| note.contains("the kernel charged")), "{:?}", delta.notes);
    assert_eq!(delta.process_write_bytes.is_some(), delta.notes.is_empty(), "{:?}", delta.process_write_bytes);
    assert_eq!(Some(causes.values().sum::<u64>()), delta.device_write_bytes, "{causes:?}");
    let file = |kind: &str| causes.get(kind).copied();
    assert_eq!(file("tables"), Some((3 << 20) + 8192));
    assert_eq!((file("manifest"), file("elsewhere"), file("log")), (Some(8192), Some(4096), Some(4096)));
    assert_eq!(file("rewritten"), Some(10 * 4096), "{causes:?}");
    let rewritten = delta.device_rewritten_by_kind.expect("as its sum is");
    assert_eq!(rewritten, [("log", 9 * 4096), ("tables", 4096)].map(|(kind, sum)| (kind.to_owned(), sum)).into());
    assert!(["journal", "metadata", "directory"].iter().all(|kind| file(kind) > Some(0)), "{causes:?}");
    assert_eq!(file("unknown"), None);
    assert!(delta.never_written_bytes.is_none_or(|bytes| bytes >= 1 << 20), "{:?}", delta.never_written_bytes);
    "attributed".into()
}

#[test]
fn causes_cover_every_byte_of_the_device_counter() {
    let Some((_work, device)) = loop_device() else { return };
    let node = device.node.clone().expect("a loop device");
    let (output, answer) = child("causes", None, &device.dir, &node);
    let counted = if answer.starts_with("none") { Err(answer) } else { Ok(answer) };
    let Some(counted) = require("tracefs", counted) else { return };
    assert_eq!(counted, "attributed", "{}", String::from_utf8_lossy(&output.stderr));
}

fn settle_after_work(dir: &Path) -> String {
    let mut ledger = Ledger::open(dir, None);
    let before = ledger.mark();
    let path = dir.join("000001.log");
    let work = thread::spawn(move || {
        let (mut file, start) = (File::create(path).expect("created"), Instant::now());
        while start.elapsed() < Duration::from_millis(800) {
            file.write_all(&[1; 100]).expect("written");
            thread::sleep(Duration::from_millis(10));
        }
    });
    let chatter = File::create(dir.join("progress")).expect("created");
    // The bytes that the progress callback writes must not be counted as the engine's. If they
    // were, the process would never be quiet, and the wait would not end.
    let settled = settle(&mut ledger, &mut |_| (&chatter).write_all(b".").expect("written")).expect("settled");
    work.join().expect("it writes");
    assert!(settled.settled);
    let active = settled.seconds - settled.sync_seconds;
    assert!((0.75..1.5).contains(&active), "the quiet second is excluded: {settled:?}");
    let syncs = ledger.mark().since(&before).syncs_outside.unwrap_or_default();
    assert!(syncs.is_empty(), "the lab's own sync is not counted: {syncs:?}");
    "settled".into()
}

#[test]
fn settling_takes_as_long_as_the_remaining_work() {
    let dir = tempfile::tempdir().expect("a directory");
    let (output, answer) = child("settle", None, dir.path(), Path::new(""));
    assert_eq!(answer, "settled", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns four times in ns: a small write without a ledger, the same with a ledger, a small write
/// with a sync without a ledger, and the same with a ledger. Each time is the median of several
/// measurements.
fn cost(dir: &Path) -> String {
    let path = dir.join("000001.log");
    let mut windows = [const { [const { Vec::new() }; 2] }; 2];
    for round in 0..6 {
        let ledger = (round % 2 == 1).then(|| Ledger::open(dir, None));
        let mut file = File::create(&path).expect("created");
        let mut ns_each = |times: u32, sync: bool| {
            let start = Instant::now();
            for _ in 0..times {
                file.write_all(&[7; 128]).expect("written");
                if sync {
                    file.sync_data().expect("synced");
                }
            }
            start.elapsed().as_nanos() / u128::from(times)
        };
        let [writes, syncs] = &mut windows[round % 2];
        writes.push(ns_each(20_000, false));
        syncs.push(ns_each(50, true));
        drop(ledger);
    }
    let [[write, sync], [counted_write, counted_sync]] = windows.map(|kinds| {
        kinds.map(|mut each| {
            each.sort_unstable();
            each[each.len() / 2]
        })
    });
    format!("{write} {counted_write} {sync} {counted_sync}")
}

/// Tests that the ledger does not make calls much slower. The command `cargo test --release -p
/// terrace-lab --test it being_counted -- --nocapture` prints the times, preferably on an idle
/// machine. The assertion must hold on a busy machine too, so its bound is wide: the ledger must
/// not become the main cost of a call.
#[test]
fn being_counted_costs_little() {
    let dir = tempfile::tempdir().expect("a directory");
    let (output, answer) = child("cost", None, dir.path(), Path::new(""));
    let figures: Vec<u64> = answer.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [write, counted_write, sync, counted_sync] = figures[..] else { panic!("{answer}: {output:?}") };
    println!("write of 128 B: {write} ns, counted {counted_write} ns");
    println!("the same with fdatasync: {sync} ns, counted {counted_sync} ns");
    assert!(counted_write < 5 * write + 20_000 && counted_sync < 5 * sync + 200_000, "{answer}");
}

#[test]
fn the_next_run_removes_leftovers_of_a_killed_one() {
    let Some((work, device)) = loop_device() else { return };
    let (_, answer) = child("killed", None, work.path(), Path::new(""));
    assert_eq!(answer, "ready");
    let left = |work: &Path| fs::read_dir(work).expect("listed").count();
    assert_eq!(left(work.path()), 2, "one of this run and one of the killed run");
    assert_eq!(device::remove_stale(work.path()), Vec::<String>::new());
    assert_eq!(left(work.path()), 1, "that of the running process stays");
    ledger::remove_stale();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert_eq!(mounts.matches(&*work.path().to_string_lossy()).count(), 1);
    device.remove().expect("removed");
    assert_eq!(left(work.path()), 0);
}

#[test]
fn a_block_device_in_use_or_with_data_is_refused() {
    let Some((work, device)) = loop_device() else { return };
    let mounted = DeviceSpec::Block(device.node.clone().expect("a loop device"));
    let refused = mounted.check(true).expect_err("it is mounted");
    assert!(refused.to_string().contains("in use"), "{refused}");

    let image = work.path().join("other");
    File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("made");
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status().expect("mkfs.ext4");
    assert!(made.success());
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().expect("losetup");
    let node = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let spec = DeviceSpec::Block(node.clone());
    let refused = spec.check(false).expect_err("it holds a file system").to_string();
    let prepared = spec.prepare(work.path(), StoreMedium::FileSystem, true, None).map(|device| device.remove());
    let empty = spec.check(false);
    fs::write(&node, "a diary in no known format").expect("written");
    let unknown = spec.check(false).expect_err("it holds data").to_string();
    let with_permission = spec.check(true);
    Command::new("losetup").arg("-d").arg(&node).status().expect("losetup");
    assert!(refused.contains("ext4"), "{refused}");
    prepared.expect("permitted").expect("removed");
    empty.expect("no file system was left on it");
    assert!(unknown.contains("unknown format") && unknown.contains("--destroy-data"), "{unknown}");
    with_permission.expect("permitted to overwrite it");
}
