//! `ssd create`: a virtual drive that stays, in a directory.
use super::{drive::Drive, report};
use anyhow::Result;
use serde_json::json;
use std::{io::Write, path::PathBuf};
use terrace_device::ssd::Image;

/// Makes a virtual drive in a directory, new or well used.
///
/// The directory holds its data, a sparse file that takes only the space of what is written, and its book of flash. `terrace
/// ssd smart DIR` shows the book.
#[derive(clap::Args)]
pub struct Create {
    /// Directory of the drive; must not hold anything.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    drive: Drive,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Create {
    /// Makes it, and prints what it is.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        Image::refuse(&self.directory)?; // before what may take a while
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
