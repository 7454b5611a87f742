//! A copy of the source in which mutants are applied, built and tested. All mutants share one
//! build directory.
use super::Mutant;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Timeout of a build or test run in seconds. A mutant whose tests hang is not counted as
/// detected.
const RUN_SECONDS_MAX: &str = "900";

/// A copy of the source at `root`.
pub struct Copy<'a> {
    root: &'a Path,
    source: PathBuf,
    build: PathBuf,
}

impl<'a> Copy<'a> {
    /// Makes the copy in `folder` equal to the source at `root`. Does not write files that are
    /// equal already, so that cargo does not rebuild them.
    pub fn new(root: &'a Path, folder: PathBuf) -> Result<Copy<'a>> {
        let copy = Copy { root, source: folder.join("source"), build: folder.join("build") };
        fs::create_dir_all(&copy.source)?;
        let wanted = tree::files(root)?;
        for file in tree::files(&copy.source)?.iter().filter(|file| wanted.binary_search(file).is_err()) {
            fs::remove_file(copy.source.join(file))?;
        }
        wanted.iter().try_for_each(|file| copy.restore(file))?;
        Ok(copy)
    }

    fn restore(&self, file: &Path) -> Result<()> {
        let (from, to) = (self.root.join(file), self.source.join(file));
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a file has a folder"))?;
        fs::write(&to, bytes)?;
        // `fs::write` sets a new modification time. `fs::copy` could keep an old one, and cargo
        // would not rebuild the file.
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        Ok(())
    }

    /// Returns an error if the tests of `mutant` fail without the mutant, or if no test matches.
    pub fn passes(&self, mutant: &Mutant) -> Result<()> {
        println!("without mutants: {} {}", mutant.package, mutant.test);
        let output = self.test(mutant, &["--", &mutant.test])?;
        if !output.status.success() {
            bail!("{} fails already without a mutant:\n{}", mutant.test, tail(&output));
        }
        if !text(&output)
            .lines()
            .any(|line| line.starts_with(&format!("test {}", mutant.test)) || is_of_loom(mutant, line))
        {
            bail!("{} has no test {}", mutant.package, mutant.test);
        }
        Ok(())
    }

    /// Applies the mutant, runs its tests, and reverts it. If no test failed as expected, the inner
    /// error gives the reason.
    pub fn verdict(&self, mutant: &Mutant) -> Result<Result<(), String>> {
        let verdict = match self.apply(mutant) {
            Ok(()) => self.try_tests(mutant)?,
            Err(error) => Err(format!("does not apply: {error:#}")),
        };
        mutant.edit.iter().try_for_each(|edit| self.restore(&edit.file))?;
        Ok(verdict)
    }

    fn apply(&self, mutant: &Mutant) -> Result<()> {
        for edit in &mutant.edit {
            let file = self.source.join(&edit.file);
            fs::write(&file, edit.apply(&fs::read_to_string(&file)?)?)?;
        }
        Ok(())
    }

    fn try_tests(&self, mutant: &Mutant) -> Result<Result<(), String>> {
        let built = self.test(mutant, &["--no-run"])?;
        if !built.status.success() {
            return Ok(Err(format!("does not compile\n{}", tail(&built))));
        }
        let tested = self.test(mutant, &["--", &mutant.test])?;
        let text = text(&tested);
        Ok(if tested.status.success() {
            Err("SURVIVES".into())
        } else if !text.contains("panicked at") || !text.contains(&mutant.dies_with) {
            Err(format!("fails, but not with '{}'\n{}", mutant.dies_with, tail(&tested)))
        } else {
            Ok(())
        })
    }

    fn test(&self, mutant: &Mutant, more: &[&str]) -> Result<Output> {
        let mut run = Command::new("timeout");
        run.args([RUN_SECONDS_MAX, "cargo", "test", "--no-fail-fast"]).args(mutant.arguments()).args(more);
        run.current_dir(&self.source).env("CARGO_TARGET_DIR", &self.build);
        run.output().context("timeout (of coreutils)")
    }
}

/// Returns whether `line` of the output names a Loom test of `mutant`. Loom tests are selected by
/// a part of their names.
fn is_of_loom(mutant: &Mutant, line: &str) -> bool {
    mutant.loom && line.starts_with("test ") && line.contains(&mutant.test)
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

fn tail(output: &Output) -> String {
    let text = text(output);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
