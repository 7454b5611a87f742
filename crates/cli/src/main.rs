//! The `terrace` command. This file selects the subcommand and reports errors. Each subcommand is
//! a file in `cmd/`.
//!
//! Results are printed on stdout, everything else on stderr. Exit status: 0 success, 1 failure, 2
//! wrong usage.
#![forbid(unsafe_code)]

mod args;
mod bytes;
mod cmd;
mod directory;
mod json;
mod layout;
mod lines;
mod log_file;
mod progress;
mod sorted_table;
mod table;

use clap::Parser;
use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
};

/// Terrace: a key-value store on LevelDB's own files.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage.
#[derive(Parser)]
#[command(name = "terrace", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let done = cli.command.run(&mut out);
    // Stdout is flushed even after a failure, because the output before the failure is valid.
    let done = done.and(out.flush().map_err(Into::into));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS, // the reader closed the pipe
        Err(error) => {
            eprintln!("terrace: {}", message(&error));
            if is_damage(&error)
                && let Some(advice) = cli.command.advice_on_damage()
            {
                eprintln!("{advice}");
            }
            ExitCode::from(if error.is::<args::Usage>() { 2 } else { 1 })
        }
    }
}

/// Formats an error with its causes on one line. A cause is omitted if the line already ends with
/// the text of this cause.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| match line.as_str() {
        "" => cause,
        line if line.ends_with(&cause) => line.to_owned(),
        line => format!("{line}: {cause}"),
    })
}

/// Returns whether the error is corruption of a store or of one of its files.
fn is_damage(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(terrace::Error::Corrupt { .. }) => true,
        Some(terrace::Error::Missing { what, .. }) => !what.starts_with("store") && *what != "directory",
        _ => false,
    }
}

/// Returns whether the error is a broken pipe. The broken pipe must be stdout, because stores
/// write only to files.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(closed))
}
