//! Error situations with wrong paths, wrong arguments, and stores in LevelDB's format.
//! `common/situations.rs` explains the tables. Further situations are in `situations_of_*.rs`.
use crate::common::{self, situations};
use common::{terrace, terrace_with};
use situations::{CHECK, GET, PUT, Situation, judge, keep_only, names};
use std::{fs, os::unix::fs::symlink, path::Path};

/// Creates a store in LevelDB's format with an SSTable and a WAL.
fn store(path: &Path) {
    let lines: String = (0..500).map(|n| format!("key{n:03}\tvalue {n}\n")).collect();
    let numbers = ["--preset", "leveldb"]; // file numbers depend on it
    terrace_with(["load", path.to_str().unwrap(), "-"].iter().chain(&numbers), lines.as_bytes()).ok();
    terrace(["compact", path.to_str().unwrap()].iter().chain(&numbers)).ok();
    terrace(["put", path.to_str().unwrap(), "k", "v"].iter().chain(&numbers)).ok();
}

const REPAIR: &[&str] = &["repair", "{}", "{}-new"];
const NO_DEVICE: &str = "terrace: {} is neither the directory of a store nor a device for one (length: 4 bytes: the size must be \
     a positive multiple of 4096)";
const NOTHING_TO_REPAIR: &str =
    "terrace: missing store: {} has no table, WAL or manifest, so there is nothing to repair";

const SITUATIONS: &[Situation] = &[
    ("wrong path", |_| (), GET, 1, "terrace: missing store: {} (no such directory)"),
    ("wrong path to delete from", |_| (), &["delete", "{}", "k"], 1, "terrace: missing store: {} (no such directory)"),
    ("wrong path to repair", |_| (), &["repair", "{}", "{}-new"], 1, "terrace: missing directory: {}"),
    ("wrong path to inspect", |_| (), &["inspect", "{}"], 1, "terrace: {}: No such file or directory (os error 2)"),
    ("a file to repair", |at| fs::write(at, "text").unwrap(), REPAIR, 1, NO_DEVICE),
    ("an empty directory to repair", |at| fs::create_dir(at).unwrap(), REPAIR, 1, NOTHING_TO_REPAIR),
    (
        "a directory to repair that has no files but CURRENT",
        |at| {
            fs::create_dir(at).unwrap();
            fs::write(at.join("CURRENT"), "MANIFEST-000001\n").unwrap();
            fs::write(at.join("LOCK"), "").unwrap();
        },
        REPAIR,
        1,
        NOTHING_TO_REPAIR,
    ),
    (
        "a store to convert into itself",
        store,
        &["convert", "{}", "{}"],
        1,
        "terrace: {} is the source store itself; name another directory for the new store",
    ),
    ("an empty directory", |at| fs::create_dir(at).unwrap(), GET, 1, "terrace: missing store: {} (no file CURRENT)"),
    (
        "an empty directory to check",
        |at| fs::create_dir(at).unwrap(),
        CHECK,
        1,
        "terrace: missing store: {} (no file CURRENT)",
    ),
    ("a file", |at| fs::write(at, "text").unwrap(), GET, 1, NO_DEVICE),
    ("a file to write", |at| fs::write(at, "text").unwrap(), PUT, 1, NO_DEVICE),
    (
        "a link that leads nowhere",
        |at| symlink("/nowhere/at/all", at).unwrap(),
        GET,
        1,
        "terrace: missing store: {} (no such directory)",
    ),
    (
        "somebody else's files",
        |at| {
            fs::create_dir(at).unwrap();
            fs::write(at.join("notes.txt"), "mine").unwrap();
        },
        PUT,
        1,
        "terrace: {} contains other files but no store, such as notes.txt; choose an empty or a new directory",
    ),
    (
        "a store of RocksDB's",
        |at| {
            fs::create_dir(at).unwrap();
            ["CURRENT", "IDENTITY", "MANIFEST-000005", "OPTIONS-000007"]
                .iter()
                .for_each(|name| fs::write(at.join(name), "MANIFEST-000005\n").unwrap());
        },
        GET,
        1,
        "terrace: {} is a store of RocksDB's, which Terrace does not open; export it with RocksDB's `ldb dump --hex` and load \
         that into a new directory",
    ),
    (
        "a format of the future",
        |at| {
            store(at);
            fs::write(at.join("TERRACE"), "version = 2\n").unwrap();
        },
        GET,
        1,
        "terrace: {}/TERRACE at byte 0: unknown version \"2\" (this version of Terrace cannot open such a store)",
    ),
    (
        "a feature of the future",
        |at| {
            store(at);
            let text =
                "version = 1\nstorage = directory\ntable_format = block\nvalues = table\nfeatures = time-travel\n";
            fs::write(at.join("TERRACE"), text).unwrap();
        },
        GET,
        1,
        "terrace: {}/TERRACE at byte 68: unknown feature \"time-travel\" (this version of Terrace cannot open such a store)",
    ),
    (
        "half a copy: no CURRENT",
        |at| {
            store(at);
            keep_only(at, |name| name != "CURRENT");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/000005.ldb is there; restore it, or salvage the rest with `terrace repair`",
    ),
    (
        "half a copy: no manifest",
        |at| {
            store(at);
            keep_only(at, |name| !name.starts_with("MANIFEST"));
        },
        GET,
        1,
        "terrace: missing manifest: {}/MANIFEST-000009",
    ),
    (
        "half a copy: no tables",
        |at| {
            store(at);
            keep_only(at, |name| !name.ends_with(".ldb"));
        },
        GET,
        1,
        "terrace: missing table that the manifest names: {}/000005.ldb of level 2",
    ),
    (
        "half a copy: no logs",
        |at| {
            store(at);
            keep_only(at, |name| !name.ends_with(".log"));
        },
        GET,
        1,
        "terrace: missing WAL that the manifest names: {}/000008.log",
    ),
    (
        "a table cut short",
        |at| {
            store(at);
            let table = at.join(&names(at, ".ldb")[0]);
            fs::OpenOptions::new().write(true).open(table).unwrap().set_len(100).unwrap();
        },
        GET, // gets a key from the WAL: reads that do not need the SSTable succeed
        0,
        "",
    ),
    (
        "CURRENT lost in a power cut",
        |at| {
            store(at);
            fs::write(at.join("CURRENT"), "").unwrap();
        },
        GET,
        1,
        "terrace: corrupt CURRENT in {}/CURRENT at byte 0: empty: a power cut lost its last change",
    ),
    (
        "an unknown preset",
        |_| (),
        &["put", "{}", "k", "v", "--preset", "fastest"],
        2,
        "terrace: --preset: unknown preset fastest; there are default, leveldb, bundled, device, noblsm, leveldb-raw, lds, delsm, bolt, wisckey, volatile",
    ),
    (
        "an option without value",
        |_| (),
        &["put", "{}", "k", "v", "--option", "block_cache_size"],
        2,
        "terrace: --option: 'block_cache_size' is not of the form NAME=VALUE",
    ),
    (
        "an option beyond its bounds",
        |_| (),
        &["put", "{}", "k", "v", "--option", "target_file_size=1"],
        2,
        "terrace: --option: target_file_size is 1; it must be between 65536 and 1073741824",
    ),
    ("an odd hex key", |_| (), &["get", "{}", "abc", "--hex"], 2, "terrace: KEY: an odd number of hex digits (3)"),
    (
        "a repair into a store",
        store,
        &["repair", "{}", "{}"],
        1,
        "terrace: {} is the damaged store itself, in which a repair writes nothing; name another place",
    ),
    (
        "a checkpoint onto itself",
        store,
        &["checkpoint", "{}", "{}"],
        1,
        "terrace: {} is the source store itself; name another directory for the copy",
    ),
    (
        "an ingest of what is no table",
        |at| {
            store(at);
            fs::write(at.with_extension("txt"), "some text, which is long enough to be taken for a table").unwrap();
        },
        &["ingest", "{}", "{}.txt"],
        1,
        "terrace: corrupt table footer in {}.txt at byte 47: magic number 656c626174206120: not an SSTable",
    ),
    (
        "an ingest of nothing that is there",
        store,
        &["ingest", "{}", "{}.ldb"],
        1,
        "terrace: open {}.ldb: No such file or directory (os error 2)",
    ),
    ("an unknown command", |_| (), &["defragment", "{}"], 2, "error: unrecognized subcommand 'defragment'"),
    ("too few arguments", |_| (), &["get", "{}"], 2, "error: the following required arguments were not provided:"),
];

#[test]
fn first_lines_and_exit_statuses() {
    judge(SITUATIONS);
}
