//! Tests of the commands `load` and `dump`.
use crate::common;
use common::{command, fresh, terrace, terrace_with};
use proptest::{collection::btree_map, collection::vec, prelude::any, prop_assert_eq, test_runner::Config};
use std::{io::Read, process::Command};

proptest::proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(12) })]

    /// Property test: for any bytes and any format, a dump that is loaded into a second store gives
    /// the same dump there.
    #[test]
    fn dump_and_load_are_inverse(pairs in btree_map(vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..200), 0..60)) {
        let (_directory, store) = fresh();
        let store = store.to_str().unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines: String = pairs.iter().map(|(key, value)| format!("{}\t{}\n", hex(key), hex(value))).collect();
        terrace_with(["load", store, "-", "--format", "hex"], lines.as_bytes()).ok();
        for format in ["hex", "escaped", "jsonl"] {
            let dumped = terrace(["dump", store, "--format", format]).ok();
            prop_assert_eq!(dumped.iter().filter(|byte| **byte == b'\n').count(), pairs.len());
            let copy = format!("{store}-{format}");
            terrace_with(["load", &copy, "-", "--format", format], &dumped).ok();
            let again = terrace(["dump", &copy, "--format", "hex"]).ok();
            prop_assert_eq!(String::from_utf8(again).unwrap(), lines.as_str(), "{}", format);
        }
    }
}

#[test]
fn keys_alone_delete_if_that_is_asked_for() {
    for (format, text) in [
        ("escaped", &b"a\t1\nb\t2\n\t3\na\n\n"[..]),
        ("hex", b"61\t31\n62\t32\n\t33\n61\n\n"),
        (
            "jsonl",
            br#"{"key":"a","value":"1"}
{"key":"b","value":"2"}
{"key":"","value":"3"}
{"key":"a"}
{"key":""}
"#,
        ),
    ] {
        let (_directory, store) = fresh();
        let store = store.to_str().unwrap();
        let error = terrace_with(["load", store, "-", "--format", format], text).fails(1);
        assert!(error.contains("line 4: no ") && error.contains("--deletes"), "{format}: {error}");
        assert!(error.contains("loaded 3 lines (3 puts, 0 deletes), then stopped"), "{format}: {error}");
        let said = terrace_with(["load", store, "-", "--format", format, "--deletes"], text).ok();
        assert_eq!(String::from_utf8(said).unwrap(), "loaded 3 puts, 2 deletes\n", "{format}");
        assert_eq!(terrace(["dump", store]).ok(), b"b\t2\n", "{format}");
    }
}

#[test]
fn a_last_line_needs_no_newline() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let said = terrace_with(["load", store, "-", "--json"], b"a\t1\nb\t2").ok();
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said, serde_json::json!({ "puts": 2, "deletes": 0, "skipped": 0 }));
    assert_eq!(terrace(["dump", store]).ok(), b"a\t1\nb\t2\n");
}

#[test]
fn a_bad_line_is_named_and_what_was_before_it_stays() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let error = terrace_with(["load", store, "-"], b"a\t1\nb\t2\nc\\q\t3\nd\t4\n").fails(1);
    assert!(error.contains("line 3") && error.contains("unknown escape"), "{error}");
    assert!(error.contains("loaded 2 lines (2 puts, 0 deletes)"), "{error}");
    assert_eq!(terrace(["dump", store]).ok(), b"a\t1\nb\t2\n");
    let error = terrace_with(["load", store, "-", "--format", "jsonl"], b"{}\n").fails(1);
    assert!(error.contains("line 1"), "{error}");
}

/// Tests that `load` refuses input of another format, changes nothing and creates no store.
#[test]
fn a_file_of_another_kind_is_refused_at_its_first_line() {
    let (_directory, store) = fresh();
    let path = store.to_str().unwrap();
    for (format, word) in [("escaped", "no tab"), ("hex", "hex digit"), ("jsonl", "expected value")] {
        let error = terrace(["load", path, "/etc/passwd", "--format", format]).fails(1);
        assert!(error.contains("line 1: ") && error.contains("nothing was loaded"), "{format}: {error}");
        assert!(error.contains(word), "{format}: {error}");
        assert!(!store.exists(), "{format}");
    }
}

#[test]
fn bad_lines_are_skipped_if_that_is_asked_for_and_none_silently() {
    let good: String = (0..50).map(|n| format!("k{n:02}\tv\n")).collect();
    let bad: String = (0..25).map(|n| format!("bad {n}\n")).collect();
    let text = format!("first\n{good}{bad}a\\q\t1\nz\t1\n");
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let ran = terrace_with(["load", store, "-", "--skip-bad"], text.as_bytes());
    assert!(ran.err.contains("skipped line 1: no tab") && ran.err.contains("skipped line 70: "), "{}", ran.err);
    assert_eq!(ran.err.matches("skipped line").count(), 20, "{}", ran.err);
    assert!(ran.err.contains("further bad lines are counted"), "{}", ran.err);
    assert_eq!(String::from_utf8(ran.ok()).unwrap(), "loaded 51 puts, 0 deletes; skipped 27 bad lines\n");
    assert_eq!(terrace(["scan", store, "--keys-only"]).ok().iter().filter(|byte| **byte == b'\n').count(), 51);
    let said = terrace_with(["load", store, "-", "--skip-bad", "--deletes", "--json"], b"k00\na\tb\tc\n").ok();
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said, serde_json::json!({ "puts": 0, "deletes": 1, "skipped": 1 }));
}

#[test]
fn a_load_that_the_store_breaks_off_says_what_is_sure_to_be_there() {
    let (directory, store) = fresh();
    let lines = directory.path().join("lines");
    // The second batch makes an SSTable of 70 MiB. This exceeds the file-size limit of 32 MiB (64
    // MiB in shells whose unit is the KiB).
    let line = |key: u32, mebibytes: usize| format!("{key:03}\t{}\n", "v".repeat(mebibytes << 20));
    std::fs::write(&lines, (0..17).map(|key| line(key, if key < 16 { 1 } else { 70 })).collect::<String>()).unwrap();
    let limited = "trap '' XFSZ; ulimit -f 65536; exec \"$@\"";
    let ran = Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_terrace"), "load"])
        .args([&store, &lines])
        .args(["--option", "write_buffer_size=64KiB", "--option", "compression=none"])
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(1), &b""[..]), "{error}");
    let told = error
        .split("to the store, the first ")
        .nth(1)
        .and_then(|rest| rest.split_once(" of which are certainly loaded"));
    let sure: usize = told.unwrap_or_else(|| panic!("{error}")).0.parse().unwrap();
    let there = terrace(["dump", store.to_str().unwrap()]).ok();
    let keys: Vec<String> = String::from_utf8(there).unwrap().lines().map(|line| line[..3].to_owned()).collect();
    assert!(sure == 0 || sure == 16, "batches end behind a line: {error}");
    assert!(sure <= keys.len() && keys.len() < 17, "{sure} sure, {keys:?}; {error}");
    assert!(keys.iter().enumerate().all(|(at, key)| *key == format!("{at:03}")), "{keys:?}");
}

#[test]
fn long_lines_and_many_lines() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    let mut text = format!("long\t{}\n", "x".repeat(5_000_000));
    (0..20_000).for_each(|n| text += &format!("key{n:06}\tvalue {n}\n"));
    let file = directory.path().join("lines");
    std::fs::write(&file, &text).unwrap();
    let options = ["--option", "write_buffer_size=256KiB"];
    terrace(["load", store, file.to_str().unwrap()].into_iter().chain(options)).ok();
    let dumped = String::from_utf8(terrace(["dump", store]).ok()).unwrap();
    let mut sorted: Vec<&str> = text.lines().collect();
    sorted.sort_unstable();
    assert!(dumped.lines().eq(sorted));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let text: String = (0..20_000).map(|n| format!("key{n:06}\t{}\n", "v".repeat(100))).collect();
    terrace_with(["load", store, "-"], text.as_bytes()).ok();
    let mut child = command(["dump", store]).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut head = [0; 10];
    out.read_exact(&mut head).unwrap();
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(ended.status.success());
}
