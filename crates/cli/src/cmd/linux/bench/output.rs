//! Flags for the files into which a benchmark writes its results, and the writing of these files.
use crate::args::Usage;
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_lab::{
    plan::results::Record,
    report::{Report, csv, markdown},
};

/// Files to write.
#[derive(clap::Args)]
pub struct Output {
    /// Append each row to FILE as a JSON line immediately after it is measured. A round of an
    /// engine is not measured again if FILE has all its rows without an error, from this build,
    /// with the same workloads and settings, and on the same --device.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Discard the rows in the file of --json and measure again.
    #[arg(long, requires = "json")]
    fresh: bool,
    /// Write the table as Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the table as Markdown between the lines `<!-- bench:begin -->` and `<!-- bench:end
    /// -->` of FILE.
    #[arg(long, value_name = "FILE")]
    markdown_into: Option<PathBuf>,
    /// Write all rows as comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Output {
    /// Returns the file of rows.
    pub fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Returns whether to measure existing rows again.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// Checks that the files can be written. The command calls this before the first measurement,
    /// because it writes most files only at the end, after hours.
    pub fn check(&self) -> Result<()> {
        if let Some(path) = &self.markdown_into {
            let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            markdown::splice(&page, "")
                .map_err(|error| Usage::of("--markdown-into", format!("{}: {error}", path.display())))?;
        }
        for (flag, path) in [("--json", &self.json), ("--markdown", &self.markdown), ("--csv", &self.csv)] {
            let Some(path) = path else { continue };
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let problem = match folder {
                _ if path.is_dir() => "is a directory, not a file",
                Some(folder) if !folder.is_dir() => "its directory is missing",
                _ => continue,
            };
            return Err(Usage::of(flag, format!("{}: {problem}", path.display())));
        }
        Ok(())
    }

    /// Returns advice on how to continue the benchmark after it was stopped.
    pub fn how_to_go_on(&self) -> &'static str {
        match self.json {
            Some(_) if self.fresh => "; run the same command without --fresh to continue",
            Some(_) => "; run the same command to continue",
            None => "; with --json FILE it could be continued",
        }
    }

    /// Writes the files selected by the flags.
    pub fn write(&self, report: &Report, records: &[&Record]) -> Result<()> {
        let command = command();
        if let Some(path) = &self.markdown {
            replace(path, &markdown::render(report, &command))?;
        }
        if let Some(path) = &self.markdown_into {
            let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            replace(path, &markdown::splice(&page, &markdown::render(report, &command))?)?;
        }
        if let Some(path) = &self.csv {
            replace(path, &csv::render(records))?;
        }
        Ok(())
    }
}

fn replace(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Returns the command line of this process in shell syntax.
pub fn command() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| shell(&argument.to_string_lossy()));
    ["terrace".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell("--device=dir:/a.b"), "--device=dir:/a.b");
        assert_eq!(shell("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell(""), "''");
    }
}
