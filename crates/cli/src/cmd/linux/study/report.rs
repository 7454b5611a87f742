//! `study report`: writes the results of a study as HTML, Markdown and CSV files.
use super::engine_is_known;
use anyhow::{Context, Result, bail};
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
        page::{html, json, markdown},
    },
};

/// Writes a report on all results of `terrace study run` in a directory, whether they are complete
/// or not.
///
/// Writes DIR/report.html, which needs no network, and DIR/report.md. For each experiment also
/// writes DIR/NAME/rows.csv and DIR/NAME/over-time.csv, which has a line for each interval of each
/// row.
#[derive(clap::Args)]
pub struct Report {
    /// Directory of the results: the --out of `terrace study run`.
    #[arg(value_name = "DIR", default_value = "study")]
    dir: PathBuf,
    /// Print the outcome of each experiment as JSON, one object per line, instead of the paths
    /// of the pages.
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Writes the pages and prints the outcome.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut all = Vec::new();
        for folder in Folder::all(&self.dir)? {
            let findings = match Findings::read(&folder, &engine_is_known) {
                Ok(findings) => findings,
                Err(error) => {
                    eprintln!("left out: {}: {error:#}", folder.name());
                    continue;
                }
            };
            let records: Vec<_> = findings.records_at().collect();
            for (name, text) in
                [("rows.csv", csv::render_swept(&records)), ("over-time.csv", csv::render_over_time(&records))]
            {
                write(&self.dir.join(folder.name()).join(name), &text)?;
            }
            if self.json {
                writeln!(out, "{}", json::render(&findings))?;
            }
            all.push(findings);
        }
        if all.is_empty() {
            bail!("{}: none of its runs is readable", self.dir.display());
        }
        for (name, text) in [("report.html", html::render(&all)?), ("report.md", markdown::render(&all))] {
            let path = self.dir.join(name);
            write(&path, &text)?;
            if !self.json {
                writeln!(out, "{}", path.display())?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
