//! Tests commands that read single files of a store. If a FIFO, a link or a file of terabytes is
//! in the place of such a file, the command must refuse it. The command must not wait for the
//! FIFO, follow the link, or read the whole file.
use crate::common::{command, fresh, situations, terrace};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Runs `terrace` with these arguments. Panics if it does not end within twenty seconds. Returns
/// the exit status and the messages.
fn soon(arguments: &[&str]) -> (i32, String) {
    let mut child = command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{arguments:?} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code().expect("no signal"), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn replaced(path: &Path, name: &str, kind: &str) {
    let there = path.join(name);
    let _ = fs::remove_file(&there);
    match kind {
        "FIFO" => assert!(Command::new("mkfifo").arg(&there).status().unwrap().success()),
        "link" => symlink("/dev/zero", &there).unwrap(),
        _ => fs::File::create(&there).unwrap().set_len(1 << 40).unwrap(),
    }
}

#[test]
fn every_command_ends_whatever_lies_under_a_name() {
    for kind in ["FIFO", "link", "1 TiB"] {
        for name in ["CURRENT", "TERRACE", "DATA", "LOCK"] {
            let (_folder, path) = fresh();
            situations::store(&path, "bolt");
            replaced(&path, name, kind);
            let at = path.to_str().unwrap();
            let elsewhere = format!("{at}.repaired");
            let commands: [&[&str]; 8] = [
                &["inspect", at],
                &["doctor", at],
                &["check", at],
                &["stats", at],
                &["get", at, "a"],
                &["scan", at],
                &["repair", at, &elsewhere],
                &["put", at, "a", "b"],
            ];
            for arguments in commands {
                let (status, said) = soon(arguments);
                let reads = ["CURRENT", "TERRACE"].contains(&name) && !["doctor", "repair"].contains(&arguments[0]);
                assert!(
                    !reads || status != 0 && said.contains(name),
                    "{name} is a {kind}: {arguments:?}: {status} {said}"
                );
            }
        }
    }
}

#[test]
fn single_files_are_looked_at_as_a_store_would() {
    let (_folder, path) = fresh();
    situations::store(&path, "bolt");
    for name in ["000005.ldb", "000005.log", "000005.bundle", "MANIFEST-000005", "CURRENT", "TERRACE"] {
        for kind in ["FIFO", "link"] {
            replaced(&path, name, kind);
            let (status, said) = soon(&["inspect", path.join(name).to_str().unwrap()]);
            assert!(status != 0 && !said.is_empty(), "{name} is a {kind}: {said}");
        }
    }
    // A link that the user names on the command line is followed to a store's file.
    let (_other, path) = fresh();
    situations::store(&path, "default");
    let link = path.with_file_name("CURRENT");
    symlink(path.join("CURRENT"), &link).unwrap();
    assert_eq!(soon(&["inspect", link.to_str().unwrap()]).0, 0);
}

/// Tests that `lost discard` does not follow a link in the place of `lost/`, because the link may
/// lead to files of another program.
#[test]
fn lost_is_not_looked_for_through_a_link() {
    let (directory, store) = fresh();
    let others = directory.path().join("others");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("000005.log"), "text").unwrap();
    let store = store.to_str().unwrap();
    terrace(["put", store, "k", "v"]).ok();
    symlink(&others, format!("{store}/lost")).unwrap();
    assert!(terrace(["lost", "discard", store, "--all"]).fails(1).contains("not a directory of this store"));
    assert!(others.join("000005.log").exists(), "a foreign file was removed");
}
