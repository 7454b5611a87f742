//! `ssd`: drives that can be looked into, one file for each subcommand.
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

/// Virtual drives whose inside can be seen, and what real ones tell of theirs.
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
    /// Does it; results go to `out`.
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
