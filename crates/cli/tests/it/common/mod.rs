//! Runs the real `terrace` binary.
pub mod situations;

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;
use terrace_peers::require;

/// The exit status and output of a run.
pub struct Ran {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Returns standard output. Panics unless the run succeeded.
    #[track_caller]
    pub fn ok(self) -> Vec<u8> {
        assert_eq!(self.status, 0, "{}", self.err);
        self.out
    }

    /// Returns standard error. Panics unless the run failed with `status` and printed nothing on
    /// stdout.
    #[track_caller]
    pub fn fails(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}", self.err);
        assert_eq!(String::from_utf8_lossy(&self.out), "");
        self.err
    }
}

/// Runs `terrace` with these arguments and empty stdin.
pub fn terrace<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    terrace_with(arguments, b"")
}

/// Runs `terrace`, which must succeed, and returns the one JSON value that it prints.
pub fn json<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> serde_json::Value {
    serde_json::from_slice(&terrace(arguments).ok()).expect("one JSON value on stdout")
}

/// Returns the output of a run as text.
pub fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).expect("UTF-8")
}

/// Runs `terrace` with `input` on stdin.
pub fn terrace_with<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Ran {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().expect("the binary was built");
    let mut stdin = child.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        // The command may exit without reading all input. The write then fails, which is not an
        // error.
        scope.spawn(move || stdin.write_all(input));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ran");
        let err = String::from_utf8(stderr).expect("messages are text");
        Ran { status: status.code().expect("it was not killed"), out: stdout, err }
    })
}

/// Returns the command with its output piped.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a temporary directory, and the path of a store in it that does not exist yet.
pub fn fresh() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = directory.path().join("store");
    (directory, store)
}

/// Returns `Some` if the test runs as root. Otherwise skips the test; `why` is the reason why it
/// needs root.
pub fn root(why: &str) -> Option<()> {
    let owner = fs::metadata("/proc/self").expect("/proc").uid();
    require("root", if owner == 0 { Ok(()) } else { Err(why) })
}
