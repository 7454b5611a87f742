//! `terrace bench-cell`: one engine in one round, started by `terrace bench` in a process of its own so that memory,
//! processor time, I/O and a crash are the engine's alone.
use super::engines;
use anyhow::Result;
use std::io::Write;
use terrace_lab::{
    cell::run_cell,
    plan::{child, stop},
};

/// The name of the command.
pub const NAME: &str = "bench-cell";

/// Runs one cell of a bench: its description comes in as JSON, events go out. For `terrace bench` only.
#[derive(clap::Args)]
pub struct BenchCell {}

impl BenchCell {
    /// Runs it.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        stop::restore()?;
        child::serve(out, |spec, emit| run_cell(spec, &engines::find, emit))
    }
}
