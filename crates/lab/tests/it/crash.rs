//! Crash tests of stores on a real ext4. They check that Terrace fulfils its durability contract,
//! and that a campaign finds the faults of deliberately faulty stores. They need root, FUSE and
//! loop devices.
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use terrace_device::{
    Memory,
    serve::{FrontEnd, FuseLoop, NoDesk, cleanup},
};
use terrace_lab::{
    crash::{
        Campaign, NegativeControl, Tally, block, drive,
        emulator::Emulator,
        machine,
        script::Script,
        size::Size,
        worker::{self, StoreLocation, Task, WorkerRequest},
    },
    target::Engine,
};
use terrace_peers::{leveldb::Library, require};
use terrace_storage::bpf::{CommitIterator, DEFAULT_PIN_PATH};

const CAMPAIGN: &str = "TERRACE_TEST_CRASH_CAMPAIGN";
const ROLE: &str = "TERRACE_TEST_CRASH_WORKER";

/// Returns whether the tests run whole campaigns, as `make full` requests. If not, they run a
/// short sample of each campaign.
fn is_full() -> bool {
    std::env::var_os("TERRACE_FULL").is_some()
}

/// Entry point of the worker process. This test binary starts itself as a worker, which mounts the
/// crash states and judges them.
#[test]
fn role_of_a_worker() {
    if env::var_os(ROLE).is_some() {
        println!(); // the test harness has begun a line
        worker::serve(&mut std::io::stdout(), &find).expect("a worker");
    }
}

fn find(name: &str) -> anyhow::Result<Box<dyn Engine>> {
    terrace_peers::lab::engine(name).map_or_else(|| terrace_lab::engines::engine(name), Ok)
}

/// Checks that this machine can mount served devices.
fn can_mount(work: &Path) -> Option<()> {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    require("root", if owner == 0 { Ok(()) } else { Err("mounting a file system takes root") })?;
    require("loop", FuseLoop { work: work.into(), attached: true }.available())
}

fn command() -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "crash::role_of_a_worker", "--nocapture", "--test-threads=1"]).env(ROLE, "1");
    command
}

/// Runs a campaign of `states` crash states and returns its result. Returns `None` if this machine
/// lacks a requirement.
fn campaign(work: &Path, engine: &str, states: u64, control: Option<NegativeControl>) -> Option<Tally> {
    can_mount(work)?;
    Some(run(&plan(work, engine, states, control)))
}

fn run(campaign: &Campaign) -> Tally {
    let tally = block::run(campaign, &command, &mut |_| true).expect("the campaign runs");
    println!("{} {:?}, seed {}: {tally:?}", campaign.engine, campaign.control, campaign.seed);
    assert_eq!(Some(tally.states), campaign.states);
    tally
}

fn plan(work: &Path, engine: &str, states: u64, control: Option<NegativeControl>) -> Campaign {
    Campaign {
        engine: engine.into(),
        seed: 1,
        batches: 500,
        states: Some(states),
        time: None,
        workers: 4,
        control,
        work: work.into(),
        keep: Some(work.join("kept")),
    }
}

/// Tests every durability mode against the promises that this mode makes. The preset `noblsm`, for
/// example, waits for journal commits instead of syncing.
#[test]
fn terrace_keeps_the_contract() {
    let exact = CommitIterator::open(Path::new(DEFAULT_PIN_PATH)).map(drop);
    let mut engines = vec![
        "terrace:default",
        "terrace:leveldb",
        "terrace:leveldb+durability=background",
        "terrace:noblsm",
        "terrace:bundled",
        "terrace:default+durability=auto",
        "terrace:default+durability=journal",
        "terrace:bolt",
        "terrace:delsm",
        "terrace:wisckey+value_log_gc_percent=1+durability=background",
        // The whole store of these presets, or a part of it, is on a device without a file system.
        "terrace:device",
        "terrace:leveldb-raw",
    ];
    engines.extend(require("bpf", exact).map(|()| "terrace:noblsm+durability=journal-bpf"));
    for engine in engines {
        let dir = tempfile::tempdir().expect("a directory");
        let states = if is_full() { 60 } else { 20 };
        let Some(tally) = campaign(dir.path(), engine, states, None) else { return };
        assert_eq!(tally.failed, 0, "ORACLE: {engine}: {tally:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "leftovers");
    }
}

/// Tests an emulated machine that is killed while it fills a store. It boots again, judges the
/// store and continues to fill it, until it is killed again. Every batch that was promised as
/// durable before a kill must be present after it.
#[test]
fn a_killed_machine_has_all_promised_batches() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(()) = can_mount(dir.path()) else { return };
    let Some(emulator) = require("qemu", Emulator::find()) else { return };
    let campaign = Campaign { batches: 2000, ..plan(dir.path(), "terrace:noblsm", 2, None) };
    let tally = machine::run(&campaign, &emulator, &command(), &mut |_| true).expect("the campaign runs");
    println!("{tally:?}");
    assert_eq!((tally.states, tally.failed), (2, 0), "ORACLE: {tally:?}");
    assert!(tally.events > 200, "almost nothing was written: {tally:?}");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "leftovers");
}

/// Tests a drive that repeatedly loses power while a store on it is under load. The store is on a
/// file system in one run, and directly on the drive in another run. The campaign must also find
/// that syncs are missing if the store makes none.
#[test]
fn a_store_under_load_has_all_promised_batches_after_each_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(()) = can_mount(dir.path()) else { return };
    let run = |engine: &str, states, control| {
        let campaign = Campaign { batches: 20_000, ..plan(dir.path(), engine, states, control) };
        let goes_on = |tally: &Tally| !tally.by_kind.contains_key("LOST");
        let tally = drive::run(&campaign, &command, &mut |tally| goes_on(tally)).expect("the campaign runs");
        println!("{engine} {control:?}: {tally:?}");
        tally
    };
    for engine in ["terrace:bundled", "terrace:device"] {
        let states = if is_full() { 2 } else { 1 };
        let tally = run(engine, states, None);
        assert_eq!((tally.states, tally.failed), (states, 0), "ORACLE: {engine}: {tally:?}");
        assert!(tally.events > 1000, "almost nothing was written: {tally:?}");
    }
    // Even without syncs, the kernel may by chance have written all data before a power cut. It is
    // very unlikely that this happens before each of 20 power cuts.
    let tally = run("terrace:leveldb", 20, Some(NegativeControl::Unsynced));
    assert!(tally.by_kind.contains_key("LOST"), "UNSEEN: {tally:?}");
    fs::remove_dir_all(dir.path().join("kept")).expect("failing states were saved");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "leftovers");
}

/// Tests that a worker does not keep a mount in use. Another process must be able to unmount a
/// file system after the worker has started.
#[test]
fn a_worker_does_not_keep_mounts_of_others_in_use() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(()) = can_mount(dir.path()) else { return };
    let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
    let mounted = |point: &Path| {
        fs::create_dir_all(point).expect("made");
        mount(Some("none"), point, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mounted");
    };
    mounted(&outer);
    mount(None::<&str>, &outer, None::<&str>, MsFlags::MS_SHARED, None::<&str>).expect("shared");
    mounted(&inner);
    let mut worker = command().stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    // The thread that serves requests is the one with the worker's own mount namespace.
    let space = |of: &Path| fs::read_link(of.join("ns/mnt")).ok();
    let own = space(Path::new("/proc/self"));
    let threads = || fs::read_dir(format!("/proc/{}/task", worker.id())).into_iter().flatten().flatten();
    let find = || threads().map(|thread| thread.path()).find(|thread| space(thread).is_some_and(|it| Some(it) != own));
    let begin = Instant::now();
    let thread = loop {
        match find() {
            Some(thread) => break thread,
            None => assert!(begin.elapsed() < Duration::from_secs(30), "the worker has no mount namespace of its own"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    thread::sleep(Duration::from_millis(300)); // until its mount propagation is set
    let inner_name = inner.to_str().expect("text");
    let has_inner = || fs::read_to_string(thread.join("mountinfo")).expect("a list").contains(inner_name);
    assert!(has_inner(), "it was there before");
    umount2(&inner, MntFlags::empty()).expect("unmounted");
    let kept = has_inner();
    worker.kill().expect("killed");
    worker.wait().expect("waited for");
    umount2(&outer, MntFlags::empty()).expect("unmounted");
    assert!(!kept, "the worker still has it");
}

/// Tests a worker that starts in a private mount namespace while a file system on a drive is
/// mounted. When other processes then unmount the file system and stop the drive, the drive must
/// disappear, although the worker is still running.
#[test]
fn a_worker_does_not_keep_other_drives_in_use() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(()) = can_mount(dir.path()) else { return };
    let private = dir.path().join("private");
    fs::create_dir(&private).expect("made");
    mount(Some("none"), &private, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mounted");
    mount(None::<&str>, &private, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>).expect("private");
    let serve = |attached| {
        let memory = Memory::new(64 << 20).expect("a device");
        let front_end = FuseLoop { work: private.clone(), attached };
        front_end.serve(Arc::new(memory), Arc::new(NoDesk)).expect("served")
    };
    let (mut own, mut other) = (serve(false), serve(true));
    // These programs must run in other processes, because they wait for the drive, and this process
    // serves it.
    let run = |program: &str, args: &[&Path]| {
        let output = Command::new(program).args(args).output().expect(program);
        assert!(output.status.success(), "{program}: {output:?}");
    };
    run("mkfs.ext4", &["-q".as_ref(), other.node()]);
    run("mount", &[other.node(), &other.mount_point()]);
    let mut worker = command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    let (image, mount_point) = (own.node().into(), own.mount_point());
    let place = StoreLocation { image, mount_point, engine: "terrace".into(), options: String::new() };
    let script = Script { seed: 1, batches: 1, size: Size::Small };
    let order = serde_json::to_string(&WorkerRequest { place, script, task: Task::Format }).expect("JSON");
    writeln!(worker.stdin.as_mut().expect("piped"), "{order}").expect("sent");
    let mut lines = BufReader::new(worker.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert_eq!(lines.find(|line| line.starts_with('{')).as_deref(), Some(r#"{"Applied":0}"#));
    let stopped = other.stop();
    worker.kill().expect("killed");
    worker.wait().expect("waited for");
    own.stop().expect("taken down");
    let is_gone = stopped.is_ok();
    other.stop().expect("taken down at last");
    umount2(&private, MntFlags::empty()).expect("unmounted");
    assert!(is_gone, "the worker still has it: {stopped:?}");
}

/// Tests that campaigns find deliberate faults. Equal seeds do not select equal crash states here,
/// because the threads of ext4 determine the requests between two flushes. If the device ignores
/// flushes, data is lost in 43 to 67 of 200 crash states. In a sample of 40 states, data may very
/// rarely be lost in only 4.
#[test]
fn intentional_faults_are_found() {
    for (name, control) in NegativeControl::ALL {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(tally) = campaign(dir.path(), "terrace:leveldb", 200, Some(control)) else { return };
        // A missing SSTable makes it impossible to open the store. An SSTable with a wrong length
        // makes some reads fail. Both violations are therefore counted as lost data.
        let lost: u64 = ["LOST", "OPEN", "READ"].iter().filter_map(|kind| tally.by_kind.get(*kind)).sum();
        let states = tally.states;
        assert!(lost > states / 10, "{name}: only {lost} of {states} states show the lost data: {tally:?}");
    }
}

/// Tests that a campaign finds the hole that LevelDB can leave in the history, and that a saved
/// crash state reproduces it. LevelDB acknowledges synced writes to the next WAL before it has
/// synced the completed WAL. A power cut in this period can therefore lose earlier writes and keep
/// these later ones. The period ends with LevelDB's compaction, and its length depends on
/// LevelDB's threads. A history may therefore show no hole; the test then continues with the next
/// history.
#[test]
fn leveldb_s_hole_is_found_and_a_saved_state_reproduces_it() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(()) = can_mount(dir.path()) else { return };
    let histories = (1..=10).map(|seed| Campaign { seed, ..plan(dir.path(), "leveldb:debian", 200, None) });
    let tally = histories.map(|history| run(&history)).find(|tally| tally.failed > 0);
    let tally = tally.expect("one of ten histories has a hole");
    assert!(tally.by_kind.contains_key("HOLE"), "{tally:?}");
    assert!(!tally.by_kind.contains_key("OPEN") && !tally.by_kind.contains_key("MOUNT"), "{tally:?}");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&tally.kept[0]).expect("read")).expect("JSON");
    let again = block::replay(&tally.kept[0], dir.path(), &command).expect("replayed");
    assert_eq!(again.err().as_deref(), kept["reason"].as_str());
}

/// Tests cleanup after a campaign whose device server is killed. The campaign's worker processes
/// must then end, and cleanup must remove all mounts and devices that are left.
#[test]
fn cleanup_removes_all_leftovers_of_a_killed_campaign() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(_) = campaign(dir.path(), "terrace:leveldb", 1, None) else { return };
    let mut killed = Command::new(env::current_exe().expect("this test"));
    killed.args(["--exact", "crash::role_of_a_campaign", "--nocapture", "--test-threads=1"]).env(CAMPAIGN, dir.path());
    let mut killed = killed.stdout(Stdio::null()).spawn().expect("started");
    let left = || fs::read_dir(dir.path()).expect("there").count();
    let begin = Instant::now();
    while left() < 3 && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300)); // until the first states are being judged
    killed.kill().expect("killed");
    killed.wait().expect("waited for");
    assert!(left() >= 3, "no leftovers of a record and stations: the kill came too early");
    let cleaned = cleanup(Some(dir.path())).expect("the machine's lists can be read");
    assert_eq!((cleaned.failed.len(), left()), (0, 0), "{cleaned:?}");
}

/// Entry point of a process that runs a long campaign. The cleanup test starts this process and
/// kills it.
#[test]
fn role_of_a_campaign() {
    if let Some(work) = env::var_os(CAMPAIGN) {
        campaign(Path::new(&work), "terrace:leveldb", 100_000, None);
    }
}
