//! `terrace bench-cell` runs one cell of a benchmark: one engine in one round. `terrace bench`
//! starts it as a separate process, so that memory, processor time, I/O and crashes belong to one
//! engine.
use super::engines;
use anyhow::Result;
use std::io::Write;
use terrace_lab::{
    cell::run_cell,
    plan::{child, stop},
};

/// Name of the command.
pub const NAME: &str = "bench-cell";

/// Run one cell (one engine in one round) of a benchmark. Reads the cell's description as JSON and
/// prints events. For `terrace bench` only.
#[derive(clap::Args)]
pub struct BenchCell {}

impl BenchCell {
    /// Runs the cell.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        stop::restore()?;
        child::serve(out, |spec, emit| run_cell(spec, &engines::find, emit))
    }
}
