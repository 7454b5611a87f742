//! Tests `terrace ssd create`, `profiles`, `trace` and `smart`, with virtual SSDs that are not
//! attached as block devices, and with recorded counters of real drives.
use crate::common;
use common::{terrace, terrace_with};
use serde_json::Value;
use std::{fs, path::Path};

fn json(arguments: &[&str]) -> Value {
    let out = terrace(arguments).ok();
    serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

#[test]
fn the_text_of_a_profile_makes_a_drive_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let (file, drive) = (directory.path().join("mine.toml"), directory.path().join("drive"));
    let known = String::from_utf8(terrace(["ssd", "profiles", "ssd-s"]).ok()).unwrap();
    assert!(known.contains("# After the SSD-S"), "{known}");
    fs::write(&file, known.replace("name = \"ssd-s\"", "name = \"mine\"")).unwrap();
    let made = json(&["ssd", "create", text(&drive), "--profile", text(&file), "--size=256MiB", "--json"]);
    assert_eq!(made["state"], "initial");
    let told = json(&["ssd", "smart", text(&drive), "--json"]);
    assert_eq!(made["drive"], told);
    assert_eq!(told["user_capacity"]["bytes"], 256 << 20);
    assert_eq!(told["terrace"]["profile"]["name"], "mine");
    assert_eq!(told["terrace"]["host_bytes"], 0);
    let names: Vec<Value> = json(&["ssd", "profiles", "--json"]).as_array().unwrap().clone();
    assert_eq!(names.iter().map(|profile| &profile["name"]).collect::<Vec<_>>(), ["plain", "ssd-s", "ssd-i"]);
}

#[test]
fn a_steady_drive_has_been_written_and_collected() {
    let directory = tempfile::tempdir().unwrap();
    let drive = directory.path().join("drive");
    let made = json(&["ssd", "create", text(&drive), "--size=128MiB", "--state=steady", "--json"]);
    let told = &made["drive"]["terrace"];
    assert!(told["wa2"].as_f64().unwrap() > 2.0, "{told}");
    assert_eq!(told["mapped_bytes"], 128 << 20);
    let shown = String::from_utf8(terrace(["ssd", "smart", text(&drive)]).ok()).unwrap();
    assert!(shown.contains("gc") && shown.contains(&told["nand_bytes"].to_string()), "{shown}");
}

#[test]
fn a_drive_that_cannot_be_is_wrong_usage_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (file, drive) = (directory.path().join("mine.toml"), directory.path().join("drive"));
    for (profile, words) in [
        ("capacity_bytes = 0", "capacity_bytes: 0"),
        ("over_provisioning = 0.001", "over_provisioning: makes"),
        ("streams = 0", "streams: 0"),
        (
            "[latency]\nread_us=1\nprogram_us=1\nerase_us=1\nchannel_bytes_per_s=0\ninterface_bytes_per_s=1\ncache_bytes=1\nflush_us=1",
            "latency.channel_bytes_per_s: 0",
        ),
    ] {
        fs::write(&file, profile).unwrap();
        let error = terrace(["ssd", "create", text(&drive), "--profile", text(&file)]).fails(2);
        assert!(error.contains(words), "{profile}: {error}");
    }
    fs::write(&file, "chanels = 4").unwrap();
    let error = terrace(["ssd", "create", text(&drive), "--profile", text(&file)]).fails(1);
    assert!(error.contains(text(&file)) && error.contains("`chanels`"), "{error}");
    let error = terrace(["ssd", "create", text(&drive), "--profile=ssd-x"]).fails(2);
    assert!(error.contains("ssd-x") && error.contains("ssd-i"), "{error}");
    terrace(["ssd", "create", text(&drive), "--state=used"]).fails(2);
    assert!(!drive.exists());
    fs::write(directory.path().join("mine"), "").unwrap();
    let error = terrace(["ssd", "create", text(directory.path())]).fails(1);
    assert!(error.contains("not empty"), "{error}");
}

#[test]
fn a_damaged_drive_is_refused_by_the_name_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let drive = directory.path().join("drive");
    let error = terrace(["ssd", "smart", text(directory.path())]).fails(1);
    assert!(error.contains("find a virtual drive in"), "{error}");
    terrace(["ssd", "create", text(&drive), "--size=64MiB"]).ok();
    let state = drive.join("state");
    let mut bytes = fs::read(&state).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&state, bytes).unwrap();
    let error = terrace(["ssd", "smart", text(&drive)]).fails(1);
    assert!(error.contains(text(&state)) && error.contains("checksum"), "{error}");
}

#[test]
fn a_trace_costs_more_on_a_steady_drive_than_on_a_new_one() {
    let mut trace = String::from("# one write in each 64 KiB, again and again\n");
    (0..2000u64).for_each(|at| trace += &format!("W {} 4096\n", at * 7919 % 1024 * 65536));
    trace += "F\nD 0 65536\nR 0 4096\n";
    let run = |state: &str| {
        let out = terrace_with(["ssd", "trace", "-", "--size=64MiB", state, "--repeat=5", "--json"], trace.as_bytes());
        let told: Value = serde_json::from_slice(&out.ok()).unwrap();
        let told = told["trace"].clone();
        assert_eq!(told["host_bytes"], 5 * 2000 * 4096, "the trace alone is counted");
        assert_eq!(told["flushes"], 5);
        (told["wa2"].as_f64().unwrap(), told["nand_bytes_by_cause"]["gc"].as_u64().unwrap())
    };
    let ((fresh, none), (steady, moved)) = (run("--state=initial"), run("--state=steady"));
    assert_eq!((fresh, none), (1.0, 0));
    assert!(steady > 1.5 && moved > 0, "{steady}");
}

#[test]
fn a_bad_trace_is_told_by_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    fs::write(&file, "F\nW 0 4096\nW 99999999999999 1\n").unwrap();
    let error = terrace(["ssd", "trace", text(&file)]).fails(1);
    assert!(error.contains(&format!("{} line 3", text(&file))) && error.contains("ends at"), "{error}");
    let error = terrace_with(["ssd", "trace", "-"], b"G 1 2\n").fails(1);
    assert!(error.contains("stdin line 1") && error.contains("'G'"), "{error}");
    let error = terrace(["ssd", "trace", "/no/such/trace"]).fails(1);
    assert!(error.contains("/no/such/trace"), "{error}");
    fs::write(&file, b"TERRACEB and no more").unwrap();
    let error = terrace(["ssd", "trace", text(&file)]).fails(1);
    assert!(error.contains(text(&file)), "{error}");
}

/// Tests that `ssd smart` prints the counters of real drives, or reports that they are unknown.
/// The SMART values are the same as in `tests/it/smart.rs` of the device crate.
#[test]
fn real_drives_tell_or_are_said_not_to() {
    let directory = tempfile::tempdir().unwrap();
    let (smart, earlier) = (directory.path().join("smart.json"), directory.path().join("earlier.json"));
    let drive = |host: u64, nand: u64| {
        let row =
            |id: u32, name: &str, raw: u64| format!("{{\"id\":{id},\"name\":\"{name}\",\"raw\":{{\"value\":{raw}}}}}");
        let rows = [row(241, "Host_Writes_32MiB", host), row(243, "NAND_Writes_32MiB", nand)].join(",");
        format!("{{\"model_name\":\"Intel DC\",\"ata_smart_attributes\":{{\"table\":[{rows}]}}}}")
    };
    fs::write(&smart, drive(1_456_731, 2_011_255)).unwrap();
    let told = json(&["ssd", "smart", "--from-json", text(&smart), "--json"]);
    assert_eq!(told["nand_bytes"], 2_011_255u64 * (32 << 20));
    assert_eq!(told["nand_from"], "243 NAND_Writes_32MiB");
    fs::write(&earlier, told.to_string()).unwrap();
    fs::write(&smart, drive(1_456_831, 2_011_555)).unwrap();
    let told = json(&["ssd", "smart", "--from-json", text(&smart), "--since", text(&earlier), "--json"]);
    assert_eq!((&told["since"]["wa2"], &told["since"]["wa2_within"]), (&3.0.into(), &0.04.into()));
    let shown = terrace(["ssd", "smart", "--from-json", text(&smart), "--since", text(&earlier)]).ok();
    assert!(String::from_utf8_lossy(&shown).contains("WA2 3.000 ± 0.040"));
    fs::write(&smart, drive(1, 2)).unwrap();
    let error = terrace(["ssd", "smart", "--from-json", text(&smart), "--since", text(&earlier)]).fails(1);
    assert!(error.contains("more than now"), "{error}");

    // Two drives of one model must be treated as different drives.
    let with_serial =
        |serial: &str| drive(9_456_831, 9_011_555).replacen('{', &format!("{{\"serial_number\":\"{serial}\","), 1);
    fs::write(&smart, with_serial("S1")).unwrap();
    fs::write(&earlier, json(&["ssd", "smart", "--from-json", text(&smart), "--json"]).to_string()).unwrap();
    terrace(["ssd", "smart", "--from-json", text(&smart), "--since", text(&earlier)]).ok();
    fs::write(&smart, with_serial("S2")).unwrap();
    let error = terrace(["ssd", "smart", "--from-json", text(&smart), "--since", text(&earlier)]).fails(1);
    assert!(error.contains("S1") && error.contains("S2"), "{error}");

    fs::write(&smart, "{\"model_name\":\"X\",\"nvme_smart_health_information_log\":{\"data_units_written\":7}}")
        .unwrap();
    let told = json(&["ssd", "smart", "--from-json", text(&smart), "--json"]);
    assert_eq!(
        (&told["nand_bytes"], &told["wa2"], &told["host_bytes"]),
        (&Value::Null, &Value::Null, &3_584_000.into())
    );
    let shown = String::from_utf8(terrace(["ssd", "smart", "--from-json", text(&smart)]).ok()).unwrap();
    assert!(shown.contains("does not report the bytes it programs into flash"), "{shown}");
    fs::write(&smart, "{}").unwrap();
    terrace(["ssd", "smart", "--from-json", text(&smart)]).fails(1);
    fs::write(&smart, "nothing").unwrap();
    let error = terrace(["ssd", "smart", "--from-json", text(&smart)]).fails(1);
    assert!(error.contains("no JSON"), "{error}");
    terrace(["ssd", "smart"]).fails(2);
}
