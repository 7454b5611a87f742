//! Tests that a C program prints the same text whether it is compiled against LevelDB or against
//! Terrace.

use crate::kit::{self, Against, Kit, run, said};
use std::process::Command;
use terrace_peers::require;

/// Returns the output of the program `every`, which runs in a new directory.
fn every(kit: &Kit, against: Against) -> String {
    let place = tempfile::tempdir().unwrap();
    said(kit.program("every", against).env("TEST_TMPDIR", place.path()))
}

/// Tests the C program `every` under Valgrind: it must have no leak and no invalid access. The
/// program frees everything that it receives, so any leak is an error of the library.
#[test]
fn every_function_works_and_leaks_no_memory() {
    let Some(valgrind) = require("valgrind", kit::tool("valgrind")) else { return };
    let kit = Kit::new();
    let place = tempfile::tempdir().unwrap();
    let mut checked = Command::new(valgrind);
    checked.args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=9"]);
    checked.arg(kit.compile("every", Against::Terrace)).env("TEST_TMPDIR", place.path());
    kit.find_libraries(&mut checked);
    assert!(said(&mut checked).contains("ended: 11\n"));
}

#[test]
fn a_program_prints_the_same_as_with_leveldb() {
    let Some(()) = require("leveldb", kit::leveldb()) else { return };
    let kit = Kit::new();
    let theirs = every(&kit, Against::LevelDb);
    assert!(theirs.contains("ended: 11\n"), "{theirs}");
    assert_eq!(every(&kit, Against::Terrace), theirs);
    assert_eq!(every(&kit, Against::TerraceStatic), theirs, "linked statically");
    let place = tempfile::tempdir().unwrap();
    let mut preloaded = kit.program("every", Against::LevelDb);
    preloaded.env("TEST_TMPDIR", place.path()).env("LD_PRELOAD", kit.shared_object());
    assert_eq!(said(&mut preloaded), theirs, "compiled for LevelDB, Terrace preloaded");
    // Proves that the program used Terrace: with LevelDB an info log is left at the end.
    assert!(!place.path().join("store/LOG").exists());
}

#[test]
fn a_store_with_a_c_comparator_is_shared_with_leveldb() {
    let Some(()) = require("leveldb", kit::leveldb()) else { return };
    let kit = Kit::new();
    for hands in [[Against::LevelDb, Against::Terrace], [Against::Terrace, Against::LevelDb]] {
        let place = tempfile::tempdir().unwrap();
        for (round, keys) in [0, 1000, 2000, 4000].into_iter().enumerate() {
            run(kit.program("handover", hands[round % 2]).arg(place.path()).arg(keys.to_string()));
        }
    }
}

#[test]
fn options_by_name_and_misuse_from_c() {
    let place = tempfile::tempdir().unwrap();
    run(Kit::new().program("terrace", Against::Terrace).arg(place.path().join("store")));
}

#[test]
fn extensions_of_the_c_interface() {
    let place = tempfile::tempdir().unwrap();
    run(Kit::new().program("extensions", Against::Terrace).arg(place.path().join("store")));
}
