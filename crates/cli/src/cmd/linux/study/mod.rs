//! `terrace study`: lists and runs the lab's experiments, and reports their results.
mod list;
mod report;
mod run;

use super::bench::engines;
use crate::args::Usage;
use anyhow::Result;
use std::{fs, io::Write, path::Path};
use terrace_lab::experiment::{Experiment, known};

/// Reproduces every table and figure of four papers, and runs experiments of Terrace. Compares the
/// results with the published figures.
///
/// Docs: docs/study.md.
#[derive(clap::Args)]
pub struct Study {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(list::List),
    Run(run::Run),
    Report(report::Report),
}

impl Study {
    /// Runs the subcommand.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.command {
            Command::List(command) => command.run(out),
            Command::Run(command) => command.run(out),
            Command::Report(command) => command.run(out),
        }
    }
}

/// Checks that an engine exists. The error lists the known engines.
fn engine_is_known(name: &str) -> Result<(), String> {
    engines::find(name).map(drop).map_err(|error| format!("{error:#}"))
}

/// Returns the reason why the engine `name` cannot be measured on this machine. Returns `None` if
/// it can be measured.
fn pending(name: &str) -> Option<String> {
    match (engines::find(name), known::planned(name)) {
        (Ok(engine), _) => engine.build().err(),
        (Err(_), Some(what)) => Some(format!("this build has no such preset yet ({what})")),
        (Err(error), None) => Some(format!("{error:#}")),
    }
}

/// Returns the built-in experiments.
fn all() -> Result<Vec<Experiment>> {
    let found = known::LIST.iter().filter_map(|(name, _)| known::find(name, &engine_is_known));
    found.map(|experiment| experiment.map_err(anyhow::Error::msg)).collect()
}

/// Resolves `name`, which is a built-in experiment, a file, or a prefix followed by a star.
fn find(name: &str) -> Result<Vec<Experiment>> {
    if name.ends_with(".toml") {
        let text = fs::read_to_string(name).map_err(|error| Usage::of(name, error))?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        let decoded = Experiment::decode(&stem, name, &text, &engine_is_known);
        return decoded.map(|experiment| vec![experiment]).map_err(|why| Usage::of("NAME", why));
    }
    let all = all()?;
    let found: Vec<Experiment> = match name.strip_suffix('*') {
        Some(start) => all.into_iter().filter(|experiment| experiment.name.starts_with(start)).collect(),
        None => all.into_iter().filter(|experiment| experiment.name == name).collect(),
    };
    if found.is_empty() {
        return Err(Usage::of("NAME", format!("no experiment is named '{name}'; `terrace study list` names all")));
    }
    Ok(found)
}
