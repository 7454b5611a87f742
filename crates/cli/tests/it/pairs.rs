//! Tests commands on single keys and on ranges.
use crate::common;
use common::{fresh, terrace, terrace_with};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

#[test]
fn put_get_delete() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    assert!(terrace(["put", store, "key", "value"]).ok().is_empty());
    assert_eq!(terrace(["get", store, "key"]).ok(), b"value\n");
    assert_eq!(terrace(["get", "-n", store, "key"]).ok(), b"value");
    terrace(["put", store, "key", ""]).ok();
    assert_eq!(terrace(["get", store, "key"]).ok(), b"\n");
    terrace(["delete", store, "key"]).ok();
    assert_eq!(terrace(["get", store, "key"]).fails(1), "terrace: no such key\n");
    terrace(["delete", store, "key"]).ok();
    terrace(["put", store, "--", "-k", "-5"]).ok();
    assert_eq!(terrace(["get", store, "--", "-k"]).ok(), b"-5\n");
}

#[test]
fn column_families() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    let run = |arguments: &[&str]| String::from_utf8(terrace(arguments).ok()).unwrap();
    terrace(["put", store, "key", "default"]).ok();
    terrace(["put", store, "--cf", "users", "key", "ann"]).ok();
    terrace_with(["load", store, "--column-family", "users", "-"], b"a\t1\nb\t2\n").ok();
    assert_eq!(run(&["get", store, "key"]), "default\n");
    assert_eq!(run(&["get", store, "--cf", "users", "key"]), "ann\n");
    assert_eq!(run(&["scan", store, "--cf", "users", "--reverse"]), "key\tann\nb\t2\na\t1\n");
    terrace(["delete", store, "--cf", "users", "key"]).ok();
    assert_eq!(run(&["dump", store, "--cf", "users"]), "a\t1\nb\t2\n");
    assert_eq!(run(&["dump", store, "--cf", "default"]), "key\tdefault\n");
    let tables = directory.path().join("tables");
    let tables = tables.to_str().unwrap();
    for command in [&["dump", store][..], &["export", store, tables]] {
        let said = terrace(command).fails(2);
        assert!(said.contains("default, users"), "{said}");
    }
    assert!(terrace(["get", store, "--cf", "none", "key"]).fails(1).contains("none"));
    run(&["export", store, tables, "--cf", "users"]);
    run(&["ingest", store, "--cf", "copy", &format!("{tables}/000001.ldb")]);
    assert_eq!(run(&["scan", store, "--cf", "copy"]), "a\t1\nb\t2\n");
    assert!(run(&["compact", store]).contains("L6"), "all families are compacted");
    assert_eq!(run(&["scan", store, "--cf", "users"]), "a\t1\nb\t2\n");
    let stats = run(&["stats", store]);
    assert!(stats.contains("default, users, copy"), "{stats}");
}

#[test]
fn any_bytes_by_hex_escape_or_as_they_are() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    terrace(["put", store, "--hex", "00ff0a", "DEADbeef"]).ok();
    assert_eq!(terrace(["get", store, "--hex", "00FF0A"]).ok(), b"deadbeef\n");
    assert_eq!(terrace(["get", store, "--escape", r"\x00\xff\n"]).ok(), b"\\xde\\xad\\xbe\\xef\n");
    terrace(["put", store, "--hex", "", "00"]).ok();
    assert_eq!(terrace(["get", "-n", store, ""]).ok(), [0]);
    let raw: [&OsStr; 4] = ["put".as_ref(), store.as_ref(), OsStr::from_bytes(b"\xfe\xff"), "v".as_ref()];
    terrace(raw).ok();
    assert_eq!(terrace(["get", store, "--hex", "feff"]).ok(), b"76\n");
    assert_eq!(terrace(["scan", store, "--hex", "--keys-only"]).ok(), b"\n00ff0a\nfeff\n");
}

#[test]
fn values_from_stdin() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let big: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    terrace_with(["put", store, "big", "-"], &big).ok();
    assert!(terrace(["get", "-n", store, "big"]).ok() == big);
    terrace_with(["put", store, "--hex", "aa", "-"], b"0102\n").ok();
    assert_eq!(terrace(["get", "--hex", store, "aa"]).ok(), b"0102\n");
    terrace(["put", "--escape", store, "hyphen", r"\x2d"]).ok();
    assert_eq!(terrace(["get", store, "hyphen"]).ok(), b"-\n");
}

#[test]
fn ranges() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    terrace_with(["load", store, "-"], b"a\t1\nb\t2\nba\t3\nbb\t4\nc\t5\n").ok();
    let scan = |arguments: &[&str]| {
        String::from_utf8(terrace(["scan", store].iter().chain(arguments)).ok()).unwrap().replace('\n', ";")
    };
    assert_eq!(scan(&[]), "a\t1;b\t2;ba\t3;bb\t4;c\t5;");
    assert_eq!(scan(&["--from", "b", "--to", "bb"]), "b\t2;ba\t3;");
    assert_eq!(scan(&["--prefix", "b", "--keys-only"]), "b;ba;bb;");
    assert_eq!(scan(&["--prefix", "b", "--reverse", "--limit", "2"]), "bb\t4;ba\t3;");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--from", "x"]), "");
    assert_eq!(scan(&["--json", "--limit", "1"]), "{\"key\":\"a\",\"value\":\"1\"};");
    assert_eq!(scan(&["--json", "--keys-only", "--limit", "1"]), "{\"key\":\"a\"};");
}

#[test]
fn wrong_usage_is_status_2() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    for arguments in [
        &["nonsense"][..],
        &[],
        &["get", store],
        &["get", store, "k", "--hexx"],
        &["get", store, "k", "--hex", "--escape"],
        &["get", store, "--hex", "zz"],
        &["put", store, "k", "v", "--preset", "nonsense"],
        &["put", store, "k", "v", "--option", "nonsense=1"],
        &["put", store, "k", "v", "--option", "write_buffer_size"],
        &["put", store, "k", "v", "--option", "write_buffer_size=1"],
        &["scan", store, "--limit", "many"],
        &["load", store, "-", "--format", "xml"],
    ] {
        let error = terrace(arguments).fails(2);
        assert!(!error.is_empty(), "{arguments:?}");
    }
    assert!(!std::path::Path::new(store).exists());
    let error = terrace(["put", store, "k", "v", "--option", "nonsense=1"]).fails(2);
    assert!(error.contains("write_buffer_size"), "the known names are listed: {error}");
}

#[test]
fn help_is_everywhere() {
    for command in ["put", "get", "delete", "scan", "load", "dump", "stats", "compact", "check", "inspect", "doctor"] {
        let help = String::from_utf8(terrace([command, "--help"]).ok()).unwrap();
        assert!(help.contains("Usage: terrace"), "{command}: {help}");
    }
}

#[test]
fn tables_go_out_and_in() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let lines: String = (0..1000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    terrace_with(["load", store, "-"], lines.as_bytes()).ok();
    let said = terrace(["export", store, &at("out"), "--from", "key00100", "--to", "key00200", "--json"]).ok();
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["tables"][0]["entries"], 100, "{said}");
    let table = said["tables"][0]["path"].as_str().unwrap().to_owned();
    let said = String::from_utf8(terrace(["ingest", &at("new"), &table]).ok()).unwrap();
    assert!(said.contains("100 entries"), "{said}");
    terrace(["put", &at("new"), "key00150", "mine"]).ok();
    assert_eq!(terrace(["get", &at("new"), "key00199"]).ok(), b"value 199\n");
    terrace(["ingest", &at("new"), &table]).ok();
    assert_eq!(terrace(["get", &at("new"), "key00150"]).ok(), b"value 150\n");
    assert!(terrace(["export", store, &at("out")]).fails(1).contains("000001.ldb"));
    assert!(terrace(["ingest", &at("new"), &at("absent.ldb")]).fails(1).contains("absent.ldb"));
    terrace(["ingest", &at("new")]).fails(2);
}
