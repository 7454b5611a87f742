//! The crash laboratory below a real ext4: our engine keeps the contract, and whatever is broken on purpose is found. Needs
//! root, FUSE and loop devices.
use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use terrace_device::serve::{FrontEnd, FuseLoop, cleanup};
use terrace_lab::{
    crash::{Campaign, Control, Tally, block, worker},
    target::Engine,
};
use terrace_peers::{leveldb::Library, require};

const CAMPAIGN: &str = "TERRACE_TEST_CRASH_CAMPAIGN";
const ROLE: &str = "TERRACE_TEST_CRASH_WORKER";

/// The worker: mounts and judges.
#[test]
fn role_of_a_worker() {
    if env::var_os(ROLE).is_some() {
        println!(); // the harness has begun a line
        worker::serve(&mut std::io::stdout(), &find).expect("a worker");
    }
}

fn find(name: &str) -> anyhow::Result<Box<dyn Engine>> {
    terrace_peers::lab::engine(name).map_or_else(|| terrace_lab::engines::engine(name), Ok)
}

fn command() -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "role_of_a_worker", "--nocapture", "--test-threads=1"]).env(ROLE, "1");
    command
}

/// A campaign of so many states; `None` on a machine that cannot.
fn campaign(work: &Path, engine: &str, states: u64, control: Option<Control>) -> Option<Tally> {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    require("root", if owner == 0 { Ok(()) } else { Err("mounting a file system takes root") })?;
    require("loop", FuseLoop { work: work.into(), attached: true }.available())?;
    let campaign = Campaign {
        engine: engine.into(),
        seed: 1,
        batches: 500,
        states: Some(states),
        time: None,
        workers: 4,
        control,
        work: work.into(),
        keep: Some(work.join("kept")),
    };
    let tally = block::run(&campaign, &command, &mut |_| true).expect("the campaign runs");
    println!("{engine} {control:?}: {tally:?}");
    assert_eq!(tally.states, states);
    Some(tally)
}

#[test]
fn terrace_keeps_the_contract() {
    for engine in ["terrace:leveldb", "terrace:terrace-block"] {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(tally) = campaign(dir.path(), engine, 100, None) else { return };
        assert_eq!(tally.failed, 0, "ORACLE: {engine}: {tally:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "left behind");
    }
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (name, control) in Control::ALL {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(tally) = campaign(dir.path(), "terrace:leveldb", 40, Some(control)) else { return };
        let lost = tally.by_kind.get("LOST").copied().unwrap_or(0);
        assert!(
            lost > 4,
            "{name}: what was promised is gone, and only {lost} of {} states say so: {tally:?}",
            tally.states
        );
    }
}

/// LevelDB does not sync a log that it has finished before it acknowledges synced writes in the next one.
#[test]
fn leveldb_s_hole_is_found_and_a_kept_state_shows_it_again() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tally) = campaign(dir.path(), "leveldb:debian", 100, None) else { return };
    assert!(tally.by_kind.contains_key("HOLE"), "{tally:?}");
    assert!(!tally.by_kind.contains_key("OPEN") && !tally.by_kind.contains_key("MOUNT"), "{tally:?}");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&tally.kept[0]).expect("read")).expect("JSON");
    let again = block::replay(&tally.kept[0], dir.path(), &command).expect("replayed");
    assert_eq!(again.err().as_deref(), kept["reason"].as_str());
}

/// Whoever serves is killed in the midst: its workers end, and cleanup finds all of it.
#[test]
fn a_killed_campaign_leaves_nothing_that_cleanup_does_not_remove() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(_) = campaign(dir.path(), "terrace:leveldb", 1, None) else { return };
    let mut killed = Command::new(env::current_exe().expect("this test"));
    killed.args(["--exact", "role_of_a_campaign", "--nocapture", "--test-threads=1"]).env(CAMPAIGN, dir.path());
    let mut killed = killed.stdout(Stdio::null()).spawn().expect("started");
    let left = || fs::read_dir(dir.path()).expect("there").count();
    let begin = Instant::now();
    while left() < 3 && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300)); // into the first states
    killed.kill().expect("killed");
    killed.wait().expect("waited for");
    assert!(left() >= 3, "a record and stations are left behind, or the kill came too early");
    let cleaned = cleanup(Some(dir.path())).expect("the machine's lists can be read");
    assert_eq!((cleaned.failed.len(), left()), (0, 0), "{cleaned:?}");
}

/// Runs a long campaign.
#[test]
fn role_of_a_campaign() {
    if let Some(work) = env::var_os(CAMPAIGN) {
        campaign(Path::new(&work), "terrace:leveldb", 100_000, None);
    }
}
