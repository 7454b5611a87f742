//! Checks the layers inside the crates `engine` and `storage`. Each row of a list is a layer, and
//! a module may use only modules of earlier rows (lower layers).
use super::{Report, source::Source};
use std::collections::HashMap;

/// The order of one crate's modules.
struct Order {
    folder: &'static str,
    /// Rows of modules from the lowest layer up. Modules of the first row may use each other. In
    /// every other row they may not.
    rows: &'static [&'static [&'static str]],
    /// Pairs of modules that must not use each other although the rows would allow it.
    apart: &'static [(&'static str, &'static str)],
}

const ENGINE: Order = Order { folder: "crates/engine/src/", rows: ROWS, apart: APART };

const STORAGE: Order = Order {
    folder: "crates/storage/src/",
    rows: &[
        &["config", "error", "io_stats"],
        &["memory"],
        &["durability"],
        &["tables"],
        &["values"],
        &["placement"],
        &["backends"],
        &["contract", "watch"],
    ],
    apart: &[],
};

/// The engine's modules from the lowest layer up. `work` is in the lowest row because it uses no
/// other module: it receives jobs as closures.
const ROWS: &[&[&str]] = &[
    &[
        "batch",
        "bounds",
        "bulk",
        "clock",
        "closed_wals",
        "error",
        "events",
        "info_log",
        "locks",
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
    &["transaction"],
];

/// Pairs of modules that must not use each other although the rows would allow it. `write` passes
/// a sealed memtable to its flush job only through `state`. Compaction policies in `compact` must
/// not read data.
const APART: &[(&str, &str)] = &[("write", "jobs"), ("read", "compact")];

/// Checks every path through `crate::` and `super::` in both crates against the order of layers.
pub fn check(sources: &[Source], report: &mut Report) {
    [ENGINE, STORAGE].iter().for_each(|order| order.check(sources, report));
}

impl Order {
    fn check(&self, sources: &[Source], report: &mut Report) {
        let engine: Vec<_> =
            sources.iter().filter_map(|source| Some((source, source.name.strip_prefix(self.folder)?))).collect();
        let Some((lib, _)) = engine.iter().find(|(_, name)| *name == "lib.rs") else {
            return report.problem(self.folder, "no lib.rs");
        };
        let reexports = reexports(&lib.code);
        for (source, name) in &engine {
            let path = module_path(name);
            let Some(user) = path.first().copied() else { continue };
            if self.row(user).is_none() {
                report.problem(&source.name, format!("the order in xtask/src/tidy/order.rs does not know '{user}'"));
                continue;
            }
            for used in uses(&source.code, &path) {
                let used = reexports.get(used.as_str()).cloned().unwrap_or(used);
                if !self.may_use(user, &used) {
                    report.problem(&source.name, format!("'{user}' must not use '{used}'"));
                }
            }
        }
    }

    fn row(&self, module: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.contains(&module))
    }

    /// Returns whether `user` may use `used`. Names that are not modules of a row (macros,
    /// re-exported names of other crates) are always allowed.
    fn may_use(&self, user: &str, used: &str) -> bool {
        let (Some(from), Some(to)) = (self.row(user), self.row(used)) else { return true };
        let apart = self.apart.iter().any(|&(a, b)| (a, b) == (user, used) || (b, a) == (user, used));
        user == used || from == 0 && to == 0 || from > to && !apart
    }
}

/// Returns the module path of a file: `[read, get]` for `read/get.rs`, `[read]` for `read/mod.rs`,
/// and an empty path for `lib.rs`.
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

/// Returns the first segments of all paths that begin at the crate root, through `crate::` or
/// through enough `super::`.
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
        assert!(ENGINE.may_use("db", "write") && ENGINE.may_use("write", "mem") && ENGINE.may_use("options", "error"));
        assert!(!ENGINE.may_use("read", "state") && !ENGINE.may_use("state", "jobs"));
        assert!(
            !ENGINE.may_use("mem", "read") && !ENGINE.may_use("compact", "jobs") && !ENGINE.may_use("write", "jobs")
        );
        assert!(ENGINE.may_use("read", "Ordering"));
    }

    #[test]
    fn storage_is_in_layers() {
        assert!(STORAGE.may_use("backends", "tables") && STORAGE.may_use("values", "tables"));
        assert!(!STORAGE.may_use("tables", "backends") && !STORAGE.may_use("durability", "tables"));
    }
}
