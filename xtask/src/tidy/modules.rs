//! Checks that every source file is reachable by `mod` from the root of its crate or test. Other
//! files are dead code.
use super::{Report, source::Source};
use std::collections::{HashMap, HashSet};

/// Follows `mod` from every root.
pub fn check(sources: &[Source], report: &mut Report) {
    let by_name: HashMap<&str, &Source> = sources.iter().map(|source| (source.name.as_str(), source)).collect();
    let mut reached: HashSet<&str> = HashSet::new();
    let mut waiting: Vec<&Source> = sources.iter().filter(|source| is_root(&source.name)).collect();
    while let Some(source) = waiting.pop() {
        if reached.insert(&source.name) {
            waiting.extend(children(source).iter().filter_map(|name| by_name.get(name.as_str())));
        }
    }
    for source in sources.iter().filter(|source| !reached.contains(source.name.as_str())) {
        report.problem(&source.name, "no `mod` leads here");
    }
}

/// Returns whether a file is the root of a library, program, test, example, bench or build script.
fn is_root(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let kind = folder.rsplit('/').next().unwrap_or("");
    match kind {
        "src" => file == "lib.rs" || file == "main.rs",
        "bin" | "tests" | "examples" | "benches" | "fuzz_targets" => true,
        _ => file == "build.rs" || file == "main.rs" && folder.rsplit('/').nth(1) == Some("tests"),
    }
}

/// Returns the files to which the `mod name;` lines of `source` may refer: `name.rs` and
/// `name/mod.rs`, or the path in `#[path]`.
fn children(source: &Source) -> Vec<String> {
    let (folder, file) = source.name.rsplit_once('/').unwrap_or(("", &source.name));
    let own = if file == "mod.rs" || is_root(&source.name) {
        folder.to_owned()
    } else {
        format!("{folder}/{}", file.trim_end_matches(".rs"))
    };
    let mut found = Vec::new();
    let mut path = None;
    for line in source.text.lines().map(str::trim) {
        if let Some(quoted) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(resolved(folder, quoted));
        } else if let Some(name) = declared(line) {
            match path.take() {
                Some(path) => found.push(path),
                None => found.extend([format!("{own}/{name}.rs"), format!("{own}/{name}/mod.rs")]),
            }
        }
    }
    found
}

/// Resolves `path` relative to `folder`.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the module's name if `line` has the form `mod name;`, with any visibility.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_suffix(';')?;
    let (visibility, name) = line.rsplit_once("mod ")?;
    (visibility.is_empty() || visibility.starts_with("pub")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreached_files_are_found() {
        let source = |name: &str, text: &str| Source::new((name.into(), text.into()));
        let sources = [
            source("crates/a/src/lib.rs", "pub mod b;\npub(crate) mod c;"),
            source("crates/a/src/b.rs", "mod deep;"),
            source("crates/a/src/b/deep.rs", ""),
            source("crates/a/src/c/mod.rs", ""),
            source("crates/a/src/dead.rs", ""),
            source("crates/a/tests/t.rs", "#[path = \"common/x.rs\"]\nmod x;"),
            source("crates/a/tests/common/x.rs", ""),
            source("crates/b/tests/u.rs", "#[path = \"../../a/shared/y.rs\"]\nmod y;"),
            source("crates/a/shared/y.rs", ""),
            source("crates/a/tests/many/main.rs", "mod one;"),
            source("crates/a/tests/many/one.rs", ""),
        ];
        let mut report = Report::default();
        check(&sources, &mut report);
        assert_eq!(report.problems, ["crates/a/src/dead.rs: no `mod` leads here"]);
    }
}
