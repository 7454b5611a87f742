//! `ssd`: serves virtual SSDs, and reads the counters of real drives. Each subcommand is one file.
mod cleanup;
mod create;
mod drive;
mod profiles;
mod report;
mod serve;
mod smart;
mod trace;

use anyhow::Result;
use std::io::Write;

/// Virtual SSDs with observable internals, and the counters of real ones.
#[derive(clap::Args)]
pub struct Ssd {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Profiles(profiles::Profiles),
    Create(create::Create),
    Serve(serve::Serve),
    Cleanup(cleanup::Cleanup),
    Trace(trace::Trace),
    Smart(smart::Smart),
}

impl Ssd {
    /// Runs the subcommand and writes its results to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.command {
            Command::Profiles(command) => command.run(out),
            Command::Create(command) => command.run(out),
            Command::Serve(command) => command.run(out),
            Command::Cleanup(command) => command.run(out),
            Command::Trace(command) => command.run(out),
            Command::Smart(command) => command.run(out),
        }
    }
}
