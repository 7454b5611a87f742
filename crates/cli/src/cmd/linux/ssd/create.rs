//! `ssd create`: creates a persistent virtual SSD in a directory.
use super::{drive::Drive, report};
use anyhow::Result;
use serde_json::json;
use std::{io::Write, path::PathBuf};
use terrace_device::ssd::Image;

/// Creates a virtual SSD in a directory, new or preconditioned.
///
/// The directory holds the drive's data, in a sparse file that occupies only written space, and
/// the state of its flash. `terrace ssd smart DIR` prints that state.
#[derive(clap::Args)]
pub struct Create {
    /// Directory of the drive; must be empty or absent.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    drive: Drive,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Create {
    /// Creates the drive and prints its properties.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        Image::refuse(&self.directory)?; // before the preconditioning, which may take a while
        let ftl = self.drive.make()?;
        Image::create(&self.directory, &ftl)?;
        let told = Image::look(&self.directory)?;
        if self.json {
            let directory = self.directory.display().to_string();
            writeln!(out, "{}", json!({ "directory": directory, "state": self.drive.state(), "drive": told.json() }))?;
            return Ok(());
        }
        report::write(&told, out)
    }
}
