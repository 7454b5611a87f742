//! `ssd`: drives that can be looked into, one file for each subcommand.
mod cleanup;
mod serve;

use anyhow::Result;
use std::io::Write;

/// Virtual drives: block devices of this machine whose inside can be seen. Linux, root.
#[derive(clap::Args)]
pub struct Ssd {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Serve(serve::Serve),
    Cleanup(cleanup::Cleanup),
}

impl Ssd {
    /// Does it; results go to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.command {
            Command::Serve(command) => command.run(out),
            Command::Cleanup(command) => command.run(out),
        }
    }
}
