//! Tests of durability trackers (the part of a store that detects when files are durable) on a
//! recorded device with a real ext4. Once a tracker has reported a file as committed, the file
//! must be complete on a copy of the device that has lost all unflushed data. The tests need root,
//! FUSE and loop devices.
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use std::{
    collections::VecDeque,
    env,
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use terrace_device::{
    BlockDevice, Memory,
    record::{Kind, Past, Recorder, State},
    serve::{Desk, FrontEnd, FuseLoop, NoDesk, attach},
};
use terrace_peers::require;
use terrace_storage::{DurabilityHandle, DurabilityMode, Watch};

const DEVICE_BYTES: u64 = 64 << 20;
const FILES: u64 = 16;
/// Maximum count of files that wait for a commit at the same time. There are several, so that
/// files are written at any moment between two commits.
const IN_FLIGHT: usize = 6;
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Names of the environment variables of a child process: the device's file, mount point and mount
/// options, the features of the file system, and the task.
const DISK: &str = "TERRACE_TEST_DISK";
const MOUNT: &str = "TERRACE_TEST_MOUNT";
const OPTIONS: &str = "TERRACE_TEST_OPTIONS";
const FEATURES: &str = "TERRACE_TEST_FEATURES";
const TASK: &str = "TERRACE_TEST_TASK";

/// Features and mount options of an ext4 file system.
#[derive(Clone, Copy, Debug)]
struct Journal {
    features: &'static str,
    options: &'static str,
}

const ORDERED: Journal = Journal { features: "none", options: "commit=1" };
/// ext4 with other journal modes. In the first, file data is also written to the journal. In the
/// second, data and metadata are written in any order.
const OTHERS: [Journal; 2] = [
    Journal { features: "none", options: "commit=1,data=journal" },
    Journal { features: "none", options: "commit=1,data=writeback" },
];
/// ext4 with fast commits. In this mode, an fsync writes its data outside of the journal's
/// commits. If the data belongs to an unnamed file, the file system cannot be mounted again
/// afterwards.
const FAST: Journal = Journal { features: "fast_commit", options: "commit=1" };

fn contents(number: u64) -> Vec<u8> {
    let bytes = 1 + (number * 7919 % 300_000) as usize;
    number.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Entry point of a child process, which this test binary starts. The child mounts the device in a
/// mount namespace of its own, and writes or reads files. The parent, which serves the device,
/// cannot do this, because it must not mount the device.
#[test]
fn role_of_a_child() {
    let Ok(task) = env::var(TASK) else { return };
    let variable = |name| env::var(name).expect("set by the parent");
    let [disk, point] = [DISK, MOUNT].map(|name| PathBuf::from(variable(name)));
    unshare(CloneFlags::CLONE_NEWNS).expect("root");
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>).expect("keep mounts");
    let device = attach(&disk, true).expect("attach");
    let (kind, argument) = task.split_once(' ').expect("two words");
    if kind != "read" {
        let options = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        let features = variable(FEATURES);
        let more: &[&str] = if features == "none" { &[] } else { &["-O", &features] };
        let made = Command::new("mkfs.ext4").args(options).args(more).arg(&device.node).status().expect("mkfs.ext4");
        assert!(made.success());
    }
    mount(Some(&device.node), &point, Some("ext4"), MsFlags::empty(), Some(&*variable(OPTIONS))).expect("mount");
    match kind {
        "write" => write(&point, DurabilityMode::from_name(argument).expect("a durability mode")),
        "refuse" => {
            File::create(point.join("file")).and_then(|file| file.sync_all()).expect("a fast commit");
            for tier in argument.split(',').map(|name| DurabilityMode::from_name(name).expect("a durability mode")) {
                let refused = Watch::open(&point, tier, Duration::from_millis(20)).err().expect("it cannot promise");
                assert!(refused.to_string().contains("fast commits"), "{refused}");
            }
        }
        _ => {
            println!("whole {}", argument.split(',').all(|number| is_whole(&point, number.parse().expect("a number"))))
        }
    }
    umount2(&point, MntFlags::empty()).expect("unmount");
}

fn is_whole(point: &Path, number: u64) -> bool {
    fs::read(point.join(number.to_string())).is_ok_and(|bytes| bytes == contents(number))
}

/// Writes files in order. When the tracker reports a file as committed, inserts a mark with the
/// file's number into the recording of the device.
fn write(point: &Path, tier: DurabilityMode) {
    let control = File::options().write(true).open(env::var_os("TERRACE_TEST_CONTROL").unwrap()).expect("control");
    let watch = Watch::open(point, tier, Duration::from_millis(20)).expect("a tracker");
    let mut waiting: VecDeque<(u64, DurabilityHandle)> = VecDeque::new();
    let begin = Instant::now();
    let mut next = 1;
    while next <= FILES || !waiting.is_empty() {
        assert!(begin.elapsed() < COMMIT_TIMEOUT, "files {waiting:?} are never committed");
        if next <= FILES && waiting.len() < IN_FLIGHT {
            let mut file = File::create_new(point.join(next.to_string())).expect("create");
            file.write_all(&contents(next)).expect("write");
            waiting.push_back((next, watch.watch([file]).expect("watch")));
            next += 1;
        }
        while let Some((number, ticket)) = waiting.front()
            && watch.is_committed(ticket).expect("asked")
        {
            (&control).write_all(format!("mark {number}").as_bytes()).expect("mark");
            waiting.pop_front();
        }
        thread::sleep(Duration::from_millis(30));
    }
}

/// Runs a child process with a task on `device`. Returns the output of the child.
fn child(device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>, journal: Journal, work: &Path, task: &str) -> String {
    let served = FuseLoop { work: work.into(), attached: false }.serve(device, desk).expect("serve");
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "watch::role_of_a_child", "--nocapture", "--test-threads=1"]).env(TASK, task);
    command.env(FEATURES, journal.features).env(OPTIONS, journal.options);
    command.env(DISK, served.node()).env(MOUNT, served.mount_point()).env("TERRACE_TEST_CONTROL", served.control());
    let output = command.output().expect("a child");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{task}: {said}");
    said
}

/// Writes files on a recorded device. Returns two counts: the marks (each is a report that a file
/// is committed), and the marks at which the reported file was missing or incomplete on a device
/// without unflushed data.
fn marks_and_losses(tier: DurabilityMode, journal: Journal) -> (usize, usize) {
    let work = tempfile::tempdir().expect("a directory");
    let record = work.path().join("record");
    let recorder =
        Arc::new(Recorder::new(Arc::new(Memory::new(DEVICE_BYTES).expect("memory")), &record).expect("record"));
    child(recorder.clone(), recorder.clone(), journal, work.path(), &format!("write {}", tier.name()));
    recorder.finish().expect("record");
    let past = Arc::new(Past::open(&record).expect("a record"));
    let (mut marks, mut losses, mut flushed) = (Vec::new(), 0, 0);
    for (at, event) in past.events().iter().enumerate() {
        match event.kind {
            Kind::Flush => flushed = at,
            Kind::Mark => {
                marks.push(event.offset.to_string());
                let lost = State::new(past.clone(), flushed, &[]).expect("a state");
                let task = format!("read {}", marks.join(","));
                let said = child(Arc::new(lost), Arc::new(NoDesk), journal, work.path(), &task);
                let whole = said.lines().find_map(|line| line.split_once("whole ")?.1.trim().parse::<bool>().ok());
                losses += usize::from(!whole.expect("the child looks"));
            }
            _ => {}
        }
    }
    let (name, marked, events) = (tier.name(), marks.len(), past.events().len());
    println!("{name}, {journal:?}: {marked} marks, {losses} losses, {events} events");
    (marks.len(), losses)
}

fn are_kept(tier: DurabilityMode, journal: Journal) {
    let name = tier.name();
    assert_eq!(marks_and_losses(tier, journal), (FILES as usize, 0), "{name}, {journal:?}: marks, losses");
}

/// Runs a negative control with a deliberate fault: the tracker reports files as committed
/// immediately. The test must find that most of them are lost.
fn are_lost(journal: Journal) {
    let (marks, losses) = marks_and_losses(DurabilityMode::None, journal);
    assert!(losses > marks / 2, "{journal:?}: only {losses} losses at {marks} marks");
}

fn can_mount() -> bool {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    let root = require("root", if owner == 0 { Ok(()) } else { Err("mounting takes root") });
    root.is_some() && require("loop", FuseLoop { work: env::temp_dir(), attached: true }.available()).is_some()
}

#[test]
fn committed_files_are_on_a_device_without_unflushed_data() {
    if !can_mount() {
        return;
    }
    let exact = terrace_storage::bpf::CommitIterator::open(Path::new(terrace_storage::bpf::DEFAULT_PIN_PATH)).map(drop);
    let mut tiers = vec![DurabilityMode::Journal, DurabilityMode::Group, DurabilityMode::Background];
    tiers.extend(require("bpf", exact).map(|()| DurabilityMode::JournalBpf));
    for tier in tiers {
        are_kept(tier, ORDERED);
    }
    are_lost(ORDERED);
}

#[test]
fn committed_files_are_durable_in_every_journal_mode() {
    if !can_mount() {
        return;
    }
    for journal in OTHERS {
        [DurabilityMode::Journal, DurabilityMode::Group, DurabilityMode::Background]
            .into_iter()
            .for_each(|tier| are_kept(tier, journal));
    }
    are_kept(DurabilityMode::Background, FAST);
    are_kept(DurabilityMode::Auto, FAST);
    OTHERS.into_iter().chain([FAST]).for_each(are_lost);
    let work = tempfile::tempdir().expect("a directory");
    let memory = Arc::new(Memory::new(DEVICE_BYTES).expect("memory"));
    child(memory, Arc::new(NoDesk), FAST, work.path(), "refuse group,journal");
}
