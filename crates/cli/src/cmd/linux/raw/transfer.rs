//! `raw export` and `raw import`: copy a store from a device into a directory, and from a
//! directory to a device.
use super::open;
use crate::{directory::refuse_foreign, table::size};
use anyhow::{Context, Result};
use serde_json::json;
use std::{io::Write, path::PathBuf};
use terrace_storage::{
    StorageConfig,
    backends::raw::{self, Copied},
    placement::OpenMode,
};

/// Copies the store on a device into a new directory: the same files, byte for byte. The store
/// must not be open for writing.
#[derive(clap::Args)]
pub struct Export {
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// An absent or empty directory.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Copy all files that can be found although the file table is damaged, and list the problems.
    /// `terrace repair` can then salvage a store from them.
    #[arg(long)]
    damaged: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Export {
    /// Prints what was copied.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        refuse_foreign(&self.to)?;
        if self.damaged {
            let (copied, wrong) = raw::salvage(&self.device, &self.to)?;
            tell(out, &copied, &self.to, &wrong, self.json)?;
            anyhow::ensure!(
                wrong.is_empty(),
                "{} is damaged; `terrace repair {} NEW` salvages a store from it",
                self.device.display(),
                self.to.display()
            );
            return Ok(());
        }
        let device = open(&self.device)?;
        let copied = raw::export(&device, &self.to)?;
        tell(out, &copied, &self.to, &[], self.json)
    }
}

/// Copies the store in a directory to a prepared empty device. The store must not be open.
#[derive(clap::Args)]
pub struct Import {
    /// The store.
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Import {
    /// Prints what was copied.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        refuse_foreign(&self.from)?;
        let device = raw::open(&self.device, OpenMode::Write, &StorageConfig::default())?;
        device.superblock().with_context(|| self.device.display().to_string())?;
        let copied = raw::import(&self.from, &device)?;
        tell(out, &copied, &self.device, &[], self.json)
    }
}

fn tell(out: &mut dyn Write, copied: &Copied, to: &std::path::Path, damage: &[String], json: bool) -> Result<()> {
    if json {
        writeln!(out, "{}", json!({ "files": copied.files, "bytes": copied.bytes, "damage": damage }))?;
    } else {
        damage.iter().try_for_each(|wrong| writeln!(out, "damage: {wrong}"))?;
        writeln!(out, "{} files with {} copied to {}", copied.files, size(copied.bytes), to.display())?;
    }
    Ok(())
}
