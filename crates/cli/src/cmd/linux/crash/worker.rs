//! `terrace crash-worker`: the process that mounts and checks the crash states of a device that
//! `terrace crash` serves.
use crate::cmd::linux::bench::engines;
use anyhow::Result;
use std::io::Write;
use terrace_lab::{crash::worker, plan::stop};

/// Name of the command.
pub const NAME: &str = "crash-worker";

/// Checks crash states. Reads orders as JSON and prints results. For `terrace crash` only.
#[derive(clap::Args)]
pub struct CrashWorker {}

impl CrashWorker {
    /// Runs until there are no more orders.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        stop::restore()?;
        worker::serve(out, &engines::find)
    }
}
