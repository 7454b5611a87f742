//! Checks of the repository: `cargo xtask tidy`, `mutants`, `counts`, `licences`. They are written
//! in Rust, so they need no program except cargo.
#![forbid(unsafe_code)]

mod counts;
mod licences;
mod mutants;
mod tidy;
mod tree;

use anyhow::{Result, bail};
use mutants::Choice;
use std::{path::Path, process::ExitCode};

const USAGE: &str = "\
usage: cargo xtask tidy              checks imports, file lengths, dead modules, links, banned calls, unsafe, README's
                                   example, and that every mutant applies
       cargo xtask mutants [--sample | NAME…]   applies each mutant of mutants/*.toml, or those that CI runs, or those
                                   whose names contain NAME, and requires that its tests then fail
       cargo xtask counts [--write]  compares the cost of operations under callgrind with recorded limits, or records it
       cargo xtask licences [--write]  compares dependencies with deny.toml and docs/licences.md, or writes that page";

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
        Some((task, [flag])) if task == "mutants" && flag == "--sample" => mutants::run(root, &Choice::Sample),
        Some((task, names)) if task == "mutants" && !names.iter().any(|name| name.starts_with("--")) => {
            mutants::run(root, &Choice::Named(names))
        }
        Some((task, [])) if task == "counts" => counts::run(root, false),
        Some((task, [write])) if task == "counts" && write == "--write" => counts::run(root, true),
        Some((task, [])) if task == "licences" => licences::run(root, false),
        Some((task, [write])) if task == "licences" && write == "--write" => licences::run(root, true),
        _ => bail!("{USAGE}"),
    }
}
