//! Tests of error messages. A message must say what the problem is, where it occurs, and in which
//! file.
use crate::common;
use common::{command, fresh, terrace, terrace_with};
use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};
use terrace_peers::require;
use terrace_storage::bpf::CommitIterator;

const READING: [&str; 5] = ["scan", "dump", "stats", "check", "inspect"];

fn make(store: &str) {
    terrace_with(["load", store, "-"], b"a\t1\nb\t2\n").ok();
}

#[test]
fn a_missing_store_is_named_and_not_made() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let commands = READING.map(|command| vec![command, store]);
    let more = [vec!["get", store, "k"], vec!["delete", store, "k"], vec!["compact", store]];
    for arguments in commands.into_iter().chain(more) {
        let error = terrace(&arguments).fails(1);
        assert!(error.contains(store), "{arguments:?}: {error}");
        assert!(!Path::new(store).exists(), "{arguments:?}");
    }
}

#[test]
fn an_empty_directory_is_no_store_to_read() {
    let (_directory, store) = fresh();
    fs::create_dir(&store).unwrap();
    for command in READING {
        let error = terrace([command, store.to_str().unwrap()]).fails(1);
        assert!(error.contains("CURRENT") || error.contains("store"), "{command}: {error}");
    }
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
}

#[test]
fn foreign_directories_are_refused_and_left_alone() {
    for (file, word) in [("notes.txt", "notes.txt"), ("OPTIONS-000007", "RocksDB"), ("IDENTITY", "RocksDB")] {
        let (_directory, store) = fresh();
        fs::create_dir(&store).unwrap();
        fs::write(store.join(file), "mine").unwrap();
        if word == "RocksDB" {
            fs::write(store.join("CURRENT"), "MANIFEST-000005\n").unwrap();
            fs::write(store.join("MANIFEST-000005"), "").unwrap();
        }
        let before = names(&store);
        let path = store.to_str().unwrap();
        let error = terrace(["put", path, "k", "v"]).fails(1);
        assert!(error.contains(word), "{file}: {error}");
        let error = terrace(["get", path, "k"]).fails(1);
        assert!(!error.contains("no such key"), "{file}: {error}");
        assert_eq!(names(&store), before, "{file}");
        assert_eq!(fs::read_to_string(store.join(file)).unwrap(), "mine");
    }
}

#[test]
fn a_marker_of_the_future_is_refused_by_name() {
    let (_directory, store) = fresh();
    let path = store.to_str().unwrap();
    make(path);
    for (text, word) in [
        ("version = 2\nstorage = directory\ntable_format = block\nvalues = table\nfeatures =\n", "version"),
        (
            "version = 1\nstorage = directory\ntable_format = block\nvalues = table\nfeatures = time-travel\n",
            "time-travel",
        ),
    ] {
        fs::write(store.join("TERRACE"), text).unwrap();
        for arguments in [&["get", path, "a"][..], &["put", path, "a", "2"], &["check", path]] {
            let error = terrace(arguments).fails(1);
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }
    fs::remove_file(store.join("TERRACE")).unwrap();
    assert_eq!(terrace(["get", path, "a"]).ok(), b"1\n");
}

#[test]
fn a_store_in_use_is_refused_and_readers_share() {
    let (_directory, store) = fresh();
    let path = store.to_str().unwrap();
    make(path);
    // The `load` process waits for input. It has the store open as soon as the store has a WAL that
    // this process created.
    let mut loading =
        command(["load", path, "-", "--option", "write_buffer_size=64KiB"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = loading.stdin.take().unwrap();
    stdin.write_all(format!("c\t{}\n", "3".repeat(2 << 20)).as_bytes()).unwrap();
    let deadline = 200;
    let refused = (0..deadline).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let ran = terrace(["get", path, "a"]);
        (ran.status != 0).then_some(ran)
    });
    let error = refused.expect("a second opener is refused").fails(1);
    assert!(error.contains("in use") && error.contains(path), "{error}");
    let error = terrace(["put", path, "k", "v"]).fails(1);
    assert!(error.contains("in use") && error.contains(path), "{error}");
    drop(stdin);
    assert!(loading.wait_with_output().unwrap().status.success());

    // A scan that is not finished keeps the store open. Other readers may share the store with it,
    // but no writer.
    let mut scanning = command(["dump", path]).spawn().unwrap();
    let mut first = [0];
    scanning.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(terrace(["get", path, "a"]).ok(), b"1\n");
    assert!(terrace(["put", path, "k", "v"]).fails(1).contains("in use"));
    drop(scanning.stdout.take());
    scanning.wait().unwrap();
    terrace(["put", path, "k", "v"]).ok();
}

#[test]
fn permissions_that_lack_are_named() {
    let (_directory, store) = fresh();
    let path = store.to_str().unwrap();
    make(path);
    let allow = |mode| fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o000);
    let readable = fs::read_dir(&store).is_ok(); // root reads everything
    let ran = terrace(["get", path, "a"]);
    allow(0o755);
    if readable {
        println!("skipped: this user may read everything");
        return;
    }
    let error = ran.fails(1);
    assert!(error.contains(path) && error.to_lowercase().contains("permission denied"), "{error}");
}

#[test]
fn damage_is_found_and_located() {
    let (_directory, store) = fresh();
    let path = store.to_str().unwrap();
    let lines: String = (0..2000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    terrace_with(["load", path, "-"], lines.as_bytes()).ok();
    terrace(["compact", path]).ok();
    let table = names(&store).into_iter().find(|name| name.ends_with(".ldb")).expect("a compacted store has a table");
    let mut bytes = fs::read(store.join(&table)).unwrap();
    bytes[1000] ^= 0x10;
    fs::write(store.join(&table), bytes).unwrap();
    let ran = terrace(["check", path]);
    assert_eq!(ran.status, 1);
    let said = String::from_utf8(ran.out).unwrap();
    assert!(said.contains(&table) && said.contains("checksum"), "{said}");
    let ran = terrace(["check", path, "--json"]);
    assert_eq!(ran.status, 1);
    let report: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["problems"].as_array().unwrap().len(), 1);
}

/// Tests that the advice in an error message never names the command that has just failed.
#[test]
fn advice_names_another_command() {
    let (directory, store) = fresh();
    let path = store.to_str().unwrap();
    make(path);
    let manifest = names(&store).into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    fs::remove_file(store.join(manifest)).unwrap();
    let advice = |command: &str| {
        let error = terrace([command, path]).fails(1);
        (error.contains("`terrace check`"), error.contains("`terrace repair`"))
    };
    assert_eq!((advice("check"), advice("scan")), ((false, true), (true, true)));
    terrace(["repair", path, directory.path().join("new").to_str().unwrap()]).ok();
}

fn names(store: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(store).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn only_a_bpf_file_system_can_be_pinned_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commits").display().to_string();
    let error = terrace(["pin", &path]).fails(1);
    assert!(error.contains("bpf"), "{error}");
    assert!(!folder.path().join("commits").exists());
    let out = String::from_utf8(terrace(["pin", "--remove", &path]).ok()).unwrap();
    assert!(out.contains("nothing was pinned"), "{out}");
    assert!(terrace(["pin", &path, "more"]).fails(2).contains("more"));
}

/// Tests a machine on which `/sys/fs/bpf` is mounted so that only root can enter it, as on many
/// systems. Users other than root cannot use a pin (the installed BPF program) there, so the pin
/// must not be reported as usable by everyone.
#[test]
fn a_pin_that_others_cannot_reach_is_no_pin_for_everybody() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let pins = folder.path().join("pins");
    fs::create_dir(&pins).unwrap();
    let privileged = CommitIterator::open(Path::new("/nothing is pinned here")).map(drop);
    let Some(()) = require("bpf", privileged) else { return };
    let mounted = Command::new("mount").args(["-t", "bpf", "-o", "mode=700", "bpf"]).arg(&pins).status().unwrap();
    assert!(mounted.success());
    let path = pins.join("commits").display().to_string();
    let outcome = std::panic::catch_unwind(|| {
        let pin = || String::from_utf8(terrace(["pin", &path]).ok()).unwrap();
        let told = pin();
        assert!(told.contains("only root") && told.contains(&format!("chmod o+x {}", pins.display())), "{told}");
        fs::set_permissions(&pins, Permissions::from_mode(0o711)).unwrap();
        assert!(pin().contains("all users"));
    });
    assert!(Command::new("umount").arg(&pins).status().unwrap().success());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
