//! Tests the command `options`, and options from a file.
use crate::common;
use common::{fresh, terrace};
use serde_json::Value;
use std::fs;

#[test]
fn printed_options_can_be_read() {
    let (folder, store) = fresh();
    let store = store.to_str().unwrap();
    let printed = terrace(["options", "--preset", "bundled", "--option", "block_cache_size=1MiB"]).ok();
    let file = folder.path().join("options");
    let flag = format!("--options={}", file.display());
    fs::write(&file, &printed).unwrap();
    assert_eq!(terrace(["options", &flag]).ok(), printed);
    let json: Value =
        serde_json::from_slice(&terrace(["options", &flag, "--option", "bloom_bits=3", "--json"]).ok()).unwrap();
    let found = |name: &str| json["options"][name].clone();
    assert_eq!(
        (json["preset"].as_str(), found("block_cache_size"), found("bloom_bits")),
        (Some("bundled"), 1048576.into(), 3.into())
    );
    assert_eq!((found("delayed_writes"), found("durability")), (true.into(), "auto".into()));
    terrace(["put", store, "k", "v", &flag]).ok();
    let stats: Value = serde_json::from_slice(&terrace(["stats", store, &flag, "--json"]).ok()).unwrap();
    assert_eq!(stats["preset"], "bundled");
}

#[test]
fn a_bad_options_file_is_a_usage_error() {
    let (folder, store) = fresh();
    let store = store.to_str().unwrap();
    let file = folder.path().join("options");
    let flag = format!("--options={}", file.display());
    let missing = terrace(["get", store, "k", &flag]).fails(2);
    assert!(missing.contains("options") && missing.contains("No such file"), "{missing}");
    for (text, words) in [
        (
            &b"block_cache_size=1\nmax_open_tables=7\n"[..],
            "line 2: unknown option max_open_tables; did you mean max_open_files?",
        ),
        (b"write_buffer_size=1", "write_buffer_size is 1; it must be 0 or at least 65536"),
        (b"\xff\xfe", "UTF-8"),
    ] {
        fs::write(&file, text).unwrap();
        let told = terrace(["get", store, "k", &flag]).fails(2);
        assert!(told.contains(words) && told.contains(file.to_str().unwrap()), "{told}");
    }
    fs::write(&file, "").unwrap();
    let both = terrace(["options", &flag, "--preset", "leveldb"]).fails(2);
    assert!(both.contains("--preset"), "{both}");
}

#[test]
fn presets_are_listed_with_one_line_each() {
    let listed = String::from_utf8(terrace(["presets"]).ok()).unwrap();
    let names: Vec<_> = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let known: Vec<_> = terrace::PRESETS.iter().chain(terrace::PAPER_PRESETS).map(|(name, _)| *name).collect();
    assert_eq!(names, known);
    assert!(listed.lines().all(|line| line.len() < 170), "{listed}");
}
