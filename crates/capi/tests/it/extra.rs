//! Tests the functions for bindings with C programs.

use crate::kit::{Against, Kit, said, tool};
use std::process::Command;
use terrace_peers::require;

/// The programs, each with whether it gets the path of a store as its argument.
const PROGRAMS: [(&str, bool); 3] = [("extra", true), ("families", true), ("transactions", false)];

fn ends(mut program: Command, has_path: bool) {
    let place = tempfile::tempdir().unwrap();
    if has_path {
        program.arg(place.path().join("store"));
    }
    assert_eq!(said(&mut program), "ended\n");
}

#[test]
fn functions_for_bindings_shared_and_static() {
    let kit = Kit::new();
    for (name, has_path) in PROGRAMS {
        for against in [Against::Terrace, Against::TerraceStatic] {
            ends(kit.program(name, against), has_path);
        }
    }
}

/// Tests the programs under Valgrind: they free everything that they receive, so none may leak.
#[test]
fn functions_for_bindings_leak_no_memory() {
    let Some(valgrind) = require("valgrind", tool("valgrind")) else { return };
    let kit = Kit::new();
    for (name, has_path) in PROGRAMS {
        let mut checked = Command::new(&valgrind);
        checked.args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]);
        checked.arg("--error-exitcode=9").arg(kit.compile(name, Against::Terrace));
        kit.find_libraries(&mut checked);
        ends(checked, has_path);
    }
}
