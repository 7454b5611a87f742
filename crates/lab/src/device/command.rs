//! Runs a system command such as `mkfs` or `losetup`, and converts its failure into an error.
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Runs a command and returns its output. If the command fails, the error contains the command's
/// error output.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
