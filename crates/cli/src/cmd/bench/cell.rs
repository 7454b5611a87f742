//! `terrace bench-cell`: one engine in one round, started by `terrace bench` as a separate
//! process so that memory, processor time, I/O and crashes are attributable to the engine.
use super::engines;
use anyhow::Result;
use std::io::Write;
use terrace_lab::{
    cell::run_cell,
    plan::{child, stop},
};

/// Name of the command.
pub const NAME: &str = "bench-cell";

/// Runs one cell of a benchmark: its description arrives as JSON, events are printed. For
/// `terrace bench` only.
#[derive(clap::Args)]
pub struct BenchCell {}

impl BenchCell {
    /// Runs it.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        stop::restore()?;
        child::serve(out, |spec, emit| run_cell(spec, &engines::find, emit))
    }
}
