//! Imports within the engine follow the layering: a module may use modules of earlier rows.
use super::{Report, source::Source};
use std::collections::HashMap;

const ENGINE: &str = "crates/engine/src/";

/// Modules from the lowest layer up. In a row, only the first module may be used by the others.
/// `work` is low because it knows jobs as closures only.
const ROWS: &[&[&str]] = &[
    &[
        "batch",
        "bounds",
        "bulk",
        "clock",
        "closed_logs",
        "error",
        "events",
        "options",
        "presets",
        "reserve",
        "sorted_table",
        "stats",
        "sync",
        "waiters",
        "work",
    ],
    &["mem"],
    &["version"],
    &["compact"],
    &["read"],
    &["state"],
    &["rate_limit", "enospc"],
    &["jobs"],
    &["write"],
    &["recover"],
    &["check", "db"],
];

/// Pairs that must not meet although the order would allow it: a sealed memtable reaches its
/// flush through `state`, and compactions are picked without reading data.
const APART: &[(&str, &str)] = &[("write", "jobs"), ("read", "compact")];

/// Checks every `crate::` and `super::` path of the engine against the order.
pub fn check(sources: &[Source], report: &mut Report) {
    let engine: Vec<_> =
        sources.iter().filter_map(|source| Some((source, source.name.strip_prefix(ENGINE)?))).collect();
    let Some((lib, _)) = engine.iter().find(|(_, name)| *name == "lib.rs") else {
        return report.problem(ENGINE, "no lib.rs");
    };
    let reexports = reexports(&lib.code);
    for (source, name) in &engine {
        let path = module_path(name);
        let Some(user) = path.first().copied() else { continue };
        if row(user).is_none() {
            report.problem(&source.name, format!("the order in xtask/src/tidy/engine.rs does not know '{user}'"));
            continue;
        }
        for used in uses(&source.code, &path) {
            let used = reexports.get(used.as_str()).cloned().unwrap_or(used);
            if !may_use(user, &used) {
                report.problem(&source.name, format!("'{user}' must not use '{used}'"));
            }
        }
    }
}

fn row(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// Names that are no modules of the order (macros, re-exported names of other crates) are not
/// checked.
fn may_use(user: &str, used: &str) -> bool {
    let (Some(from), Some(to)) = (row(user), row(used)) else { return true };
    let apart = APART.iter().any(|&(a, b)| (a, b) == (user, used) || (b, a) == (user, used));
    user == used || from == 0 && to == 0 || from > to && !apart
}

/// `read/get.rs` is `[read, get]`, `read/mod.rs` is `[read]`, `lib.rs` is the crate itself.
fn module_path(name: &str) -> Vec<&str> {
    let path = name.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { Vec::new() } else { path.split('/').collect() }
}

/// Returns the module of each name that `lib.rs` re-exports: `pub use error::{Error, Result};`.
fn reexports(lib: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for line in lib.split(';') {
        let Some((_, path)) = line.trim_start().rsplit_once("use ") else { continue };
        let Some((module, names)) = path.split_once("::") else { continue };
        for name in first_names(names) {
            found.insert(name, module.trim().to_owned());
        }
    }
    found
}

/// Returns the first segments of all paths from the crate root, by `crate::` or by enough
/// `super::`.
fn uses(code: &str, path: &[&str]) -> Vec<String> {
    let to_root = "super::".repeat(path.len());
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        found.extend(first_names(&code[at + "crate::".len()..]));
    }
    for (at, _) in code.match_indices(&to_root) {
        if !code[..at].ends_with("super::") {
            found.extend(first_names(&code[at + to_root.len()..]));
        }
    }
    found
}

/// Returns the first name of `path`, or the first names of all paths in a brace group.
fn first_names(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = path.trim_start().strip_prefix('{') else { return vec![name(path)] };
    let mut names = vec![name(group)];
    let mut depth = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&group[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_the_root_are_found() {
        let code = "use crate::{Error, mem::{Table, Kind}, version::set};\nfn f() { crate::db::go(); super::a(); super::super::state::b() }";
        assert_eq!(uses(code, &["read", "get"]), ["Error", "mem", "version", "db", "state"]);
        assert_eq!(uses("super::work::x()", &["flush"]), ["work"]);
        assert_eq!(reexports("mod db;\npub use error::{Error, Result};\npub use db::Db;")["Result"], "error");
    }

    #[test]
    fn arrows_point_one_way() {
        assert!(may_use("db", "write") && may_use("write", "mem") && may_use("options", "error"));
        assert!(!may_use("read", "state") && !may_use("state", "jobs"));
        assert!(!may_use("mem", "read") && !may_use("compact", "jobs") && !may_use("write", "jobs"));
        assert!(may_use("read", "Ordering"));
    }
}
