//! `cargo xtask mutants`: each known way to break the engine must make a test fail.
//!
//! ```text
//! # what: the manifest edit is logged before its tables are durable       (a line for people)
//! # test: cargo test -p terrace --test crash -- prefix                    (the test that must then fail)
//! # dies-with: lost acknowledged write                                    (in the text of its panic)
//! --- a/crates/engine/src/…                                               (a unified diff, applied with -p1)
//! ```
//! The source is copied, never touched. A copy without the patch must pass the same test; a patch that does not
//! apply exactly or does not compile proves nothing and fails.
use crate::tree;
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Longest that one build or test run may take, in seconds. A mutant that hangs is not a mutant that is caught.
const RUN_SECONDS_MAX: &str = "900";

/// One patch and what it must cause.
struct Mutant {
    name: String,
    patch: PathBuf,
    what: String,
    test: String,
    dies_with: String,
    touched: Vec<PathBuf>,
}

/// Runs the mutants whose names contain one of `names`, in the order of these, or all; an error unless every one is caught. Behind `limit`
/// none is begun any more, and those left out are named: a machine that is slow today says what it did not show.
pub fn run(root: &Path, names: &[String], limit: Option<Duration>) -> Result<()> {
    let begin = Instant::now();
    let mutants = read_all(&root.join("mutants"), names)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let bench = Bench { root, copy: target.join("mutants/source"), build: target.join("mutants/build") };
    bench.refresh()?;
    // First, so that nothing is built twice; a third of the time, as a mutant takes about twice as long as its test.
    let mut passed = BTreeSet::new();
    for test in mutants.iter().map(|mutant| mutant.test.as_str()) {
        if limit.is_none_or(|limit| begin.elapsed() <= limit / 3) && passed.insert(test) {
            bench.passes(test)?;
        }
    }
    let (mut survivors, mut late) = (0, Vec::new());
    println!("{:32} {:>7}  verdict", "mutant", "seconds");
    for mutant in &mutants {
        if limit.is_some_and(|limit| begin.elapsed() > limit) || !passed.contains(mutant.test.as_str()) {
            late.push(mutant.name.as_str());
            continue;
        }
        let begin = Instant::now();
        let verdict = bench.verdict(mutant)?;
        survivors += usize::from(verdict.is_err());
        let seconds = begin.elapsed().as_secs();
        println!("{:32} {seconds:>7}  {}", mutant.name, verdict.as_ref().map_or_else(|why| why.as_str(), |()| "dies"));
        if verdict.is_err() {
            println!("{:40}  {}", "", mutant.what);
        }
    }
    if !late.is_empty() {
        println!("mutants: no time left for {} of {}: {}", late.len(), mutants.len(), late.join(" "));
    }
    match (survivors, mutants.len() - late.len()) {
        (_, 0) => bail!("no mutant was begun in time"),
        (0, begun) => println!("mutants: all {begun} die"),
        (_, begun) => bail!("{survivors} of {begun} mutants were not caught"),
    }
    Ok(())
}

/// The mutants whose patches are not of this source any more, and what `patch` says of them.
pub fn outdated(root: &Path) -> Result<Vec<(String, String)>> {
    let mut outdated = Vec::new();
    for mutant in read_all(&root.join("mutants"), &[])? {
        let tried = patch(root, &mutant).arg("--dry-run").output().context("patch")?;
        if !tried.status.success() {
            outdated.push((mutant.name, tail(&tried)));
        }
    }
    Ok(outdated)
}

/// What applies a mutant to the source in `folder`, exactly or not at all.
fn patch(folder: &Path, mutant: &Mutant) -> Command {
    let mut patch = Command::new("patch");
    let options = ["-p1", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "--reject-file=-", "--input"];
    patch.args(options).arg(&mutant.patch).current_dir(folder);
    patch
}

fn read_all(folder: &Path, names: &[String]) -> Result<Vec<Mutant>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut patches: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    let mut mutants = patches.into_iter().map(Mutant::read).collect::<Result<Vec<_>>>()?;
    let place = |mutant: &Mutant| names.iter().position(|name| mutant.name.contains(name));
    mutants.retain(|mutant| names.is_empty() || place(mutant).is_some());
    mutants.sort_by_key(place);
    if mutants.is_empty() {
        bail!("no mutants to run in {}", folder.display());
    }
    Ok(mutants)
}

impl Mutant {
    fn read(patch: PathBuf) -> Result<Mutant> {
        let text = fs::read_to_string(&patch).with_context(|| patch.display().to_string())?;
        let header = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(": "));
            let line = line.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
            line.with_context(|| format!("{}: no line '# {name}: …'", patch.display()))
        };
        let (what, test, dies_with) = (header("what")?, header("test")?, header("dies-with")?);
        if !test.starts_with("cargo test ") {
            bail!("{}: the test must be a 'cargo test' command", patch.display());
        }
        let touched: Vec<PathBuf> = text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(file_of).collect();
        if touched.is_empty() {
            bail!("{}: no line '+++ b/…'", patch.display());
        }
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Mutant { name, what, test, dies_with, touched, patch })
    }
}

/// The path of a `+++` line, behind which a tab and a time may stand.
fn file_of(rest: &str) -> PathBuf {
    rest.split('\t').next().unwrap_or(rest).into()
}

/// Where mutants are built: a copy of the source and a build directory that all of them share.
struct Bench<'a> {
    root: &'a Path,
    copy: PathBuf,
    build: PathBuf,
}

impl Bench<'_> {
    /// Makes the copy equal to the source. Equal files are left alone, so that cargo need not rebuild them.
    fn refresh(&self) -> Result<()> {
        fs::create_dir_all(&self.copy)?;
        let wanted = tree::files(self.root)?;
        for file in tree::files(&self.copy)?.iter().filter(|file| wanted.binary_search(file).is_err()) {
            fs::remove_file(self.copy.join(file))?;
        }
        wanted.iter().try_for_each(|file| self.restore(file))
    }

    fn restore(&self, file: &Path) -> Result<()> {
        let (from, to) = (self.root.join(file), self.copy.join(file));
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a file has a folder"))?;
        fs::write(&to, bytes)?;
        // `fs::copy` would keep scripts executable but also an old time, which cargo takes for unchanged.
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        Ok(())
    }

    /// An error if `test` fails without any mutant.
    fn passes(&self, test: &str) -> Result<()> {
        println!("without mutants: {test}");
        let output = self.shell(test)?;
        if !output.status.success() {
            bail!("fails already without a mutant: {test}\n{}", tail(&output));
        }
        Ok(())
    }

    /// Applies the mutant, runs its test, takes the mutant back. The inner error says why it was not caught.
    fn verdict(&self, mutant: &Mutant) -> Result<Result<(), String>> {
        let applied = patch(&self.copy, mutant).output().context("patch")?;
        let verdict = match applied.status.success() {
            true => self.try_test(mutant)?,
            false => Err(format!("the patch does not apply\n{}", tail(&applied))),
        };
        mutant.touched.iter().try_for_each(|file| self.restore(file))?;
        Ok(verdict)
    }

    fn try_test(&self, mutant: &Mutant) -> Result<Result<(), String>> {
        let built = self.shell(&mutant.test.replacen("cargo test", "cargo test --no-run", 1))?;
        if !built.status.success() {
            return Ok(Err(format!("does not compile\n{}", tail(&built))));
        }
        let tested = self.shell(&mutant.test)?;
        let text = text(&tested);
        Ok(if tested.status.success() {
            Err("SURVIVES".into())
        } else if !text.contains("panicked at") || !text.contains(&mutant.dies_with) {
            Err(format!("fails, but not with '{}'\n{}", mutant.dies_with, tail(&tested)))
        } else {
            Ok(())
        })
    }

    fn shell(&self, command: &str) -> Result<Output> {
        let mut run = Command::new("timeout");
        run.args([RUN_SECONDS_MAX, "sh", "-c", command]).current_dir(&self.copy).env("CARGO_TARGET_DIR", &self.build);
        run.output().context("timeout (of coreutils)")
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

fn tail(output: &Output) -> String {
    let text = text(output);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
