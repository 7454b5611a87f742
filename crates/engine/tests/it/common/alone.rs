//! Runs a test in a separate process. Tests need this if they count or limit resources of the
//! whole process.
use std::{any::type_name, env, process::Command};

/// The environment variable that is set in the child processes of [`in_own_process`].
const CHILD: &str = "TERRACE_TEST_ALONE";

/// Runs `body`, which is a whole test, in a child process that runs no other test. Otherwise the
/// tests of one binary run in parallel in one process, and share its descriptors, its limits and
/// its allocation counts.
pub fn in_own_process<F: FnOnce()>(body: F) {
    if env::var_os(CHILD).is_some() {
        return body();
    }
    let path = type_name::<F>(); // it::suite::test::{{closure}}
    let test =
        path.strip_suffix("::{{closure}}").and_then(|path| path.split_once("::")).expect("a closure in a test").1;
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = child.output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{test}: {}: {said}", output.status);
    print!("{said}");
}
