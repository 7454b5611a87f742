//! `terrace crash-worker`: mounts and judges states of a device that `terrace crash` serves.
use crate::cmd::bench::engines;
use anyhow::Result;
use std::io::Write;
use terrace_lab::{crash::worker, plan::stop};

/// The name of the command.
pub const NAME: &str = "crash-worker";

/// Judges crash states: orders come in as JSON, answers go out. For `terrace crash` only.
#[derive(clap::Args)]
pub struct CrashWorker {}

impl CrashWorker {
    /// Until there are no more orders.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        stop::restore()?;
        worker::serve(out, &engines::find)
    }
}
