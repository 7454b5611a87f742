//! `cargo xtask licences`: checks all dependencies, their licences and their sources against
//! `deny.toml`. The file has the syntax of `cargo deny`, but this check does not need that
//! program. The check also fails if the list of dependencies in docs/licences.md is not up to
//! date.
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
    process::Command,
};

const PAGE: &str = "docs/licences.md";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Groups of dependencies in docs/licences.md. A group has the workspace packages whose
/// dependencies belong to it, and a title. A dependency belongs to the first group that matches.
const USERS: &[(&str, &str)] =
    &[("terrace", "the library"), ("terrace-cli", "the command"), ("", "tests, tools, bindings")];

/// Checks the dependencies against the rules and compares them with the page. With `write`, writes
/// the page.
pub fn run(root: &Path, write: bool) -> Result<()> {
    let rules = Rules::read(&fs::read_to_string(root.join("deny.toml")).context("deny.toml")?)?;
    let packages = packages(root)?;
    let refused: Vec<String> = packages.iter().filter_map(|package| rules.refuse(package)).collect();
    if !refused.is_empty() {
        bail!("deny.toml does not allow:\n{}", refused.join("\n"));
    }
    let page = page(&packages);
    if write {
        fs::write(root.join(PAGE), page).context(PAGE)?;
    } else if fs::read_to_string(root.join(PAGE)).context(PAGE)? != page {
        bail!("{PAGE} is not what there is; `cargo xtask licences --write` makes it anew");
    }
    println!("licences: {} packages, all of them allowed", packages.len());
    Ok(())
}

/// A third-party package.
struct Package {
    name: String,
    version: String,
    licence: String,
    source: String,
    user: &'static str,
}

/// The rules in `deny.toml`.
struct Rules {
    allowed: BTreeSet<String>,
    exceptions: BTreeMap<String, BTreeSet<String>>,
}

impl Rules {
    fn read(text: &str) -> Result<Rules> {
        let rules: toml::Value = toml::from_str(text).context("deny.toml")?;
        let names = |list: Option<&toml::Value>| -> Result<BTreeSet<String>> {
            let list = list.and_then(toml::Value::as_array).context("deny.toml: a list of licences is missing")?;
            Ok(list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
        };
        let licences = rules.get("licenses").context("deny.toml: no [licenses]")?;
        let mut exceptions = BTreeMap::new();
        for exception in licences.get("exceptions").and_then(toml::Value::as_array).into_iter().flatten() {
            let of =
                exception.get("crate").and_then(toml::Value::as_str).context("deny.toml: an exception of no crate")?;
            exceptions.insert(of.to_owned(), names(exception.get("allow"))?);
        }
        Ok(Rules { allowed: names(licences.get("allow"))?, exceptions })
    }

    /// Returns the reason if the rules do not allow `package`.
    fn refuse(&self, package: &Package) -> Option<String> {
        let Package { name, version, licence, source, .. } = package;
        let except = self.exceptions.get(name);
        let allowed = |one: &str| self.allowed.contains(one) || except.is_some_and(|except| except.contains(one));
        if source != REGISTRY {
            return Some(format!("{name} {version} comes from {source}"));
        }
        (!permits(licence, &allowed)).then(|| format!("{name} {version}: {licence:?}"))
    }
}

/// Returns whether a licence expression can be satisfied with `allowed` licences. `AND` binds
/// tighter than `OR`. A slash is an old form of `OR`.
fn permits(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "\0WITH\0");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace('\0', " ")).collect();
    let mut rest = &words[..];
    either(&mut rest, allowed).is_some_and(|permitted| permitted && rest.is_empty())
}

fn either(words: &mut &[String], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut permitted = both(words, allowed)?;
    while words.first().is_some_and(|word| word == "OR") {
        *words = &words[1..];
        permitted |= both(words, allowed)?;
    }
    Some(permitted)
}

fn both(words: &mut &[String], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut permitted = one(words, allowed)?;
    while words.first().is_some_and(|word| word == "AND") {
        *words = &words[1..];
        permitted &= one(words, allowed)?;
    }
    Some(permitted)
}

fn one(words: &mut &[String], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let (word, rest) = words.split_first()?;
    *words = rest;
    if word != "(" {
        return Some(allowed(word));
    }
    let permitted = either(words, allowed)?;
    let (close, rest) = words.split_first()?;
    *words = rest;
    (close == ")").then_some(permitted)
}

/// Returns all third-party packages from which the workspace is built on this platform with all
/// features, sorted.
fn packages(root: &Path) -> Result<Vec<Package>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version=1", "--locked", "--all-features"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).current_dir(root);
    let ran = cargo.output().context("cargo metadata")?;
    if !ran.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let metadata: Value = serde_json::from_slice(&ran.stdout).context("cargo metadata")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let all = list(&metadata["packages"]);
    let uses = |name: &str| -> BTreeSet<String> {
        let mut todo: Vec<String> =
            all.iter().filter(|package| package["name"] == name).map(|package| text(&package["id"])).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = todo.pop() {
            for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
                let normal = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
                if normal && found.insert(text(&dependency["pkg"])) {
                    todo.push(text(&dependency["pkg"]));
                }
            }
        }
        found
    };
    let used: Vec<(BTreeSet<String>, &str)> = USERS.iter().map(|(name, user)| (uses(name), *user)).collect();
    let mut packages: Vec<Package> = all
        .iter()
        .filter(|package| !package["source"].is_null() && nodes.contains_key(&text(&package["id"])))
        .map(|package| {
            let id = text(&package["id"]);
            let user = used.iter().find(|(ids, _)| ids.contains(&id)).or(used.last()).map_or("", |(_, user)| *user);
            let [name, version, licence, source] =
                ["name", "version", "license", "source"].map(|key| text(&package[key]));
            Package { name, version, licence, source, user }
        })
        .collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(packages)
}

fn page(packages: &[Package]) -> String {
    let mut page = "# Whose work is in it\n\n\
        All packages that the workspace is built from, tests and optional features included, on Linux with x86-64. Made by\n\
        `cargo xtask licences --write`; `make lint` compares it, and their licences and sources with `deny.toml`. Why each direct\n\
        one is there: [decision 2](decisions/0002-dependencies.md).\n"
        .to_owned();
    for (_, user) in USERS {
        let of_user: Vec<&Package> = packages.iter().filter(|package| package.user == *user).collect();
        let _ = write!(page, "\n## In {user}: {}\n\n| package | version | licence |\n|---|---|---|\n", of_user.len());
        for Package { name, version, licence, .. } in of_user {
            let _ = writeln!(page, "| `{name}` | {version} | {licence} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_permits_what_leaves_an_allowed_choice() {
        let allowed = |one: &str| ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].contains(&one);
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0 OR MIT AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(permits(expression, &allowed), "{expression}");
        }
        for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT", "MIT OR", "Apache-2.0"] {
            assert!(!permits(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn exceptions_are_for_one_package_and_sources_count() {
        let rules = "[licenses]\nallow = [\"MIT\"]\nexceptions = [{ allow = [\"0BSD\"], crate = \"one\" }]\n";
        let rules = Rules::read(rules).unwrap();
        let package = |name: &str, licence: &str, source: &str| Package {
            name: name.into(),
            version: "1.0.0".into(),
            licence: licence.into(),
            source: source.into(),
            user: "",
        };
        assert_eq!(rules.refuse(&package("one", "0BSD", REGISTRY)), None);
        assert!(rules.refuse(&package("two", "0BSD", REGISTRY)).is_some());
        assert!(rules.refuse(&package("two", "MIT", "git+https://example.org/two")).is_some());
    }
}
