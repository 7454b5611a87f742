//! Error situations in which a user has no right to read or write some of the files.
//! `common/situations.rs` explains the tables.
use crate::common::{self, situations};
use common::Ran;
use situations::{CHECK, GET, PUT, Situation, bundles, device, folders, judge_as, names, table, value_log};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// User id of `nobody`, a user without rights.
const NOBODY: u32 = 65534;

/// Makes `path` readable for all and writable for root only.
fn read_only(path: &Path) {
    allow(path.parent().unwrap(), 0o755);
    each_below(path, &|there| allow(there, if there.is_dir() { 0o555 } else { 0o444 }));
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Calls `change` for `path`, then for everything below it.
fn each_below(path: &Path, change: &dyn Fn(&Path)) {
    if path.exists() {
        change(path);
    }
    if path.is_dir() {
        names(path, "").iter().for_each(|name| each_below(&path.join(name), change));
    }
}

const PERMISSIONS: &[Situation] = &[
    (
        "read-only, to read",
        |at| {
            value_log(at);
            read_only(at);
        },
        GET,
        0,
        "",
    ),
    (
        "read-only, to check",
        |at| {
            folders(at);
            read_only(at);
        },
        CHECK,
        0,
        "made of directory, directory tables, values in table",
    ),
    (
        "read-only device, to read",
        |at| {
            device(at);
            read_only(at);
        },
        GET,
        0,
        "",
    ),
    (
        "read-only, to write",
        |at| {
            value_log(at);
            read_only(at);
        },
        PUT,
        1,
        "terrace: lock {}: Permission denied (os error 13)",
    ),
    (
        "read-only, to compact",
        |at| {
            folders(at);
            read_only(at);
        },
        &["compact", "{}"],
        1,
        "terrace: lock {}: Permission denied (os error 13)",
    ),
    (
        "read-only, to copy",
        |at| {
            bundles(at);
            read_only(at);
        },
        &["checkpoint", "{}", "{}-copy"],
        1,
        "terrace: lock {}: Permission denied (os error 13)",
    ),
    (
        "read-only device, to write",
        |at| {
            device(at);
            read_only(at);
        },
        PUT,
        1,
        "terrace: open {}: Permission denied (os error 13)",
    ),
    (
        "files may be written, their directory not",
        |at| {
            bundles(at);
            each_below(at, &|there| allow(there, if there.is_dir() { 0o555 } else { 0o666 }));
            allow(at.parent().unwrap(), 0o755);
        },
        PUT,
        1,
        "terrace: create {}/000013.ldb: Permission denied (os error 13)",
    ),
    (
        "nothing may be made here",
        |at| allow(at.parent().unwrap(), 0o555),
        PUT,
        1,
        "terrace: make directory {}: Permission denied (os error 13)",
    ),
    (
        "a new store of a repair may not be made",
        |at| {
            bundles(at);
            read_only(at);
            allow(at.parent().unwrap(), 0o555);
        },
        &["repair", "{}", "{}-new"],
        1,
        "terrace: make directory {}-new: Permission denied (os error 13)",
    ),
    (
        "no entry",
        |at| {
            bundles(at);
            read_only(at);
            allow(at, 0o000);
        },
        GET,
        1,
        "terrace: {}: Permission denied (os error 13)",
    ),
    (
        "a bundle may not be read",
        |at| {
            bundles(at);
            read_only(at);
            allow(&at.join("000010.bundle"), 0o000);
        },
        GET,
        1,
        "terrace: open {}/000010.bundle: Permission denied (os error 13)",
    ),
    (
        "a bundle may not be read, to repair",
        |at| {
            bundles(at);
            read_only(at);
            allow(at.parent().unwrap(), 0o777);
            allow(&at.join("000010.bundle"), 0o000);
        },
        &["repair", "{}", "{}-new"],
        1,
        "terrace: open {}/000010.bundle: Permission denied (os error 13)",
    ),
    (
        "CURRENT may not be read, to repair",
        |at| {
            value_log(at);
            read_only(at);
            allow(at.parent().unwrap(), 0o777);
            allow(&at.join("CURRENT"), 0o000);
        },
        &["repair", "{}", "{}-new"],
        1,
        "terrace: open {}/CURRENT: Permission denied (os error 13)",
    ),
    (
        "a log may not be read, to repair",
        |at| {
            value_log(at);
            read_only(at);
            allow(at.parent().unwrap(), 0o777);
            names(at, ".vlog").iter().for_each(|log| allow(&at.join(log), 0o000));
        },
        &["repair", "{}", "{}-new"],
        1,
        "terrace: open {}/000002.vlog: Permission denied (os error 13)",
    ),
    (
        "CURRENT may not be read",
        |at| {
            value_log(at);
            read_only(at);
            allow(&at.join("CURRENT"), 0o000);
        },
        GET,
        1,
        "terrace: open {}/CURRENT: Permission denied (os error 13)",
    ),
    (
        "a table's folder may not be entered",
        |at| {
            folders(at);
            read_only(at);
            allow(&table(at), 0o000);
        },
        GET,
        1,
        "terrace: open {}/L1/000010/META: Permission denied (os error 13)",
    ),
];

/// Runs the error situations as a user without privileges. If the test itself runs as root, it
/// uses another user for the commands.
#[test]
fn permissions() {
    let user = User::found();
    judge_as(PERMISSIONS, |path, arguments| {
        let ran = user.run(&arguments);
        let restored = |there: &Path| allow(there, 0o755);
        restored(path.parent().unwrap()); // otherwise it could not be removed
        each_below(path, &restored);
        ran
    });
}

/// A user without privileges. The tests run commands as this user.
struct User {
    is_root: bool,
    program: PathBuf,
    _copy: TempDir,
}

impl User {
    /// Returns the user. If the test runs as root, its commands run as user `nobody`. If that user
    /// cannot execute the built binary, a copy of the binary is used.
    fn found() -> User {
        let copy = tempfile::tempdir().unwrap();
        allow(copy.path(), 0o755);
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut user = User { is_root, program: env!("CARGO_BIN_EXE_terrace").into(), _copy: copy };
        if user.command(&["--version".into()]).output().is_err() {
            let program = user._copy.path().join("terrace");
            fs::copy(&user.program, &program).unwrap();
            user.program = program;
        }
        user
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, arguments: &[String]) -> Ran {
        let Output { status, stdout, stderr } = self.command(arguments).output().expect("it may be run");
        Ran { status: status.code().expect("it was not killed"), out: stdout, err: String::from_utf8(stderr).unwrap() }
    }
}
