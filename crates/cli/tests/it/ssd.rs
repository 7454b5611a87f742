//! Tests of `terrace ssd`: it must report usage errors and serve a drive as a block device. Ctrl-C
//! must remove the block device.
use crate::common;
use common::{command, terrace};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt},
    path::Path,
    process::Child,
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

/// A running server and its output.
struct Server {
    child: Child,
    said: Value,
}

impl Server {
    /// Starts `terrace ssd serve` below `work`. Returns `None` if the machine cannot serve drives.
    fn start(work: &Path, arguments: &[&str]) -> Option<Server> {
        let owner = fs::metadata("/proc/self").expect("/proc").uid();
        require("root", if owner == 0 { Ok(()) } else { Err("serving takes root") })?;
        require("loop", FuseLoop { work: work.into(), attached: true }.available())?;
        let work = work.to_str().expect("text");
        let serve = ["ssd", "serve", "--json", "--work", work];
        let mut child = command(serve.iter().chain(arguments)).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        Some(Server { child, said: serde_json::from_str(&line).expect("JSON") })
    }

    fn node(&self) -> &str {
        self.said["device"].as_str().expect("a path")
    }

    fn stats(&self) -> Value {
        let stats = fs::read_to_string(self.said["stats"].as_str().expect("a path")).expect("stats");
        serde_json::from_str(&stats).expect("JSON")
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("signalled");
        assert!(self.child.wait().expect("waited for").success());
    }
}

#[test]
fn a_served_drive_is_a_block_device_until_ctrl_c() {
    let work = tempfile::tempdir().expect("a directory");
    let Some(server) = Server::start(work.path(), &["--size=64MiB"]) else { return };
    let node = server.node().to_owned();
    assert!(fs::metadata(&node).expect("it is there").file_type().is_block_device());
    assert_eq!(server.stats()["requests"]["failed"], 0);
    server.stop();
    assert_eq!(fs::read_dir(work.path()).expect("there").count(), 0, "left behind");
    let backing = format!("/sys/block/{}/loop/backing_file", node.trim_start_matches("/dev/"));
    let work = work.path().to_str().expect("text");
    assert!(!fs::read_to_string(backing).is_ok_and(|file| file.contains(work)), "a loop device is left behind");
}

#[test]
fn a_drive_in_a_directory_keeps_data_and_counts_from_one_serving_to_the_next() {
    let (work, place) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let drive = place.path().join("drive");
    let drive = drive.to_str().expect("text");
    terrace(["ssd", "create", drive, "--profile=ssd-i", "--size=512MiB"]).ok();
    let Some(server) = Server::start(work.path(), &[drive]) else { return };
    let device = fs::OpenOptions::new().read(true).write(true).open(server.node()).expect("opened");
    device.write_all_at(&[7; 1 << 20], 8 << 20).expect("written");
    device.sync_all().expect("flushed");
    drop(device);
    let told = &server.stats()["device"]["ssd"]["terrace"];
    assert_eq!(told["host_bytes"], 1 << 20, "{told}");
    let programmed = told["nand_bytes"].as_u64().expect("a count");
    assert!(programmed > 0 && programmed < 1 << 19, "sevens compress: {told}");
    assert!(told["flushes"].as_u64().expect("a count") > 0);
    let error = terrace(["ssd", "serve", drive]).fails(1);
    assert!(error.contains("data"), "it is in use: {error}");
    server.stop();

    let server = Server::start(work.path(), &[drive]).expect("it did before");
    let mut read = vec![0; 1 << 20];
    fs::File::open(server.node()).expect("opened").read_exact_at(&mut read, 8 << 20).expect("read");
    assert!(read.iter().all(|byte| *byte == 7));
    assert_eq!(server.stats()["device"]["ssd"]["terrace"]["nand_bytes"], programmed);
    server.stop();
}
