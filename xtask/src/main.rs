//! Repository checks, in Rust so that they need nothing but cargo: `cargo xtask tidy`, `mutants`, `counts`,
//! `licences`.
#![forbid(unsafe_code)]

mod counts;
mod licences;
mod mutants;
mod tidy;
mod tree;

use anyhow::{Context, Result, bail};
use std::{path::Path, process::ExitCode, time::Duration};

const USAGE: &str = "\
usage: cargo xtask tidy              imports, file lengths, dead modules, links, banned calls, unsafe, README's example,
                                   mutants that do not apply
       cargo xtask mutants [--minutes M] [NAME…]   applies each patch of mutants/ and requires that its test then
                                   fails; begins none later than M minutes after its start
       cargo xtask counts [--write]  what operations cost under callgrind, against what is written down
       cargo xtask licences [--write]  what we build on, against deny.toml and docs/licences.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    match arguments.split_first() {
        Some((task, [])) if task == "tidy" => tidy::run(root),
        Some((task, [flag, minutes, names @ ..])) if task == "mutants" && flag == "--minutes" => {
            let minutes: u64 = minutes.parse().with_context(|| format!("--minutes {minutes}"))?;
            mutants::run(root, names, Some(Duration::from_secs(60 * minutes)))
        }
        Some((task, names)) if task == "mutants" && !names.iter().any(|name| name.starts_with("--")) => {
            mutants::run(root, names, None)
        }
        Some((task, [])) if task == "counts" => counts::run(root, false),
        Some((task, [write])) if task == "counts" && write == "--write" => counts::run(root, true),
        Some((task, [])) if task == "licences" => licences::run(root, false),
        Some((task, [write])) if task == "licences" && write == "--write" => licences::run(root, true),
        _ => bail!("{USAGE}"),
    }
}
