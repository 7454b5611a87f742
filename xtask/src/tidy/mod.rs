//! `cargo xtask tidy`: checks of the source and the pages that the compiler does not do.
mod book;
mod crates;
mod cycles;
mod links;
mod modules;
mod order;
mod prose;
mod readme;
mod source;
mod words;

use crate::{mutants, tree};
use anyhow::{Result, bail};
use source::Source;
use std::{fmt::Display, path::Path};

/// Lines of code above which a file gets a warning.
const LINES_WARN: usize = 400;
/// Lines of code above which a file is an error.
const LINES_STOP: usize = 700;

/// The findings.
#[derive(Default)]
struct Report {
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    /// Records a broken rule at `place`.
    fn problem(&mut self, place: impl Display, what: impl Display) {
        self.problems.push(format!("{place}: {what}"));
    }
}

/// Checks the repository at `root`. Returns an error if any rule is broken.
pub fn run(root: &Path) -> Result<()> {
    let sources: Vec<Source> = tree::texts(root, "rs")?.into_iter().map(Source::new).collect();
    let pages = tree::texts(root, "md")?;
    let mut report = Report::default();
    crates::check(root, &mut report)?;
    order::check(&sources, &mut report);
    cycles::check(&sources, &mut report);
    lengths(&sources, &mut report);
    modules::check(&sources, &mut report);
    words::check(&sources, &mut report);
    links::check(root, &pages, &mut report);
    links::check_glossary(root, &pages, &mut report);
    readme::check(root, &mut report)?;
    for (mutant, why) in mutants::outdated(root)? {
        report.problem(format!("mutant {mutant}"), why);
    }
    book::check(&pages, &sources, &mut report);
    prose::check(&pages, &sources, &mut report);
    report.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    report.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if !report.problems.is_empty() {
        bail!("{} problems in {} source files and {} pages", report.problems.len(), sources.len(), pages.len());
    }
    println!("tidy: {} source files, {} pages, {} warnings", sources.len(), pages.len(), report.warnings.len());
    Ok(())
}

fn lengths(sources: &[Source], report: &mut Report) {
    for source in sources {
        match source.code.lines().count() {
            lines if lines > LINES_STOP => {
                report.problem(&source.name, format!("{lines} lines of code, more than {LINES_STOP}"));
            }
            lines if lines > LINES_WARN => {
                report.warnings.push(format!("{}: {lines} lines of code: consider splitting it", source.name));
            }
            _ => {}
        }
    }
}
