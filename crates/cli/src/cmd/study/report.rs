//! `study report`: what came out, as pages.
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

/// Makes one page of everything that `terrace study run` left in a directory, complete or not.
///
/// Writes DIR/report.html, which needs no network, DIR/report.md, and for every experiment DIR/NAME/rows.csv and
/// DIR/NAME/over-time.csv, which has a line for each span of each row.
#[derive(clap::Args)]
pub struct Report {
    /// Where results are: the --out of `terrace study run`.
    #[arg(value_name = "DIR", default_value = "study")]
    dir: PathBuf,
    /// Prints what came of each experiment as JSON, one object a line, instead of the names of the pages.
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Writes the pages and says what came of it.
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
            bail!("{}: none of its runs can be read", self.dir.display());
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
