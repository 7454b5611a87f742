//! Tests of `terrace bench`: it measures, continues after a stop, reports errors, and cleans up.
use crate::common;
use common::{command, fresh, root, terrace};
use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use terrace_device::serve::{FrontEnd, FuseLoop};
use terrace_peers::require;

/// A short benchmark whose stores and results are in `directory`.
fn small(directory: &Path, more: &[&str]) -> common::Ran {
    let device = format!("dir:{}", directory.join("device").display());
    let json = directory.join("results.jsonl");
    let fixed = ["bench", "--num", "2000", "--rounds", "2", "--disturbed-at", "100000"];
    let place = ["--device", &device, "--json", json.to_str().unwrap()];
    terrace([&fixed[..], &place, more].concat())
}

#[test]
fn engines_are_compared_and_a_second_start_measures_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("page.md"), "top\n<!-- bench:begin -->\n<!-- bench:end -->\nbottom\n").unwrap();
    let (markdown, page, csv) = (file("table.md"), file("page.md"), file("rows.csv"));
    let outputs = ["--markdown", &markdown, "--markdown-into", &page, "--csv", &csv];
    let engines = ["--engine", "terrace,terrace:volatile", "--workload", "fillrandom,readrandom"];
    let ran = small(directory.path(), &[&engines[..], &outputs].concat());
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("round ")).count(), 2 * 2 * 2, "{}", ran.err);
    let table = String::from_utf8(ran.ok()).unwrap();
    for part in ["fillrandom", "terrace:volatile", "× terrace", "Indicative only", "Settings:", "Builds:"] {
        assert!(table.contains(part), "{part}: {table}");
    }

    let rows = fs::read_to_string(file("results.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 2 * 2 * 2);
    for line in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (row["engine"].as_str(), row["ops"].as_u64(), row["error"].is_null()),
            (Some("terrace"), Some(2000), true)
        );
        assert!(row["bytes"]["nand"].is_null() && row["micros_per_op"].as_f64().unwrap() > 0.0, "{line}");
    }
    assert!(fs::read_to_string(&markdown).unwrap().contains("| fillrandom | terrace |"));
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("top\n") && page.ends_with("bottom\n") && page.contains("| readrandom | terrace |"));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 1 + 8);
    assert_eq!(fs::read_dir(directory.path().join("device")).unwrap().count(), 0, "stores are removed");

    let again = small(directory.path(), &engines);
    assert!(!again.err.contains("round "), "{}", again.err);
    assert_eq!(String::from_utf8(again.ok()).unwrap(), table);
    let more = small(directory.path(), &[&engines[..], &["--rounds", "3"]].concat());
    assert_eq!(more.status, 2, "an option given twice: {}", more.err);
    let other = small(directory.path(), &[&engines[..], &["--value-size", "7"]].concat());
    assert_eq!(other.err.matches("round ").count(), 8, "other terms are another plan");
}

/// Tests the option `--fresh`: rows that are measured again must replace the old ones, even if the
/// run is stopped. Rows of engines that are not measured must stay.
#[test]
fn fresh_forgets_what_it_measures_anew_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let rows = || -> Vec<(String, u64, String)> {
        let text = fs::read_to_string(directory.path().join("results.jsonl")).unwrap();
        let row = |line| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        let told = |row: serde_json::Value| {
            (row["name"].as_str().unwrap().into(), row["round"].as_u64().unwrap(), row["driver"].to_string())
        };
        text.lines().map(row).map(told).collect()
    };
    let fixed = ["--workload", "fillseq", "--engine"];
    small(directory.path(), &[&fixed[..], &["terrace,null"]].concat()).ok();
    let before = rows();
    assert_eq!(before.len(), 4);
    let of = |rows: &[(String, u64, String)], name: &str| -> Vec<_> {
        rows.iter().filter(|row| row.0 == name).cloned().collect()
    };
    let again = small(directory.path(), &[&fixed[..], &["null", "--fresh"]].concat());
    assert_eq!(again.err.matches("round ").count(), 2, "{}", again.err);
    let after = rows();
    assert_eq!((after.len(), of(&after, "terrace")), (4, of(&before, "terrace")), "the other engine's stay");
    assert_ne!(of(&after, "null"), of(&before, "null"), "they were measured anew");
    let ran = small(directory.path(), &[&fixed[..], &["terrace,null"]].concat());
    assert!(!ran.err.contains("round "), "nothing is missing: {}", ran.err);
}

#[test]
fn on_a_virtual_ssd_flash_is_counted_and_nothing_is_left() {
    let Some(()) = root("a virtual SSD takes root") else { return };
    let work = tempfile::tempdir().unwrap();
    let Some(()) = require("loop", FuseLoop { work: work.path().into(), attached: true }.available()) else { return };
    let place = tempfile::tempdir().unwrap();
    let (profile, json) = (place.path().join("small.toml"), place.path().join("results.jsonl"));
    fs::write(&profile, "name = \"small\"\ncapacity_bytes = 134217728\npages_per_block = 32\n").unwrap();
    let device = format!("vssd:{}:steady", profile.display());
    let fixed = ["bench", "--workload", "fillrandom", "--engine", "terrace", "--num", "30000", "--value-size", "400"];
    let sizes = ["--write-buffer-size", "1MiB", "--rounds", "1", "--disturbed-at", "100000", "--device", &device];
    let outputs = ["--work", work.path().to_str().unwrap(), "--json", json.to_str().unwrap()];
    terrace([&fixed[..], &sizes, &outputs].concat()).ok();
    let row: serde_json::Value = serde_json::from_str(fs::read_to_string(&json).unwrap().trim()).unwrap();
    assert!(row["error"].is_null(), "{row}");
    let (nand, device) = (row["bytes"]["nand"].as_u64().unwrap(), row["bytes"]["device"].as_u64().unwrap());
    assert!(device > 10 << 20 && nand as f64 > 1.3 * device as f64, "{nand} of {device}: the drive was full before");
    let wa2 = row["wa"]["wa2"].as_f64().unwrap();
    assert!((wa2 * device as f64 / nand as f64 - 1.0).abs() < 1e-12, "{wa2}: {nand} of {device}");
    let drive = row["bytes"]["drive"].as_u64().unwrap();
    assert!(drive.abs_diff(device) <= device / 1000, "the drive was told {drive} B, the kernel wrote {device} B");
    let causes = row["bytes"]["nand_by_cause"].as_object().unwrap();
    let of = |cause: &str| causes[cause].as_u64().unwrap();
    assert_eq!(of("host") + of("gc") + of("wear_levelling") + of("padding"), nand, "{causes:?}");
    assert!(of("gc") > device / 10 && of("host") > device / 4, "{causes:?}: the drive was full before");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "left behind");
}

/// Tests that a result row includes the count of journal commits if the ext4 file system has a
/// journal, and does not include it otherwise.
#[test]
fn an_ext4_has_a_journal_unless_none_is_asked_for() {
    let Some(()) = root("a device takes root") else { return };
    let work = tempfile::tempdir().unwrap();
    let Some(()) = require("loop", FuseLoop { work: work.path().into(), attached: true }.available()) else { return };
    for (device, has_journal) in [
        ("loop:64MiB", true),
        ("loop:64MiB:nojournal", false),
        ("memory:64MiB", true),
        ("memory:64MiB:nojournal", false),
    ] {
        let json = work.path().join(format!("{device}.jsonl"));
        let fixed =
            ["bench", "--workload", "fillsync", "--engine", "terrace:leveldb", "--num", "3000", "--rounds", "1"];
        let place = ["--disturbed-at", "100000", "--device", device, "--work", work.path().to_str().unwrap()];
        terrace([&fixed[..], &place, &["--json", json.to_str().unwrap()]].concat()).ok();
        let row: serde_json::Value = serde_json::from_str(fs::read_to_string(&json).unwrap().trim()).unwrap();
        assert_eq!(row["journal_commits"].as_u64().is_some(), has_journal, "{device}: {row}");
        assert!(row["bytes"]["device"].as_u64() > Some(0) && row["error"].is_null(), "{device}: {row}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    for (arguments, words) in [
        (&["--workload", "fillrandum"][..], &["fillrandum", "fillrandom"][..]),
        (&["--engine", "terrace:fast"], &["terrace:fast", "terrace:volatile", "leveldb"]),
        (&["--engine", "terrace:leveldb+speed=high"], &["unknown option speed", "there are "]),
        (&["--engine", "terrace,terrace"], &["terrace is listed twice"]),
        (&["--cache-size", "8XB"], &["8XB", "MiB"]),
        (&["--compression", "brotli"], &["brotli", "zstd"]),
        (&["--l0-triggers", "4,8"], &["4,8", "START,SLOW,STOP"]),
        (&["--num", "0"], &["num"]),
        (&["--key-size", "2"], &["key size"]),
        (&["--markdown-into", "/dev/null"], &["bench:begin"]),
        (&["--fresh"], &["--json"]),
        (&["--json", "/proc"], &["--json", "/proc"]),
        (&["--csv", "/nowhere/rows.csv"], &["--csv", "/nowhere"]),
    ] {
        let error = terrace([&["bench"], arguments].concat()).fails(2);
        words.iter().for_each(|word| assert!(error.contains(word), "{arguments:?}: {error}"));
    }
    let (_directory, place) = fresh();
    fs::create_dir(&place).unwrap();
    fs::write(place.join("thesis.txt"), "mine").unwrap();
    let device = format!("dir:{}", place.display());
    for (device, word) in [(device.as_str(), "thesis.txt"), ("disk:/x", "loop:SIZE"), ("loop:1MB", "1MB")] {
        let error = terrace(["bench", "--device", device]).fails(2);
        assert!(error.contains("--device") && error.contains(word), "{device}: {error}");
    }
    assert_eq!(fs::read_to_string(place.join("thesis.txt")).unwrap(), "mine");
}

#[test]
fn a_cell_that_fails_is_a_row_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--engine", "terrace,null", "--workload", "fillseq,fillbatch", "--timeout", "0"];
    let ran = small(directory.path(), &more);
    assert_eq!(ran.status, 1, "{}", ran.err);
    let table = String::from_utf8(ran.out).unwrap();
    assert!(table.contains("terrace: fillseq in round 1: the cell took longer than 0 s"), "{table}");
    assert!(table.contains("null: fillseq in round 1:") && table.contains("failed, see below"), "{table}");
}

#[test]
fn an_engine_that_is_not_compiled_in_is_a_row_and_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let ran = small(directory.path(), &["--engine", "terrace,redb", "--workload", "fillseq"]);
    let table = String::from_utf8(ran.ok()).unwrap();
    let how = "`cargo build --release -p terrace-cli --features redb`";
    assert_eq!(table.contains(how), cfg!(not(feature = "redb")), "{table}");
    assert!(table.contains("\n  redb"), "{table}");
}

#[test]
fn lists_tell_what_there_is() {
    let text = |what| String::from_utf8(terrace(["bench", "--list", what]).ok()).unwrap();
    assert!(text("workloads").contains("fillrandom ") && text("workloads").contains("ycsb-a"));
    for engine in ["terrace:volatile", "rocksdb", "fjall", "redb"] {
        assert!(text("engines").contains(engine), "{engine}");
    }
}

/// Tests a run that is stopped by SIGTERM or SIGKILL. In both cases, the process of the cell (one
/// engine in one round) must end with its run. After SIGTERM the run must also remove its store.
/// After SIGKILL the next run must remove it.
#[test]
fn a_stopped_run_leaves_no_process_and_no_store() {
    for (signal, polite) in [("TERM", true), ("KILL", false)] {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().to_str().unwrap();
        let mut run =
            command(["bench", "--num", "20000000", "--engine", "terrace:volatile", "--work", work]).spawn().unwrap();
        let cell = wait_for(|| children(run.id()).pop());
        wait_for(|| {
            Path::new(&fs::read_dir(work).ok()?.next()?.ok()?.path()).join("store/store/CURRENT").exists().then_some(())
        });
        Command::new("kill").args([&format!("-{signal}"), &run.id().to_string()]).status().unwrap();
        let status = run.wait().unwrap();
        wait_for(|| (!Path::new(&format!("/proc/{cell}")).exists()).then_some(()));
        if polite {
            assert_eq!(status.code(), Some(1));
            assert_eq!(fs::read_dir(work).unwrap().count(), 0, "the store is gone");
        } else {
            let next = ["bench", "--num", "10", "--rounds", "1", "--engine", "null", "--workload", "fillseq"];
            terrace(next.iter().chain(&["--work", work])).ok();
            assert_eq!(fs::read_dir(work).unwrap().count(), 0, "the next run removes it");
        }
    }
}

/// Calls `look` repeatedly, for up to a minute, until it returns a value.
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "a minute is over");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the child processes of `pid`. The parent's id is field 4 of /proc/PID/stat.
fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent = |child: u32| -> Option<u32> {
        fs::read_to_string(format!("/proc/{child}/stat")).ok()?.rsplit_once(')')?.1.split(' ').nth(2)?.parse().ok()
    };
    all.filter(|&child| parent(child) == Some(pid)).collect()
}

/// Tests that engines for raw devices and engines on ext4 can share one device. All their bytes
/// must be counted, and nothing may be left on the machine afterwards.
#[test]
fn engines_without_a_file_system_have_the_bare_device() {
    let Some(()) = root("a loop device takes root") else { return };
    let work = tempfile::tempdir().unwrap();
    let Some(()) = require("loop", FuseLoop { work: work.path().into(), attached: true }.available()) else { return };
    let json = work.path().join("results.jsonl");
    let engines = "terrace:leveldb,terrace:leveldb-raw,terrace:lds,terrace:device";
    let fixed =
        ["bench", "--workload", "fillsync,readrandom", "--engine", engines, "--num", "3000", "--value-size", "400"];
    let sizes =
        ["--write-buffer-size", "64KiB", "--max-file-size", "64KiB", "--rounds", "1", "--disturbed-at", "100000"];
    let place = ["--device", "loop:256MiB", "--work", work.path().to_str().unwrap(), "--json", json.to_str().unwrap()];
    terrace([&fixed[..], &sizes, &place].concat()).ok();
    let rows = fs::read_to_string(&json).unwrap();
    let row = |engine: &str| -> serde_json::Value {
        let rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut rows = rows.filter(|row| row["name"] == engine);
        let row = rows.find(|row| row["workload"] == "fillsync").unwrap_or_else(|| panic!("{engine} has no row"));
        assert!(row["error"].is_null(), "{row}");
        row
    };
    let bytes = |engine: &str| row(engine)["bytes"]["device"].as_u64().expect("it is counted");
    for engine in ["terrace:leveldb-raw", "terrace:lds", "terrace:device"] {
        let user = row(engine)["bytes"]["user"].as_u64().unwrap();
        assert!(
            bytes(engine) > user && bytes(engine) < bytes("terrace:leveldb"),
            "{engine}: {} of {user}",
            bytes(engine)
        );
    }
    let names: Vec<_> = fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["results.jsonl"]);
}
