//! The subcommands of the command `terrace`, one file each.
mod advise;
mod backup;
mod check;
mod checkpoint;
mod compact;
mod convert;
mod dump;
mod export;
mod ingest;
mod inspect;
mod load;
pub mod lost;
mod options;
mod pairs;
mod presets;
mod repair;
mod scan;
mod stats;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux;

use anyhow::Result;
use std::io::Write;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    Put(pairs::Put),
    Get(pairs::Get),
    Delete(pairs::Delete),
    Scan(scan::Scan),
    Load(load::Load),
    Dump(dump::Dump),
    Export(export::Export),
    Ingest(ingest::Ingest),
    Stats(stats::Stats),
    Advise(advise::Advise),
    Compact(compact::Compact),
    Checkpoint(checkpoint::Checkpoint),
    Backup(backup::Backup),
    Convert(convert::Convert),
    Check(check::Check),
    Repair(repair::Repair),
    Lost(lost::Lost),
    Inspect(inspect::Inspect),
    Options(options::Options),
    Presets(presets::Presets),
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[command(flatten)]
    Linux(linux::Command),
}

impl Command {
    /// Returns advice on a damaged store, if this command has more specific advice than the general
    /// one.
    pub fn advice_on_damage(&self) -> Option<&'static str> {
        match self {
            Command::Repair(_) => None,
            Command::Check(_) => Some("`terrace repair` salvages the readable data into a new store"),
            _ => {
                Some("`terrace check` lists all problems; `terrace repair` salvages the readable data into a new store")
            }
        }
    }

    /// Runs the command and writes its results to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match self {
            Command::Put(command) => command.run(),
            Command::Get(command) => command.run(out),
            Command::Delete(command) => command.run(),
            Command::Scan(command) => command.run(out),
            Command::Load(command) => command.run(out),
            Command::Dump(command) => command.run(out),
            Command::Export(command) => command.run(out),
            Command::Ingest(command) => command.run(out),
            Command::Stats(command) => command.run(out),
            Command::Advise(command) => command.run(out),
            Command::Compact(command) => command.run(out),
            Command::Checkpoint(command) => command.run(out),
            Command::Backup(command) => command.run(out),
            Command::Convert(command) => command.run(out),
            Command::Check(command) => command.run(out),
            Command::Repair(command) => command.run(out),
            Command::Lost(command) => command.run(out),
            Command::Inspect(command) => command.run(out),
            Command::Options(command) => command.run(out),
            Command::Presets(command) => command.run(out),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            Command::Linux(command) => command.run(out),
        }
    }
}
