//! Tests of `terrace study`: it must measure, check the expectations of an experiment, continue
//! after a stop, write reports, and report errors with line and field.
use crate::common;
use common::{Ran, command, root, terrace};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use terrace_device::serve::{FrontEnd, FuseLoop};
use terrace_peers::require;

/// A short experiment. Its preset `l2sm` does not exist, so the cells with this preset are
/// pending.
const SMALL: &str = r#"
title = "Small & <quick>"
source = "ours"
question = "Does it work?"
scaling = "Everything shrinks."
engines = ["terrace:leveldb", "terrace:volatile", "terrace:l2sm"]
workloads = ["fillrandom", "readrandom"]

[load]
num = 20_000

[device]
kind = "temporary"

[scale]
default = 0.1
with = ["load"]

[[sweep]]
set = "load.value_size"
to = ["100B", "1KiB", "2KiB"]

[[plot]]
y = "micros"
x = "value_size"
log = true

[[plot]]
y = "wa_engine"

[[compare]]
what = "a figure of the paper"
here = "wa_engine(terrace:leveldb, workload=fillrandom, value_size=1KiB)"
paper = "noblsm.motivation.async_to_sync_time_ratio"
why = "another store"

[[expect]]
that = "wa_engine(terrace:leveldb, workload=fillrandom) >= 1"
because = "the log is written"

[[expect]]
that = "wa_engine(terrace:leveldb, workload=fillrandom, value_size=1KiB) < 0"
because = "nobody says so"
otherwise = "of course it does not"

[[expect]]
that = "wa1(terrace:leveldb, workload=fillrandom) > 1 + wa1(terrace:l2sm, workload=fillrandom)"
because = "no device is counted"
"#;

/// A directory with the experiment. All studies on a machine share one lock. For these tests the
/// lock is named after the directory, so that they do not exclude each other.
struct Place(TempDir);

impl Place {
    fn new(text: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.file("small.toml"), text).unwrap();
        fs::create_dir(place.file("work")).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Directory of the results.
    fn out(&self) -> String {
        self.file("out").to_str().unwrap().to_owned()
    }

    fn command(&self, more: &[&str]) -> Command {
        let path = |name: &str| self.file(name).to_str().unwrap().to_owned();
        let (experiment, out) = (path("small.toml"), path("out"));
        let fixed = ["study", "run", &experiment, "--out", &out, "--disturbed-at", "100000", "--lock", &experiment];
        let mut command = command(fixed.iter().chain(more));
        command.env("TMPDIR", self.file("work"));
        command
    }

    fn run(&self, more: &[&str]) -> Ran {
        let output = self.command(more).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ran { status: output.status.code().unwrap(), out: output.stdout, err }
    }

    fn report(&self) -> String {
        terrace(["study", "report", &self.out()]).ok();
        fs::read_to_string(self.file("out/report.html")).unwrap()
    }
}

#[test]
fn an_experiment_is_measured_judged_and_shown() {
    let place = Place::new(SMALL);
    let ran = place.run(&[]);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("round ")).count(), 3 * 2 * 2, "{}", ran.err);
    let text = String::from_utf8(ran.ok()).unwrap();
    for part in [
        "✓ wa_engine(terrace:leveldb, workload=fillrandom) >= 1  holds",
        "✗ wa_engine(terrace:leveldb, workload=fillrandom, value_size=1KiB) < 0  does not hold",
        "of course it does not",
        "a figure of the paper, where it differs: another store",
        "1 round: times are indicative, a claim needs 9",
        "micros ~ value_size^k",
        "· wa1(terrace:leveldb, workload=fillrandom) > 1 + wa1(terrace:l2sm, workload=fillrandom)  pending",
        "a figure of the paper",
        "13.0",
        "pending: terrace:l2sm",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let rows = fs::read_to_string(place.file("out/small/rows.jsonl")).unwrap();
    assert!(rows.lines().count() == 12 && !rows.contains("l2sm"), "what is pending has no row");

    let (told, reported) = (place.run(&["--json"]).ok(), terrace(["study", "report", "--json", &place.out()]).ok());
    assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(&reported));
    check_json(&serde_json::from_slice(&told).expect("one object"));

    let html = place.report();
    let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("://") && !html.contains("<script"), "it needs nothing from elsewhere");
    assert!(html.contains("<h2>Small &amp; &lt;quick&gt;</h2>") && html.contains("class=\"broken\""), "{html}");
    assert_eq!(html.matches("<svg class=\"cascade\"").count(), 2, "one for each engine that ran");
    assert!(html.contains("Growth") && html.contains("value_size in bytes"), "{html}");
    // The report has these plots: for each row, one along the sweep; for each row and each value,
    // one that compares the engines by this figure; for each row, two over time.
    let over_time = 2 * 2;
    assert_eq!(html.matches("class=\"plot\"").count(), 2 + 3 + over_time);
    assert_eq!(html.matches("\nseconds since the start\n").count(), over_time, "throughput and latencies of each row");
    let markdown = fs::read_to_string(place.file("out/report.md")).unwrap();
    assert!(markdown.contains("**does not hold:**") && markdown.contains("pending"), "{markdown}");
    let csv = fs::read_to_string(place.file("out/small/rows.csv")).unwrap();
    assert!(csv.starts_with("at_value_size,engine,") && csv.lines().count() == 1 + 12, "{csv}");
    let csv = fs::read_to_string(place.file("out/small/over-time.csv")).unwrap();
    assert!(
        csv.starts_with("at_value_size,engine,workload,round,step,from_seconds,") && csv.lines().count() > 12,
        "{csv}"
    );

    let again = place.run(&[]);
    assert!(!again.err.contains("round "), "all is there: {}", again.err);
    assert_eq!(String::from_utf8(again.ok()).unwrap(), text);
    assert_eq!(place.run(&["--scale", "0.05"]).err.matches("round ").count(), 12, "another size is another run");
}

/// Checks the JSON output of the small experiment.
fn check_json(told: &Value) {
    assert_eq!((&told["name"], &told["scale"], &told["rounds"]), (&json!("small"), &json!(0.1), &json!(1)));
    assert!(told["pending"]["terrace:l2sm"].is_string(), "{told}");
    let entries = told["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 12);
    for entry in entries {
        let micros = &entry["figures"]["micros"];
        assert!(
            micros["median"].as_f64().unwrap() > 0.0 && micros["low"].is_null() && micros["rounds"] == 1,
            "{entry}"
        );
        assert!(entry["figures"].get("wa1").is_none() && entry["at"]["value_size"].is_string(), "{entry}");
    }
    assert_eq!(told["exponents"].as_array().unwrap().len(), 4, "rows and engines");
    let compared = &told["compared"][0];
    assert_eq!((&compared["paper"], &compared["why"]), (&json!(13.0), &json!("another store")), "{compared}");
    assert!(compared["here"].as_f64().unwrap() > 0.0 && compared["missing"].is_null(), "{compared}");
    let outcomes = told["expectations"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["held", "broken", "pending"]);
    let case = &told["expectations"][1]["cases"][0];
    assert!(case["left"].as_f64().unwrap() > 1.0 && case["right"] == 0.0 && case["holds"] == false, "{case}");
    assert!(told["expectations"][2]["cases"][0]["missing"].as_str().unwrap().contains("wa1 of terrace:leveldb"));
}

#[test]
fn what_is_wrong_is_refused_by_line_and_name() {
    for (old, new, words) in [
        ("fillrandom\", ", "fillrandum\", ", &["line 7", "fillrandum"][..]),
        ("terrace:volatile", "terrace:fast", &["small.toml:6", "terrace:fast", "there are"]),
        ("num = 20_000", "numb = 20_000", &["line 10", "numb"]),
        ("\"temporary\"", "\"vssd\"\nprofile = \"ssd-s\"\nsize = \"1XB\"", &["line 15", "1XB", "MiB"]),
        (
            "\"temporary\"",
            "\"vssd\"\nprofile = \"ssd-s\"\nsize = \"1KiB\"",
            &["small.toml:15", "device.size", "capacity_bytes"],
        ),
        ("\"2KiB\"", "\"2XB\"", &["small.toml:20", "2XB"]),
    ] {
        let ran = Place::new(&SMALL.replacen(old, new, 1)).run(&[]);
        let error = ran.fails(2);
        words.iter().for_each(|word| assert!(error.contains(word), "{new}: {word} is not in {error}"));
    }
    assert!(terrace(["study", "run", "noblsm-table-7"]).fails(2).contains("study list"));
    assert!(terrace(["study", "run", "/nowhere/x.toml"]).fails(2).contains("/nowhere/x.toml"));
    assert!(Place::new(SMALL).run(&["--scale", "0"]).fails(2).contains("--scale"));
    let empty = tempfile::tempdir().unwrap();
    assert!(terrace(["study", "report", empty.path().to_str().unwrap()]).fails(1).contains("no run"));
}

/// Tests that `--device` puts the stores on another device than the experiment's file says. An
/// experiment that compares devices must be refused with this option.
#[test]
fn a_given_device_takes_the_place_of_what_the_file_says() {
    let place = Place::new(&SMALL.replace("\"temporary\"", "\"loop\"\nsize = \"1GiB\""));
    let stores = place.file("stores");
    fs::create_dir(&stores).unwrap();
    let device = format!("dir:{}", stores.display());
    place.run(&["--device", &device]).ok();
    let report = place.report();
    assert!(report.contains(&device) && !report.contains("loop:1024MiB"), "the report says where");
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 0, "it is left empty, and left");
    assert!(!place.run(&["--device", &device]).err.contains("round "), "all is there");
    fs::write(stores.join("mine"), "x").unwrap();
    assert!(place.run(&["--device", &device]).fails(2).contains("--destroy-data"));
    place.run(&["--device", &device, "--destroy-data", "--scale", "0.05"]).ok();
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 1, "what is not the store's stays");
    assert!(place.run(&["--device", "tape:0"]).fails(2).contains("--device: tape:0"));
    let compares = SMALL.replace("load.value_size", "device.size").replace(", value_size=1KiB", "");
    let compares = compares
        .replace("\"temporary\"", "\"loop\"\nsize = \"1GiB\"")
        .replace("\"100B\", \"1KiB\", \"2KiB\"", "\"1GiB\", \"2GiB\"");
    let compares = Place::new(&compares.replace("x = \"value_size\"\nlog = true", ""));
    assert!(compares.run(&["--device", &device, "--destroy-data"]).fails(2).contains("compares devices (device.size)"));
}

/// Tests that a second study is refused while one is running, and that the next run continues a
/// study that was killed.
#[test]
fn a_killed_study_goes_on_and_two_do_not_run_at_once() {
    let place = Place::new(&SMALL.replace("num = 20_000", "num = 400_000"));
    let mut first = place.command(&[]).spawn().unwrap();
    let rows = || fs::read_to_string(place.file("out/small/rows.jsonl")).unwrap_or_default().lines().count();
    let end = Instant::now() + Duration::from_secs(120);
    while rows() < 2 {
        assert!(Instant::now() < end && first.try_wait().unwrap().is_none(), "no row in two minutes");
        thread::sleep(Duration::from_millis(10));
    }
    let error = place.run(&[]).fails(1);
    assert!(error.contains(&format!("process {}", first.id())), "{error}");
    first.kill().unwrap();
    first.wait().unwrap();
    let kept = rows();
    assert!((2..12).contains(&kept), "{kept}: it was stopped in the middle");
    let ran = place.run(&[]);
    let measured = ran.err.matches("round ").count();
    ran.ok();
    assert!(measured <= 12 - kept / 2 * 2, "{measured} measured though {kept} were there");
}

/// A file system in memory, which is unmounted when the value is dropped.
struct Memory(PathBuf);

impl Memory {
    fn mount(at: PathBuf, options: &str) -> Memory {
        fs::create_dir(&at).unwrap();
        let mounted = Memory(at);
        mounted.resize(options);
        mounted
    }

    /// Mounts the file system, or changes its mount options.
    fn resize(&self, options: &str) {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&self.0).status();
        assert!(mounted.unwrap().success(), "{options}");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Tests a study without space for results. The run must end with an error that names the file.
/// Existing rows must stay, and the next run must continue after them.
#[test]
fn a_full_disk_of_results_loses_only_the_cell_in_progress() {
    let Some(()) = root("mounts and loop devices take root") else { return };
    let place = Place::new(SMALL);
    let memory = Memory::mount(place.file("out"), "size=32k");
    let error = place.run(&[]).fails(1);
    assert!(error.contains("small/rows.jsonl") && error.contains("No space left"), "{error}");
    let rows = fs::read_to_string(place.file("out/small/rows.jsonl")).unwrap();
    let kept = rows.matches('\n').count();
    assert!((2..11).contains(&kept) && !rows.ends_with('\n'), "{kept} rows, and one that was cut short: {rows}");
    memory.resize("remount,size=1m");
    let ran = place.run(&[]);
    assert_eq!(ran.err.matches("round ").count(), 12 - kept / 2 * 2, "{}", ran.err);
    ran.ok();
    assert_eq!(fs::read_to_string(place.file("out/small/rows.jsonl")).unwrap().lines().count(), 12 + kept % 2);
}

/// Tests a store that fills its device. Only this store's cell (one engine in one round) may fail,
/// and its row must report the failure. The other cells must be measured.
#[test]
fn a_full_device_fails_its_own_cell() {
    let Some(()) = root("mounts and loop devices take root") else { return };
    let device = "kind = \"loop\"\nsize = \"96MiB\"";
    let text = SMALL.replace("kind = \"temporary\"", device).replace("load.value_size", "device.size");
    let text =
        text.replace("\"100B\", \"1KiB\", \"2KiB\"", "\"16MiB\", \"96MiB\"").replace("value_size=1KiB", "size=96MiB");
    let text = text
        .replace("num = 20_000", "num = 200_000\nvalue_size = \"1KiB\"")
        .replace("x = \"value_size\"\nlog = true", "");
    let place = Place::new(&text);
    let Some(()) = require("loop", FuseLoop { work: place.file("work"), attached: true }.available()) else { return };
    let ran = place.run(&[]);
    let table = String::from_utf8_lossy(&ran.out).into_owned();
    assert!(ran.status == 1 && table.contains("failed"), "{table}{}", ran.err);
    let rows = || fs::read_to_string(place.file("out/small/rows.jsonl")).unwrap();
    let failed = |row: &str| row.contains("\"error\":\"") && row.contains("no space");
    assert_eq!(rows().lines().filter(|row| failed(&row.to_lowercase())).count(), 2, "{}", rows());
    assert_eq!(rows().lines().filter(|row| !row.contains("\"error\":\"")).count(), 4, "{}", rows());
    assert!(!place.run(&[]).err.contains("readrandom"), "what was measured is not measured again");
}

#[test]
fn the_list_names_every_file_with_its_source() {
    let listed = String::from_utf8(terrace(["study", "list"]).ok()).unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_there = listed.lines().any(|line| line.split_whitespace().next() == Some(&name));
        assert!(is_there || name == "papers", "{name} is not in {listed}");
    }
    for line in String::from_utf8(terrace(["study", "list", "--json"]).ok()).unwrap().lines() {
        let listed: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(listed["cells"].is_u64() && listed["source"].is_string(), "{line}");
    }
}

/// Tests that a browser shows the report, in light and in dark mode. The screenshots stay in the
/// target directory.
#[test]
fn a_browser_shows_the_report() {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let Some(browser) = require("chromium", found.ok_or("no chromium: install the package chromium")) else { return };
    let Some(()) = root("a drive of its own takes root") else { return };
    // The drive counts flash writes and the run has intervals, so that the page contains everything
    // that a report can draw.
    let drive = "kind = \"vssd\"\nprofile = \"ssd-s\"\nsize = \"256MiB\"";
    let text = SMALL.replace("kind = \"temporary\"", drive).replace(", \"2KiB\"", "");
    let place = Place::new(&text.replace(", \"readrandom\"]", "]\nrounds = 2"));
    let Some(()) = require("loop", FuseLoop { work: place.file("work"), attached: true }.available()) else { return };
    place.run(&[]).ok();
    place.report();
    let page = format!("file://{}", place.file("out/report.html").display());
    let artefacts = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let look = |more: &[&str]| {
        let profile = format!("--user-data-dir={}", place.file("profile").display());
        let fixed =
            ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,2000", &profile];
        let output = Command::new(browser).args(fixed).args(more).arg(&page).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    let mut pictures = Vec::new();
    for (name, scheme) in [("light", "1"), ("dark", "0")] {
        let path = artefacts.join(format!("study-{name}.png"));
        let _ = fs::remove_file(&path);
        let (shot, scheme) =
            (format!("--screenshot={}", path.display()), format!("--blink-settings=preferredColorScheme={scheme}"));
        look(&[&shot, &scheme]);
        pictures.push(fs::read(&path).expect("a screenshot"));
    }
    // A screenshot of an empty page of this size has about 10 KB.
    assert!(
        pictures.iter().all(|picture| picture.len() > 60_000),
        "{:?}",
        pictures.iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert_ne!(pictures[0], pictures[1], "dark is not light");
    let shown = String::from_utf8(look(&["--dump-dom"]).stdout).unwrap();
    assert!(shown.contains("From the user's byte") && shown.matches("<svg").count() == 2 + 3 + 2, "{shown}");
    let flash = shown.matches(">flash</text>").count();
    assert!(flash == 2 && shown.contains("class=\"part host\"") && shown.contains("wa2"), "{shown}");
    let pdf = artefacts.join("study.pdf");
    look(&[&format!("--print-to-pdf={}", pdf.display())]);
    assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF"), "it prints");
}
