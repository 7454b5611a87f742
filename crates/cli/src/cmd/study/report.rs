//! `study report`: what came out, as pages.
use super::engine_is_known;
use anyhow::{Context, Result};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use terrace_lab::{
    report::csv,
    study::{
        findings::Findings,
        folder::Folder,
        page::{html, markdown},
    },
};

/// Makes one page of everything that `terrace study run` left in a directory, complete or not.
///
/// Writes DIR/report.html, which needs no network, DIR/report.md, and DIR/NAME/rows.csv for every experiment.
#[derive(clap::Args)]
pub struct Report {
    /// Where results are: the --out of `terrace study run`.
    #[arg(value_name = "DIR", default_value = "study")]
    dir: PathBuf,
}

impl Report {
    /// Writes the pages and names them.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut all = Vec::new();
        for folder in Folder::all(&self.dir)? {
            let findings = Findings::read(&folder, &engine_is_known).with_context(|| folder.name().to_owned())?;
            let csv = self.dir.join(folder.name()).join("rows.csv");
            write(&csv, &csv::render_swept(&findings.records_at().collect::<Vec<_>>()))?;
            all.push(findings);
        }
        for (name, text) in [("report.html", html::render(&all)?), ("report.md", markdown::render(&all))] {
            let path = self.dir.join(name);
            write(&path, &text)?;
            writeln!(out, "{}", path.display())?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
