//! Tests `--json` of every command: the output must be valid JSON with exact keys and values.
use crate::common::{fresh, terrace, terrace_with};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Returns keys and values, each with its expected JSON form. For UTF-8 text this form is a string
/// with the same text, whatever characters it contains.
fn pairs() -> Vec<(&'static [u8], Value)> {
    vec![
        (b"\x00\x1f\t\n\"\\", json!("\u{0}\u{1f}\t\n\"\\")),
        ("Z\u{fc}rich".as_bytes(), json!("Z\u{fc}rich")),
        (b"\\x00", json!("\\x00")),
        ("\u{1f600}".as_bytes(), json!("\u{1f600}")),
        (b"\xff\xfe", json!({ "base64": "//4=" })),
    ]
}

/// Returns every line of output as JSON. Panics if a line is not JSON.
fn lines<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Vec<Value> {
    let out = String::from_utf8(terrace(arguments).ok()).expect("JSON is UTF-8");
    let parsed: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(!parsed.is_empty());
    parsed
}

fn fill(store: &str) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text: String = pairs().iter().map(|(bytes, _)| format!("{0}\t{0}\n", hex(bytes))).collect();
    terrace_with(["load", store, "-", "--format", "hex"], text.as_bytes()).ok();
}

/// Returns whether `text`, the form of a key or value, occurs anywhere in `value`.
fn holds(value: &Value, text: &Value) -> bool {
    value == text
        || match value {
            Value::Array(all) => all.iter().any(|inner| holds(inner, text)),
            Value::Object(all) => all.values().any(|inner| holds(inner, text)),
            _ => false,
        }
}

#[test]
fn keys_and_values_are_what_they_are() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    fill(store);
    let mut wanted = pairs();
    wanted.sort_by_key(|(bytes, _)| *bytes);
    let scanned = lines(["scan", store, "--json"]);
    let expected: Vec<Value> = wanted.iter().map(|(_, text)| json!({ "key": text, "value": text })).collect();
    assert_eq!(scanned, expected);
    assert_eq!(lines(["dump", store, "--format", "jsonl"]), expected);
    let keys: Vec<Value> = wanted.iter().map(|(_, text)| json!({ "key": text })).collect();
    assert_eq!(lines(["scan", store, "--json", "--keys-only"]), keys);

    let named = |end: &str| {
        let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_str().unwrap().contains(end)).max().unwrap()
    };
    let file = |end: &str| named(end).to_str().unwrap().to_owned();
    terrace(["compact", store]).ok();
    let table = lines(["inspect", &file(".ldb"), "--json", "--entries"]);
    wanted.iter().for_each(|(_, text)| assert!(holds(&table[0], text), "{text} in {table:?}"));
    let (first, last) = (&wanted[0].1, &wanted[4].1);
    for shown in [lines(["inspect", store, "--json"]), lines(["inspect", &file("MANIFEST"), "--json"])] {
        assert!([first, last].iter().all(|text| shown.iter().any(|line| holds(line, text))), "{shown:?}");
    }
    terrace(["put", store, "Z\u{fc}rich", "new"]).ok();
    let log = lines(["inspect", &file(".log"), "--json", "--entries"]);
    assert!(log.iter().any(|line| holds(line, &json!("Z\u{fc}rich"))), "{log:?}");

    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let exported = lines(["export", store, &place("tables"), "--json"]);
    let table = &exported[0]["tables"][0];
    assert_eq!((&table["smallest"], &table["largest"]), (first, last));
    fs::remove_file(file("CURRENT")).unwrap();
    let mut damaged = fs::read(named(".ldb")).unwrap();
    damaged[10] ^= 1;
    fs::write(named(".ldb"), damaged).unwrap();
    let report = lines(["repair", store, &place("repaired"), "--json"]);
    assert!(holds(&report[0]["lost"], last), "{report:?}");
}

#[test]
fn every_command_prints_json() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    fill(store);
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for arguments in [
        &["stats", store][..],
        &["check", store],
        &["compact", store],
        &["checkpoint", store, &place("checkpoint")],
        &["backup", "create", store, &place("backups")],
        &["backup", "list", &place("backups")],
        &["backup", "verify", &place("backups")],
        &["backup", "restore", &place("backups"), &place("restored")],
        &["backup", "purge", &place("backups"), "--keep", "0"],
        &["convert", store, &place("converted")],
        &["export", store, &place("tables")],
        &["ingest", store, &place("tables/000001.ldb")],
        &["repair", store, &place("repaired")],
        &["doctor", store],
        &["options"],
        &["options", "--preset", "bundled"],
        &["inspect", store],
        &["raw", "format", &place("device"), "--size", "16MiB"],
        &["convert", store, &place("device")],
        &["raw", "info", &place("device")],
        &["raw", "ls", &place("device")],
        &["raw", "check", &place("device")],
        &["raw", "export", &place("device"), &place("exported")],
    ] {
        println!("{arguments:?}");
        lines(arguments.iter().chain(&["--json"]));
    }
    let made_of = |at: &str, command: &str| lines([command, at, "--json"])[0]["made_of"]["storage"].clone();
    for command in ["stats", "check"] {
        assert_eq!(
            (made_of(store, command), made_of(&place("device"), command)),
            (json!("directory"), json!("device"))
        );
    }
    let told = String::from_utf8(terrace(["stats", &place("device")]).ok()).unwrap();
    assert!(told.contains("device, block tables"), "{told}");
    assert!(Path::new(store).is_dir());
}

/// Tests that `load` restores the same pairs from the output of `scan --json`.
#[test]
fn a_scan_can_be_loaded() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    fill(store);
    let copy = directory.path().join("copy").to_str().unwrap().to_owned();
    let scanned = terrace(["scan", store, "--json"]).ok();
    terrace_with(["load", &copy, "-", "--format", "jsonl"], &scanned).ok();
    assert_eq!(terrace(["dump", &copy]).ok(), terrace(["dump", store]).ok());
}
