//! Import cycles between the source files of a crate.
//!
//! The files are the nodes of a graph. The graph has an edge from file A to file B if A uses a
//! name that B defines. If A uses a name that another file re-exports (`pub use`), the edge leads
//! to the file with the definition. A re-export is itself an edge only if its file also uses the
//! name. A declaration `mod name;` is not an edge. Unit tests are ignored.
use super::{Report, source::Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Source folders, and the permitted number of their files on import cycles. These numbers may
/// only decrease.
const ALLOWED: &[(&str, usize)] =
    &[("crates/vfs/src/", 0), ("crates/storage/src/", 0), ("crates/engine/src/", 0), ("crates/lab/src/", 0)];

/// Finds the cycles of every folder in the list.
pub fn check(sources: &[Source], report: &mut Report) {
    for (folder, allowed) in ALLOWED {
        let cycles = Crate::new(folder, sources).cycles();
        let files: usize = cycles.iter().map(Vec::len).sum();
        if files > *allowed {
            for cycle in &cycles {
                report.problem(folder, format!("import cycle between {} files: {}", cycle.len(), cycle.join(", ")));
            }
        }
        if files < *allowed {
            let why = format!("{files} files lie on import cycles; lower the {allowed} in xtask/src/tidy/cycles.rs");
            report.warnings.push(format!("{folder}: {why}"));
        }
    }
}

/// A path of modules from the crate's root.
type Module = Vec<String>;

/// One name that a file imports.
struct Import {
    /// The name that the file uses for the import; `*` for a glob.
    name: String,
    path: Vec<String>,
    public: bool,
}

/// One source file: its module, its imports, and its code without the imports.
struct File<'a> {
    name: &'a str,
    module: Module,
    imports: Vec<Import>,
    rest: String,
}

/// The files of one crate.
struct Crate<'a> {
    files: Vec<File<'a>>,
    by_module: HashMap<Module, usize>,
}

impl<'a> Crate<'a> {
    fn new(folder: &str, sources: &'a [Source]) -> Crate<'a> {
        let files: Vec<File<'a>> = sources
            .iter()
            .filter_map(|source| {
                let name = source.name.strip_prefix(folder)?;
                let (imports, rest) = imports(&source.code);
                Some(File { name, module: module(name), imports, rest })
            })
            .collect();
        let by_module = files.iter().enumerate().map(|(at, file)| (file.module.clone(), at)).collect();
        Crate { files, by_module }
    }

    /// Returns groups of files. From each file of a group, imports lead to every other file of the
    /// group and back.
    fn cycles(&self) -> Vec<Vec<String>> {
        let edges: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|at| self.edges(at)).collect();
        let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reach(&edges, from)).collect();
        let mut groups: BTreeMap<BTreeSet<usize>, Vec<String>> = BTreeMap::new();
        for at in 0..edges.len() {
            let group: BTreeSet<usize> =
                reached[at].iter().copied().filter(|other| reached[*other].contains(&at)).collect();
            if group.len() > 1 {
                groups.entry(group).or_default().push(self.files[at].name.to_owned());
            }
        }
        groups.into_values().collect()
    }

    /// Returns the files whose definitions file `at` uses.
    fn edges(&self, at: usize) -> BTreeSet<usize> {
        let file = &self.files[at];
        let mut found = BTreeSet::new();
        for import in &file.imports {
            if !import.public || has_word(&file.rest, &import.name) {
                found.extend(self.resolve(at, &import.path, 0));
            }
        }
        for path in inline_paths(&file.rest) {
            found.extend(self.resolve(at, &path, 0));
        }
        found.remove(&at);
        found
    }

    /// Returns the file that defines `path`, resolved from file `at`. Returns `None` for names of
    /// other crates.
    fn resolve(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        let mut module = self.files[at].module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    module.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let mut child = module.clone();
                child.push(first.to_owned());
                let imported = self.files[at].imports.iter().any(|import| import.name == first);
                if !self.by_module.contains_key(&child) && (!imported || depth == 0) {
                    return None; // a name of another crate or of this file, or an import (an edge itself)
                }
            }
        }
        while let Some(first) = rest.first() {
            module.push(first.clone());
            if !self.by_module.contains_key(&module) {
                module.pop();
                break;
            }
            rest = &rest[1..];
        }
        let here = *self.by_module.get(&module)?;
        let Some(name) = rest.first() else { return Some(here) };
        let import = self.files[here].imports.iter().find(|import| import.name == *name && depth < 16);
        match import {
            Some(import) if here != at || depth > 0 => {
                let further: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
                self.resolve(here, &further, depth + 1)
            }
            _ => Some(here),
        }
    }
}

/// Returns every file that `from` reaches in one step or more.
fn reach(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(at) = waiting.pop() {
        waiting.extend(edges[at].iter().copied().filter(|next| found.insert(*next)));
    }
    found
}

/// Returns the module path of a file: `[read, get]` for `read/get.rs`, `[read]` for `read/mod.rs`,
/// and an empty path for `lib.rs`.
fn module(name: &str) -> Module {
    let path = name.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Returns the imports of all `use` declarations in `code`, one for each name, and the code
/// without these declarations.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest, mut from) = (Vec::new(), String::new(), 0);
    while let Some(at) = next_use(code, from) {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let Some(end) = code[at..].find(';').map(|end| at + end) else { break };
        let public = code[line..at].trim_start().starts_with("pub");
        expand(code[at + "use ".len()..end].trim(), &[], public, &mut found);
        rest.push_str(&code[from..line]);
        from = end + 1;
    }
    rest.push_str(&code[from..]);
    (found, without_declarations(&rest))
}

/// Returns `code` without `mod name;` and without the paths of visibilities, because neither uses
/// a name.
fn without_declarations(code: &str) -> String {
    let is_module = |line: &&str| line.trim_end().ends_with(';') && line.trim_start().starts_with("mod ");
    let is_module =
        |line: &&str| is_module(line) || line.contains("mod ") && line.starts_with("pub") && line.ends_with(';');
    let mut kept: String = code.lines().filter(|line| !is_module(line)).flat_map(|line| [line, "\n"]).collect();
    while let Some(at) = kept.find("pub(in ") {
        let end = kept[at..].find(')').map_or(kept.len(), |end| at + end + 1);
        kept.replace_range(at..end, "pub");
    }
    kept
}

/// Returns the offset of `use` in the next declaration. Only blanks and a visibility may precede
/// `use` on its line.
fn next_use(code: &str, from: usize) -> Option<usize> {
    code[from..].match_indices("use ").map(|(at, _)| from + at).find(|at| {
        let line = code[..*at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line..*at].trim();
        before.is_empty() || before == "pub" || before.starts_with("pub(") && before.ends_with(')')
    })
}

/// Adds the imports of one `use` tree to `found`, such as `a::{b, c as d, e::*}`.
fn expand(tree: &str, before: &[String], public: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    let (path, group) = match tree.find('{') {
        Some(at) => (tree[..at].trim().trim_end_matches("::"), Some(tree[at + 1..].trim().trim_end_matches('}'))),
        None => (tree, None),
    };
    let (path, alias) = path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let mut whole: Vec<String> = before.to_vec();
    whole.extend(path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
    let Some(group) = group else {
        if whole.last().is_some_and(|last| last == "self") && whole.len() > 1 {
            whole.pop();
        }
        let name = alias.map(str::to_owned).or_else(|| whole.last().cloned()).unwrap_or_default();
        if name == "*" {
            whole.pop();
        }
        found.push(Import { name, path: whole, public });
        return;
    };
    let (mut depth, mut start) = (0, 0);
    let group = balanced(group);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&group[start..at], &whole, public, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        expand(&group[start..], &whole, public, found);
    }
}

/// Returns `group` with its missing closing braces. [`expand`] removes all closing braces at the
/// end of a group, although only the last of these braces closes the group itself.
fn balanced(group: &str) -> String {
    let missing = group.matches('{').count().saturating_sub(group.matches('}').count());
    format!("{group}{}", "}".repeat(missing))
}

/// Returns the paths in code that begin with a lower-case name: `crate::a::B`, `super::c()`,
/// `child::d()`.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|c: char| !is_name(c)).map_or(0, |end| end + 1);
        let begins = !code[..start].ends_with("::") && code[start..at].starts_with(|c: char| c.is_ascii_lowercase());
        if begins {
            let end = code[at..].find(|c: char| !is_name(c) && c != ':').map_or(code.len(), |end| at + end);
            found.push(code[start..end].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
    found
}

fn has_word(code: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(in_name)
            && !code[at + word.len()..].chars().next().is_some_and(in_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> =
            files.iter().map(|(name, text)| Source::new((format!("c/src/{name}").into(), (*text).into()))).collect();
        Crate::new("c/src/", &sources).cycles()
    }

    #[test]
    fn files_that_use_each_other_are_a_cycle() {
        let a = ("a.rs", "use crate::b::{self, B};\npub struct A(B);");
        assert_eq!(cycles(&[("lib.rs", "mod a;\nmod b;"), a, ("b.rs", "pub struct B;")]), Vec::<Vec<String>>::new());
        assert_eq!(
            cycles(&[("lib.rs", "mod a;\nmod b;"), a, ("b.rs", "fn f() { super::a::A::new(); }")]),
            [["a.rs", "b.rs"]]
        );
    }

    #[test]
    fn a_re_export_leads_to_the_definition_and_is_no_edge_itself() {
        let door = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{deep::B as C};");
        let deep = ("b/deep.rs", "use crate::A;\npub struct B(A);");
        assert!(cycles(&[door, ("a.rs", "pub struct A;"), ("b/mod.rs", "pub mod deep;"), deep]).is_empty());
        let back = ("a.rs", "use crate::{C};\npub struct A(C);");
        assert_eq!(cycles(&[door, back, ("b/mod.rs", "pub mod deep;"), deep]), [["a.rs", "b/deep.rs"]]);
        let uses = ("lib.rs", "mod a;\npub use a::A;\npub struct Root(A);");
        assert_eq!(cycles(&[uses, ("a.rs", "use crate::Root;\npub struct A;")]), [["lib.rs", "a.rs"]]);
    }

    #[test]
    fn calls_by_a_module_s_name_count_and_tests_do_not() {
        let parent = ("m/mod.rs", "mod log;\npub struct Store;\nfn f() { log::create() }");
        let child = "use super::Store;\npub fn create() -> Store {}";
        assert_eq!(cycles(&[parent, ("m/log.rs", child)]), [["m/mod.rs", "m/log.rs"]]);
        let tested = "pub fn create() {}\n#[cfg(test)]\nmod tests { use super::super::Store; }";
        assert!(cycles(&[parent, ("m/log.rs", tested)]).is_empty());
    }

    #[test]
    fn groups_within_groups_are_expanded() {
        let (found, rest) = imports("pub(crate) use a::{b::{c, d as e}, f, self};\nuse g::*;\nfn h() {}");
        let names: Vec<_> = found.iter().map(|import| (import.path.join("::"), import.name.as_str())).collect();
        let wanted = [("a::b::c", "c"), ("a::b::d", "e"), ("a::f", "f"), ("a", "a"), ("g", "*")];
        assert_eq!(names, wanted.map(|(path, name)| (path.to_string(), name)));
        assert_eq!(rest.trim(), "fn h() {}");
    }
}
