//! Tests that the header has LevelDB's declarations, and that the library exports every function
//! that the headers declare.

use crate::kit::{self, Kit, LEVELDB_HEADER, ours, repository, said};
use std::{collections::BTreeSet, path::Path, process::Command};
use terrace_peers::require;

/// Returns the declarations of a header with single spaces between words. Included headers are
/// left out.
fn declarations(header: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(header).unwrap();
    let own: String =
        text.lines().filter(|line| !line.starts_with("#include")).map(|line| format!("{line}\n")).collect();
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("header.h");
    std::fs::write(&copy, own).unwrap();
    let plain = said(Command::new("cc").args(["-E", "-P", "-DLEVELDB_EXPORT="]).arg(&copy));
    plain.split(';').map(words).filter(|declaration| !declaration.is_empty()).collect()
}

fn words(declaration: &str) -> String {
    let spaced: String = declaration
        .chars()
        .flat_map(|c| if c.is_alphanumeric() || c == '_' { vec![c] } else { vec![' ', c, ' '] })
        .collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn functions(header: &str) -> BTreeSet<String> {
    let name = |declaration: String| {
        let before = declaration.split(" (").next().unwrap().to_owned();
        declaration.contains('(').then(|| before.split(' ').next_back().unwrap().to_owned())
    };
    declarations(&repository().join("include").join(header)).into_iter().filter_map(name).collect()
}

#[test]
fn declarations_match_leveldbs() {
    let Some(()) = require("leveldb", kit::leveldb()) else { return };
    let theirs = declarations(Path::new(LEVELDB_HEADER));
    let ours = declarations(&repository().join("include/leveldb/c.h"));
    assert!(theirs.len() > 80, "only {} declarations found in LevelDB's header", theirs.len());
    assert_eq!(ours.difference(&theirs).collect::<Vec<_>>(), Vec::<&String>::new(), "only ours");
    assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "only LevelDB's");
}

#[test]
fn the_library_exports_what_the_headers_declare_and_nothing_else() {
    let listed = said(
        Command::new("nm")
            .args(["--dynamic", "--defined-only", "--format=just-symbols"])
            .arg(Kit::new().shared_object()),
    );
    let exported: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let declared: BTreeSet<String> = functions("leveldb/c.h").into_iter().chain(functions("terrace/c.h")).collect();
    assert_eq!(exported, declared);
}

#[test]
fn the_library_has_its_soname() {
    let dynamic = said(Command::new("readelf").arg("--dynamic").arg(Kit::new().shared_object()));
    assert!(dynamic.contains("soname: [libterrace.so.0]"), "{dynamic}");
}

#[test]
fn headers_compile_as_cpp() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("a.cc");
    std::fs::write(&source, "#include <terrace/c.h>\n#include <leveldb/c.h>\nint main() { leveldb_free(nullptr); }\n")
        .unwrap();
    kit::run(
        Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c"])
            .arg(&source)
            .args(ours())
            .args(["-o", "/dev/null"]),
    );
}
