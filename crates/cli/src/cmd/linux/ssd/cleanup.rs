//! `ssd cleanup`: removes the mounts, devices and directories that killed servers left.
use anyhow::{Result, bail};
use serde_json::json;
use std::{io::Write, path::PathBuf};
use terrace_device::serve;

/// Cleans up after `ssd serve` and `crash` commands that were killed.
///
/// Unmounts the file systems on their virtual drives, detaches their loop devices, and removes
/// their temporary directories. Servers that still run are not touched.
#[derive(clap::Args)]
pub struct Cleanup {
    /// Search below this directory only. Default: all mounts of served drives, and the system's
    /// temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cleanup {
    /// Removes the remains of killed servers and prints the removed directories. Fails if a removal
    /// failed.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let cleaned = serve::cleanup(self.work.as_deref())?;
        let serve::Cleaned { removed, running, failed } = &cleaned;
        if self.json {
            writeln!(out, "{}", json!({ "removed": removed, "running": running, "failed": failed }))?;
        } else {
            removed.iter().try_for_each(|dir| writeln!(out, "removed {}", dir.display()))?;
            running.iter().try_for_each(|dir| writeln!(out, "still running: {}", dir.display()))?;
            if removed.is_empty() && failed.is_empty() {
                writeln!(out, "nothing to remove")?;
            }
        }
        match failed.as_slice() {
            [] => Ok(()),
            failed => bail!("{}", failed.join("; ")),
        }
    }
}
