//! Tables of error situations, and a function that checks them. Each situation sets up a store and
//! runs a command. The check compares the exit status and the exact first line on stderr with the
//! table (for the command `check`, the first line of its report). `{}` in an expected line stands
//! for the store's path.
use crate::common::{Ran, fresh, terrace};
use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Sets up the situation at a path where nothing exists.
pub type Make = fn(&Path);

/// Name, setup, command, exit status, and first line.
pub type Situation = (&'static str, Make, &'static [&'static str], i32, &'static str);

pub const GET: &[&str] = &["get", "{}", "k"];
pub const PUT: &[&str] = &["put", "{}", "k", "v"];
pub const CHECK: &[&str] = &["check", "{}"];

/// Returns the files and folders in `path` whose names contain `part`.
pub fn names(path: &Path, part: &str) -> Vec<String> {
    let all = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = all.filter(|name| name.contains(part)).collect();
    names.sort();
    names
}

pub fn keep_only(path: &Path, wanted: impl Fn(&str) -> bool) {
    names(path, "").iter().filter(|name| !wanted(name)).for_each(|name| fs::remove_file(path.join(name)).unwrap());
}

/// Sets up every situation and runs its command. Panics with a list of the situations in which the
/// exit status or the first line differs from the table.
pub fn judge(situations: &[Situation]) {
    judge_as(situations, |_, arguments| terrace(arguments));
}

/// Like [`judge`], with commands that `run` executes for the store at a path.
pub fn judge_as(situations: &[Situation], run: impl Fn(&Path, Vec<String>) -> Ran) {
    let mut wrong = Vec::new();
    for (situation, make, arguments, status, line) in situations {
        let (_directory, path) = fresh();
        make(&path);
        let shown = path.to_str().unwrap();
        let ran = run(&path, arguments.iter().map(|argument| argument.replace("{}", shown)).collect());
        let damaged = ["missing log", "missing manifest", "missing table", "missing CURRENT", "corrupt"];
        if damaged.iter().any(|words| ran.err.contains(words)) && arguments[0] != "ingest" {
            assert!(ran.err.contains("`terrace repair` salvages"), "{situation}: {}", ran.err);
        }
        let reports = arguments.contains(&"check") && !ran.out.is_empty();
        let told = if reports { String::from_utf8_lossy(&ran.out) } else { ran.err.as_str().into() };
        let said = told.lines().next().unwrap_or_default().replace(shown, "{}");
        let only_errors = reports || *status == 0 || ran.out.is_empty();
        if (ran.status, said.as_str()) != (*status, *line) || !only_errors {
            wrong.push(format!("{situation}:\n  exits {} with {said}\n  not   {status} with {line}", ran.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Creates a store of this preset. It has an SSTable, values of 700 bytes and smaller ones, and a
/// WAL with one write.
pub fn store(path: &Path, preset: &str) {
    compacted(path, preset, &[]);
}

fn compacted(path: &Path, preset: &str, of: &[&str]) {
    let shown = path.to_str().unwrap();
    let long: String = (0..700).map(|n: u32| char::from(b'a' + (n * n % 23) as u8)).collect();
    terrace(["put", shown, "k", &long, "--preset", preset]).ok();
    // The expected messages contain file numbers, which depend on these options. The store's layout
    // does not depend on them. The GC limit is high because durable marks in the WAL count as
    // garbage: with so few values, the marks alone would exceed a lower limit and start GC.
    let numbers = ["--preset", "leveldb", "--option", "value_log_gc_percent=99"];
    terrace(["put", shown, "small", "value"].iter().chain(&numbers)).ok();
    // The compaction needs two SSTables as inputs, because it would move a single one without
    // rewriting it.
    terrace(["compact", shown].iter().chain(of).chain(&numbers)).ok();
    terrace(["put", shown, "another", &long].iter().chain(&numbers)).ok();
}

/// Creates a store with a value log, whose SSTable has pointers into a WAL segment. The compaction
/// must not cover all keys, because a full one would relocate the values.
pub fn value_log(path: &Path) {
    compacted(path, "wisckey", &["--from", "a"]);
}

pub fn folders(path: &Path) {
    store(path, "delsm");
}

pub fn bundles(path: &Path) {
    store(path, "bolt");
}

/// Creates a device with a store.
pub fn device(path: &Path) {
    prepared(path);
    store(path, "device");
}

pub fn prepared(path: &Path) {
    terrace(["raw", "format", path.to_str().unwrap(), "--size", "8MiB"]).ok();
}

/// Creates a split store (manifest in a directory, WALs and SSTables on a device). `path` is the
/// directory, and the device is a file next to it.
pub fn half(path: &Path) {
    let data = path.with_extension("data");
    let (shown, data) = (path.to_str().unwrap(), data.to_str().unwrap());
    terrace(["raw", "format", data, "--size", "8MiB", "--meta", shown]).ok();
    store(path, "leveldb-raw");
}

/// Removes the file or folder with this name or suffix.
pub fn lose(path: &Path, end: &str) {
    for name in names(path, "").iter().filter(|name| name.ends_with(end)) {
        let there = path.join(name);
        if there.is_dir() { fs::remove_dir_all(there) } else { fs::remove_file(there) }.unwrap();
    }
}

/// Overwrites the first file with this suffix with `bytes` bytes of text that has no store format.
pub fn replace(path: &Path, end: &str, bytes: usize) {
    let name = names(path, "").into_iter().find(|name| name.ends_with(end)).expect("there is one");
    fs::write(path.join(name), "somebody else's text. ".repeat(bytes / 20 + 1).split_at(bytes).0).unwrap();
}

/// Overwrites bytes of a file.
pub fn harm(file: &Path, at: u64, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&vec![0x55; bytes as usize], at).unwrap();
}

pub fn cut(file: &Path, bytes: u64) {
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(bytes).unwrap();
}

/// Returns the folder of the only SSTable.
pub fn table(path: &Path) -> PathBuf {
    let level =
        names(path, "L1").into_iter().chain(names(path, "L2")).find(|name| !names(&path.join(name), "").is_empty());
    let level = path.join(level.expect("a compacted store has a table"));
    level.join(&names(&level, "")[0])
}
