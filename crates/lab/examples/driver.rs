//! Runs the benchmark driver's operations with an engine that does nothing. `cargo xtask counts`
//! runs this program under callgrind and compares the counts with upper bounds.
//!
//! `driver plain|timed KIND` prints three counts: operations, allocations, and system calls that
//! read or write. Callgrind counts the instructions of the whole process, so the program performs
//! so many operations that the cost of its start is negligible.
#[path = "../../engine/tests/it/common/counting.rs"]
mod counting;

use std::{env, fs};
use terrace_lab::{
    cell::CellSpec,
    engines::null::Null,
    target::Result,
    workload::{self, Job, store::Store},
};

const KINDS: [&str; 4] = ["fillseq", "fillrandom", "deleterandom", "readmissing"];
const OPERATIONS: u64 = 1_000_000;

/// Returns the number of read and write system calls of this process so far.
fn calls() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("sysc")?.split_once(": ")?.1.parse::<u64>().ok()).sum()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (histogram, kind) = match words[..] {
        ["kinds"] => {
            println!("{}", KINDS.join(" "));
            return Ok(());
        }
        ["plain", kind] if KINDS.contains(&kind) => (false, kind),
        ["timed", kind] if KINDS.contains(&kind) => (true, kind),
        _ => {
            eprintln!("usage: driver kinds | driver plain|timed {}", KINDS.join("|"));
            std::process::exit(2);
        }
    };
    let spec = CellSpec { num: OPERATIONS, histogram, ..CellSpec::default() };
    let mut store = Store::at(&Null { on_device: false }, &spec)?;
    store.open()?;
    let stage = &workload::stages(kind)?[0];
    let (allocations, calls_before) = (counting::of_process(), calls());
    let outcome = stage.run(&mut store, &Job::new(&spec, kind, 0), &mut |_| ())?;
    let (calls_after, allocations) = (calls(), counting::of_process() - allocations);
    println!("{} {allocations} {}", outcome.tally.ops, calls_after - calls_before);
    Ok(())
}
