//! Tests of the BPF iterator, which returns for each file the journal transaction of its last
//! change, on a real ext4 file system. The tests check that this information is right, which
//! processes may read it, and that a store can rely on it (mode `journal-bpf`).
//!
//! The tests need root, loop devices and a kernel that accepts BPF programs (`TERRACE_REQUIRE`
//! names: `root`, `loop`, `bpf`).
use crate::common::loop_fs;
use loop_fs::{LoopFs, is_root, run};
use std::{
    env,
    fs::{self, File, OpenOptions, Permissions},
    io::{ErrorKind, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::Command,
};
use terrace::{Db, Options};
use terrace_peers::require;
use terrace_storage::bpf::{CommitIterator, pin};

/// A mount option with which the kernel makes no periodic commit during a test.
const QUIET: &str = "commit=300";
/// The environment variable with the directory that the parent process prepared for its child.
const PLACE: &str = "TERRACE_TEST_PLACE";
const NOBODY: u32 = 65534;

fn iterator() -> Option<CommitIterator> {
    require("bpf", CommitIterator::open(Path::new("/nothing is pinned here")))
}

fn create(path: PathBuf) -> File {
    let mut file = OpenOptions::new().create_new(true).read(true).write(true).open(path).expect("create");
    file.write_all(&[7; 100_000]).expect("write");
    file
}

/// Returns whether the journal transaction that contains the file's last change is committed.
fn is_committed(iterator: &CommitIterator, file: &File) -> bool {
    let standing = iterator.transaction_state(file.as_fd()).expect("the kernel reports it");
    standing.committed.wrapping_sub(standing.transaction) as i32 >= 0
}

#[test]
fn a_transaction_is_committed_by_a_commit_and_not_before() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let Some(iterator) = iterator() else { return };
    let (one, other) = (create(file_system.mount.join("one")), create(file_system.mount.join("other")));
    assert!(!is_committed(&iterator, &one), "no commit has run");
    let before = iterator.transaction_state(one.as_fd()).unwrap();
    other.sync_all().expect("sync");
    assert!(is_committed(&iterator, &one), "they were in one transaction");
    let after = iterator.transaction_state(one.as_fd()).unwrap();
    assert_eq!((after.transaction, after.committed), (before.transaction, before.transaction));
    one.set_len(5).expect("truncate");
    assert!(!is_committed(&iterator, &one), "it has changed since");

    let elsewhere = File::open("/proc/self/status").expect("open");
    assert_eq!(
        iterator.transaction_state(elsewhere.as_fd()).expect_err("no journal there").kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn an_aborted_journal_is_reported() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let Some(iterator) = iterator() else { return };
    let file = create(file_system.mount.join("file"));
    iterator.transaction_state(file.as_fd()).expect("all is well");
    // The mount option `abort`, which an administrator may use, aborts the journal and makes the
    // file system read-only.
    run("mount", &["-o", "remount,abort", &file_system.mount.display().to_string()]).expect("abort");
    let error = iterator.transaction_state(file.as_fd()).expect_err("the journal was aborted");
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
}

/// Tests that unprivileged users cannot use the iterator unless root has pinned it in the BPF file
/// system. After that, every user may read it, and gets information about the user's own files.
#[test]
fn unprivileged_users_are_refused_unless_root_pinned_the_iterator() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], QUIET)) else { return };
    let Some(_) = iterator() else { return };
    let (pins, files) = (file_system.mount.join("pins"), file_system.mount.join("files"));
    fs::create_dir(&pins).and_then(|()| fs::create_dir(&files)).expect("make directories");
    fs::set_permissions(&files, Permissions::from_mode(0o777)).expect("open to all");
    fs::set_permissions(file_system.directory.path(), Permissions::from_mode(0o755)).expect("open to all");
    // The binary is copied, because not every user may read the build directory.
    let binary = file_system.mount.join("files/test");
    fs::copy(env::current_exe().expect("a binary"), &binary).expect("copy");
    run("mount", &["-t", "bpf", "-o", "mode=755", "bpf", &pins.display().to_string()]).expect("mount");
    let outcome = std::panic::catch_unwind(|| {
        assert!(pin(&files.join("no bpf file system")).is_err());
        pin(&pins.join("commits")).expect("pin");
        let mut child = Command::new(&binary);
        child
            .args(["--exact", "transactions::child_without_privileges", "--nocapture"])
            .env(PLACE, &file_system.mount)
            .uid(NOBODY)
            .gid(NOBODY);
        let output = child.output().expect("a child");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    });
    run("umount", &[&pins.display().to_string()]).expect("unmount");
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Not a test: the child process that reads the iterator as a user without privileges.
#[test]
fn child_without_privileges() {
    let Some(place) = env::var_os(PLACE).map(PathBuf::from) else { return };
    assert_eq!(fs::metadata("/proc/self").expect("a process").uid(), NOBODY);
    let refused = CommitIterator::open(Path::new("/nothing is pinned here")).map(drop).expect_err("no privilege");
    assert!(refused.contains("privilege"), "{refused}");
    let forged = CommitIterator::open(&place.join("files/test")).map(drop).expect_err("not an iterator");
    assert!(forged.contains("root has pinned"), "{forged}");
    let pinned = CommitIterator::open(&place.join("pins/commits")).expect("anybody may read it");
    let file = create(place.join("files/mine"));
    assert!(!is_committed(&pinned, &file));
    file.sync_all().expect("sync");
    assert!(is_committed(&pinned, &file));
}

#[test]
fn a_store_uses_mode_journal_bpf() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(file_system) = require("loop", LoopFs::with(&[], "commit=1")) else { return };
    let Some(_) = iterator() else { return };
    let mut options = Options::default();
    for (name, value) in
        [("durability", "journal-bpf"), ("write_buffer_size", "64KiB"), ("level0_file_num_compaction_trigger", "2")]
    {
        options.set(name, value).expect("an option");
    }
    let db = Db::open(file_system.mount.join("store"), options.clone()).expect("open");
    (0..3000u32).for_each(|n| db.put((n * 7919 % 1000).to_be_bytes(), [n as u8; 300]).expect("put"));
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let said = db.statistics();
    assert_eq!((said.durability, said.durable_sequence, said.pending_edits), ("journal-bpf", 3000, 0));
    let synced: Vec<_> = said.syncs.iter().filter(|(_, syncs)| syncs.count > 0).map(|(kind, _)| *kind).collect();
    assert_eq!(synced, ["manifest", "directory", "root"], "{:?}", said.syncs);
    drop(db);
    let image = file_system.after_power_cut().expect("the image can be mounted");
    let found = Db::open(image.mount.join("store"), options).expect("open what a power cut left");
    assert!((0..1000u32).all(|n| found.get(n.to_be_bytes()).expect("get").is_some()));
}
