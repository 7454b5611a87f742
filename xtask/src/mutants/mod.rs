//! `cargo xtask mutants`: breaks the code with one mutant (a deliberate fault) at a time, and
//! requires that a test fails.
//!
//! ```text
//! [edit-before-outputs-durable]                       in mutants/*.toml; the name
//! breaks = "an edit is logged before its outputs …"   description
//! package = "terrace"                                 crate whose tests run
//! test = "crash::any_power_cut"                       prefix of the tests that must fail
//! dies-with = "seed"                                  substring of the failure's output
//! sample = true                                       part of the sample in `.ci/run`
//! unit = true                                         unit tests; otherwise integration tests
//! loom = true                                         unit tests under Loom
//! [[edit-before-outputs-durable.edit]]                one or more
//! file = "crates/engine/src/…"
//! search = '''…'''                                    occurs exactly once in the file
//! replace = '''…'''
//! ```
//! Mutants are applied to a copy of the source. The source itself is never modified. Without the
//! mutant, the copy must pass the same tests. A mutant that cannot be applied or does not compile
//! is an error, because it proves nothing about the tests.
mod copy;

use anyhow::{Context, Result, bail};
use copy::Copy;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// A change that breaks the code, and the tests that must then fail.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Mutant {
    #[serde(skip)]
    name: String,
    breaks: String,
    package: String,
    test: String,
    dies_with: String,
    #[serde(default)]
    sample: bool,
    #[serde(default)]
    unit: bool,
    #[serde(default)]
    loom: bool,
    edit: Vec<Edit>,
}

/// A replacement in one file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: PathBuf,
    search: String,
    replace: String,
}

/// The mutants to run.
pub enum Choice<'a> {
    /// The sample that CI runs.
    Sample,
    /// The mutants whose names contain one of these strings, or all mutants if the list is empty.
    Named(&'a [String]),
}

/// Runs the selected mutants. Returns an error unless tests fail for each of them.
pub fn run(root: &Path, choice: &Choice<'_>) -> Result<()> {
    let mut mutants = read_all(root)?;
    mutants.retain(|mutant| choice.includes(mutant));
    if mutants.is_empty() {
        bail!("no mutant has such a name");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = Copy::new(root, target.join("mutants"))?;
    let mut passed = BTreeSet::new();
    for mutant in &mutants {
        if passed.insert((&mutant.package, &mutant.test, mutant.loom)) {
            copy.passes(mutant)?;
        }
    }
    let mut survivors = 0;
    println!("{:32} {:>7}  verdict", "mutant", "seconds");
    for mutant in &mutants {
        let begin = Instant::now();
        let verdict = copy.verdict(mutant)?;
        survivors += usize::from(verdict.is_err());
        let seconds = begin.elapsed().as_secs();
        println!("{:32} {seconds:>7}  {}", mutant.name, verdict.as_ref().map_or_else(|why| why.as_str(), |()| "dies"));
        if verdict.is_err() {
            println!("{:40}  {}", "", mutant.breaks);
        }
    }
    if survivors > 0 {
        bail!("{survivors} of {} mutants were not caught", mutants.len());
    }
    println!("mutants: all {} die", mutants.len());
    Ok(())
}

/// Returns the names of the mutants that do not apply to this source, with the reasons.
pub fn outdated(root: &Path) -> Result<Vec<(String, String)>> {
    let mut outdated = Vec::new();
    for mutant in read_all(root)? {
        for edit in &mutant.edit {
            let text = fs::read_to_string(root.join(&edit.file)).unwrap_or_default();
            if let Err(why) = edit.apply(&text) {
                outdated.push((mutant.name.clone(), why.to_string()));
            }
        }
    }
    Ok(outdated)
}

/// Returns all mutants, ordered by file and name.
fn read_all(root: &Path) -> Result<Vec<Mutant>> {
    let folder = root.join("mutants");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let named: BTreeMap<String, Mutant> = toml::from_str(&text).with_context(|| file.display().to_string())?;
        mutants.extend(named.into_iter().map(|(name, mutant)| Mutant { name, ..mutant }));
    }
    Ok(mutants)
}

impl Choice<'_> {
    fn includes(&self, mutant: &Mutant) -> bool {
        match self {
            Choice::Sample => mutant.sample,
            Choice::Named([]) => true,
            Choice::Named(names) => names.iter().any(|name| mutant.name.contains(name)),
        }
    }
}

impl Edit {
    /// Replaces the search text in `text`. Returns an error unless it occurs exactly once.
    fn apply(&self, text: &str) -> Result<String> {
        match text.matches(&self.search).count() {
            1 => Ok(text.replacen(&self.search, &self.replace, 1)),
            count => bail!("{} has {count} times, not once:\n{}", self.file.display(), self.search),
        }
    }
}

impl Mutant {
    /// Returns the arguments of `cargo test` that build or run the tests of this mutant.
    fn arguments(&self) -> Vec<String> {
        let words: &[&str] = match (self.loom, self.unit) {
            (true, _) => &["--profile", "loom", "--config", "build.rustflags=[\"--cfg\",\"loom\"]", "--lib"],
            (false, true) => &["--lib"],
            (false, false) => &["--test", "it"],
        };
        words.iter().chain(&["-p", &self.package]).map(|word| word.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_applies_to_a_unique_place_only() {
        let edit = |search: &str| Edit { file: "f".into(), search: search.into(), replace: "x".into() };
        assert_eq!(edit("b").apply("abc").unwrap(), "axc");
        assert!(edit("a").apply("aba").is_err());
        assert!(edit("d").apply("abc").is_err());
    }
}
