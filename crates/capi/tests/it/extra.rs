//! Tests, with a C program, the functions that only the bindings for other languages use.

use crate::kit::{Against, Kit, said, tool};
use std::process::Command;
use terrace_peers::require;

#[test]
fn functions_for_bindings_shared_and_static() {
    for against in [Against::Terrace, Against::TerraceStatic] {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(said(Kit::new().program("extra", against).arg(place.path().join("store"))), "ended\n");
    }
}

/// Tests the C program `extra` under Valgrind. The program frees everything that it receives from
/// the library, so it must leak no memory.
#[test]
fn functions_for_bindings_leak_no_memory() {
    let Some(valgrind) = require("valgrind", tool("valgrind")) else { return };
    let (kit, place) = (Kit::new(), tempfile::tempdir().unwrap());
    let mut checked = Command::new(valgrind);
    checked.args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=9"]);
    checked.arg(kit.compile("extra", Against::Terrace)).arg(place.path().join("store"));
    kit.find_libraries(&mut checked);
    assert_eq!(said(&mut checked), "ended\n");
}
