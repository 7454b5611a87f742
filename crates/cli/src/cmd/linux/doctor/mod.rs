//! `doctor`: reports features of the machine, of the file system and of a directory. For missing
//! features it suggests remedies.
mod disk;
mod journal;
mod machine;
mod mount;
mod store;

use crate::args::Settings;
use anyhow::Result;
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// Reports what this machine and the directory's file system support, and describes the store in
/// the directory.
///
/// Reports the journal, its commit interval, direct I/O, discard, reflinks, BPF, FUSE and free
/// space. Also reports which store is in the directory and which durability mode it will get. For
/// each missing feature, says how to get it.
///
/// Tries direct I/O and reflinks with two small temporary files in the directory.
#[derive(clap::Args)]
pub struct Doctor {
    /// A store, or the directory for a new one.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print one JSON object: name to value and advice.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// One finding: a line of the report.
pub struct Finding {
    name: &'static str,
    value: String,
    advice: Option<String>,
}

impl Finding {
    /// Reports that `name` is `value`.
    fn new(name: &'static str, value: impl Into<String>) -> Finding {
        Finding { name, value: value.into(), advice: None }
    }

    /// Adds an explanation or a remedy.
    fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = Some(advice.into());
        self
    }
}

impl Doctor {
    /// Reports all findings. A finding that cannot be determined is not a failure.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.settings.resolve()?;
        let mut findings = machine::findings();
        let near = nearest_directory(&self.path)?;
        match mount::of(&near) {
            Ok(mount) => {
                findings.push(mount.finding());
                findings.extend(journal::findings(&mount));
                findings.push(disk::discard(&mount));
            }
            Err(error) => findings.push(Finding::new("file_system", format!("unknown: {error:#}"))),
        }
        findings.push(disk::free(&near));
        findings.extend(disk::probe(&near));
        findings.extend(store::findings(&self.path, &options));
        if self.json { write_json(&findings, out) } else { write_text(&findings, out) }
    }
}

/// Returns the directory itself, or its nearest existing ancestor.
fn nearest_directory(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut above = path.as_path();
    while !above.is_dir() {
        above = above.parent().unwrap_or(Path::new("/"));
    }
    above.canonicalize()
}

/// Returns the first line of a small file in /proc or /sys.
fn kernel_line(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.lines().next().unwrap_or_default().trim().to_owned())
}

fn write_text(findings: &[Finding], out: &mut dyn Write) -> Result<()> {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    for Finding { name, value, advice } in findings {
        writeln!(out, "{:width$}  {value}", name.replace('_', " "))?;
        if let Some(advice) = advice {
            writeln!(out, "{:width$}  -> {advice}", "")?;
        }
    }
    Ok(())
}

fn write_json(findings: &[Finding], out: &mut dyn Write) -> Result<()> {
    let object: serde_json::Map<String, serde_json::Value> = findings
        .iter()
        .map(|Finding { name, value, advice }| {
            ((*name).to_owned(), serde_json::json!({ "value": value, "advice": advice }))
        })
        .collect();
    writeln!(out, "{}", serde_json::Value::from(object))?;
    Ok(())
}
