//! `raw`: stores on a device without a file system. All other commands accept the path of such a
//! device instead of a directory.
mod files;
mod format;
mod look;
mod transfer;

use anyhow::{Context, Result};
use std::{io::Write, path::Path, sync::Arc};
use terrace_storage::{
    StorageConfig,
    backends::raw::{self, RawFs},
    placement::OpenMode,
};

/// Stores on a block device, or on a file used as one, without a file system.
///
/// `terrace raw format` prepares the device. The device's path is then the store's path for every
/// command except `inspect` and `doctor`.
#[derive(clap::Args)]
pub struct Raw {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Format(format::Format),
    Info(look::Info),
    Check(look::Check),
    Ls(files::Ls),
    Cat(files::Cat),
    Export(transfer::Export),
    Import(transfer::Import),
}

impl Raw {
    /// Runs the subcommand and writes its results to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.command {
            Command::Format(command) => command.run(out),
            Command::Info(command) => command.run(out),
            Command::Check(command) => command.run(out),
            Command::Ls(command) => command.run(out),
            Command::Cat(command) => command.run(out),
            Command::Export(command) => command.run(out),
            Command::Import(command) => command.run(out),
        }
    }
}

/// Opens the prepared device at `path` for reading, concurrently with other readers.
fn open(path: &Path) -> Result<Arc<RawFs>> {
    let device = raw::open(path, OpenMode::ReadOnly, &StorageConfig::default())?;
    device.superblock().with_context(|| path.display().to_string())?;
    Ok(device)
}
