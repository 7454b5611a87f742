//! `terrace ssd`: wrong usage is named, a served drive is a block device, and Ctrl-C takes it down.
mod common;

use common::{command, terrace};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{FileTypeExt, MetadataExt},
};
use terrace_device::serve::{FrontEnd, FuseLoop};
use terrace_peers::require;

#[test]
fn a_size_that_no_drive_has_is_wrong_usage() {
    for size in ["0", "5000", "5XB", "-1"] {
        let error = terrace(["ssd", "serve", &format!("--size={size}")]).fails(2);
        assert!(error.contains("--size") && error.contains(size), "{error}");
    }
}

#[test]
fn there_may_be_nothing_to_clean_up() {
    let work = tempfile::tempdir().expect("a directory");
    let said = terrace(["ssd", "cleanup", "--json", "--work", work.path().to_str().expect("text")]).ok();
    assert_eq!(String::from_utf8_lossy(&said), "{\"failed\":[],\"removed\":[],\"running\":[]}\n");
}

#[test]
fn a_served_drive_is_a_block_device_until_ctrl_c() {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    let Some(()) = require("root", if owner == 0 { Ok(()) } else { Err("serving takes root") }) else { return };
    let work = tempfile::tempdir().expect("a directory");
    let machine = FuseLoop { work: work.path().into(), attached: true }.available();
    let Some(()) = require("loop", machine) else { return };
    let work = work.path().to_str().expect("text");
    let mut server = command(["ssd", "serve", "--json", "--size=64MiB", "--work", work]).spawn().expect("it starts");
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("a line");
    let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let node = said["device"].as_str().expect("a path");
    assert!(fs::metadata(node).expect("it is there").file_type().is_block_device());
    let stats = fs::read_to_string(said["stats"].as_str().expect("a path")).expect("stats");
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["requests"]["failed"], 0);
    kill(Pid::from_raw(server.id() as i32), Signal::SIGINT).expect("signalled");
    assert!(server.wait().expect("waited for").success());
    assert_eq!(fs::read_dir(work).expect("there").count(), 0, "left behind");
    let backing = format!("/sys/block/{}/loop/backing_file", node.trim_start_matches("/dev/"));
    assert!(!fs::read_to_string(backing).is_ok_and(|file| file.contains(work)), "a loop device is left behind");
}
