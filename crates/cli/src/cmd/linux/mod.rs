//! Subcommands for 64-bit Linux: `doctor` and `pin` examine the machine, `raw` handles stores on
//! devices, and the others are the laboratory.
mod bench;
mod crash;
mod doctor;
mod pin;
mod raw;
mod ssd;
mod study;

use anyhow::Result;
use std::io::Write;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    Doctor(doctor::Doctor),
    Pin(pin::Pin),
    Raw(raw::Raw),
    Ssd(ssd::Ssd),
    Crash(crash::Crash),
    #[command(hide = true)]
    CrashWorker(crash::worker::CrashWorker),
    Bench(Box<bench::Bench>),
    Study(study::Study),
    #[command(hide = true)]
    BenchCell(bench::cell::BenchCell),
}

impl Command {
    /// Runs the command and writes its results to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match self {
            Command::Doctor(command) => command.run(out),
            Command::Pin(command) => command.run(out),
            Command::Raw(command) => command.run(out),
            Command::Ssd(command) => command.run(out),
            Command::Crash(command) => command.run(out),
            Command::CrashWorker(command) => command.run(out),
            Command::Bench(command) => command.run(out),
            Command::Study(command) => command.run(out),
            Command::BenchCell(command) => command.run(out),
        }
    }
}
