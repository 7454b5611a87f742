//! Tests of `terrace crash`: it must report usage errors, count the crash states of a campaign,
//! keep failing crash states and replay them.
use crate::common;
use common::terrace;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use terrace_device::serve::{FrontEnd, FuseLoop};
use terrace_peers::{leveldb::Library, require};

#[test]
fn what_cannot_be_is_wrong_usage_and_named() {
    for (flag, value) in
        [("--engine", "bogus"), ("--engine", "terrace:volatile"), ("--control", "bogus"), ("--states", "0")]
    {
        let error = terrace(["crash", flag, value]).fails(2);
        assert!(error.contains(flag) && error.contains(value), "{error}");
    }
}

#[test]
fn the_seam_needs_no_root_and_knows_no_devices() {
    let said = terrace(["crash", "--level", "seam", "--states", "3000", "--json"]).ok();
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!((&said["states"], &said["failed"]), (&3000.into(), &0.into()), "{said}");
    assert!(said["events"].is_null() && said["batches"].is_null(), "nothing is recorded: {said}");
    let said = terrace(["crash", "--level", "seam", "--states", "3000", "--control", "unsynced"]).ok();
    assert!(String::from_utf8_lossy(&said).contains("LOST"));
    for (flag, value) in [("--engine", "leveldb"), ("--control", "no-barrier"), ("--states", "0")] {
        let error = terrace(["crash", "--level=seam", flag, value]).fails(2);
        assert!(error.contains(flag), "{error}");
    }
}

/// Returns a directory for campaigns. Returns `None` if the machine cannot run campaigns.
fn ground() -> Option<(tempfile::TempDir, PathBuf)> {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    require("root", if owner == 0 { Ok(()) } else { Err("mounting a file system takes root") })?;
    let dir = tempfile::tempdir().expect("a directory");
    require("loop", FuseLoop { work: dir.path().into(), attached: false }.available())?;
    let path = dir.path().to_owned();
    Some((dir, path))
}

fn crash(dir: &Path, more: &[&str]) -> common::Ran {
    let (work, keep) = (dir.join("work"), dir.join("kept"));
    let places = ["--work", work.to_str().expect("text"), "--keep", keep.to_str().expect("text")];
    terrace([&["crash"], &places[..], more].concat())
}

#[test]
fn a_store_that_keeps_the_contract_ends_well_and_a_control_is_found() {
    let Some((_dir, dir)) = ground() else { return };
    let said = crash(&dir, &["--states", "20", "--batches", "200", "--json"]).ok();
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!((&said["states"], &said["failed"]), (&20.into(), &0.into()), "{said}");
    assert!(
        said["subsets_judged"].as_u64() > Some(5) && said["subsets"].as_u64() > said["subsets_judged"].as_u64(),
        "{said}"
    );
    assert!(!dir.join("kept").exists(), "nothing failed that should not");
    let said = crash(&dir, &["--states", "20", "--batches", "200", "--control", "unsynced"]).ok();
    let said = String::from_utf8_lossy(&said);
    let file =
        said.lines().find_map(|line| line.strip_prefix("replay: terrace crash --replay ")).expect("a kept state");
    let error = crash(&dir, &["--replay", file]).fails(1);
    assert!(said.contains("LOST") && error.contains("LOST"), "{said}{error}");
    assert_eq!(fs::read_dir(dir.join("work")).expect("there").count(), 0, "left behind");
}

/// Tests that the command of an interrupted campaign does not exit with success.
#[test]
fn a_campaign_that_is_broken_off_does_not_end_well() {
    let mut campaign = Command::new(env!("CARGO_BIN_EXE_terrace"));
    campaign.args(["crash", "--level", "seam", "--seconds", "600"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let campaign = campaign.spawn().expect("started");
    let begin = Instant::now();
    // Wait until the campaign handles signals.
    let listens = || {
        let status = fs::read_to_string(format!("/proc/{}/status", campaign.id())).expect("it runs");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a set of signals");
        u64::from_str_radix(blocked.trim(), 16).expect("a number") != 0
    };
    while !listens() && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(10));
    }
    let told = Command::new("kill").args(["-INT", &campaign.id().to_string()]).status();
    assert!(told.expect("kill").success());
    let output = campaign.wait_with_output().expect("waited for");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("stopped after"), "{:?} {error}", output.status);
}

#[test]
fn a_failing_state_is_kept_and_its_command_shows_it_again() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let Some((_dir, dir)) = ground() else { return };
    let ran = crash(&dir, &["--engine", "leveldb:debian", "--states", "200"]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    let text = String::from_utf8(ran.out).expect("text");
    let file = text.lines().find_map(|line| line.strip_prefix("replay: terrace crash --replay ")).expect("a file");
    let error = crash(&dir, &["--replay", file]).fails(1);
    assert!(error.contains("HOLE"), "{error}");

    let mut files = fs::read_dir(dir.join("kept")).expect("kept").flatten().map(|entry| entry.path());
    let record = files.find(|path| path.extension().is_some_and(|extension| extension == "record")).expect("a record");
    let mut bytes = fs::read(&record).expect("read");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&record, bytes).expect("written");
    let error = crash(&dir, &["--replay", file]).fails(1);
    assert!(error.contains("damaged") && error.contains(record.to_str().expect("text")), "{error}");
    let error = crash(&dir, &["--replay", record.to_str().expect("text")]).fails(1);
    assert!(error.contains(record.to_str().expect("text")), "{error}");
}
