//! `cargo xtask counts`: what operations cost, counted instead of timed, against what is written down.
//!
//! Runs `crates/engine/examples/counts.rs` under callgrind, on any machine the same within a few parts in a hundred. What
//! is written down, in `crates/engine/counts.txt`, are limits: `PRESET KIND INSTRUCTIONS ALLOCATIONS CALLS` per operation,
//! where calls are system calls that read or write. More than [`TOLERANCE`] above one of them is an error.
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const LIMITS: &str = "crates/engine/counts.txt";
/// Compilers and C libraries differ by as much.
const TOLERANCE: f64 = 1.05;
/// So much per operation is no difference: 0.02 are 400 allocations or calls among 20,000 operations.
const SLACK: [f64; 3] = [10.0, 0.02, 0.02];
const COLUMNS: [&str; 3] = ["instructions", "allocations", "calls"];

/// A preset, a kind of operation, and what one operation costs.
struct Line {
    preset: String,
    kind: String,
    costs: [f64; 3],
}

/// Compares; with `write` writes down what is measured.
pub fn run(root: &Path, write: bool) -> Result<()> {
    let path = root.join(LIMITS);
    let limits = parse(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)?;
    let program = build(root)?;
    complete(&limits, &program)?;
    let (mut text, mut worse) = (String::new(), 0);
    println!("{:14} {:12} {:>24} {:>24} {:>24}", "preset", "kind", COLUMNS[0], COLUMNS[1], COLUMNS[2]);
    for limit in &limits {
        let costs = measure(&program, limit)?;
        let cells = [0, 1, 2].map(|column| {
            let (now, then) = (costs[column], limit.costs[column]);
            let over = now > then * TOLERANCE + SLACK[column];
            worse += u32::from(over);
            format!("{now:.2} of {then:.2}{}", if over { " !" } else { "  " })
        });
        println!("{:14} {:12} {:>24} {:>24} {:>24}", limit.preset, limit.kind, cells[0], cells[1], cells[2]);
        let [instructions, allocations, calls] = costs;
        writeln!(text, "{} {} {instructions:.0} {allocations:.2} {calls:.2}", limit.preset, limit.kind)?;
    }
    if write {
        let head =
            "# What one operation costs at most, see xtask/src/counts.rs: preset kind instructions allocations calls\n";
        return fs::write(&path, format!("{head}{text}")).with_context(|| path.display().to_string());
    }
    match worse {
        0 => Ok(()),
        _ => {
            bail!("{worse} costs (!) are above {LIMITS}; if that is worth it: cargo xtask counts --write, and say why")
        }
    }
}

/// Every kind of operation that the example knows must have a limit for each preset that is listed.
fn complete(limits: &[Line], program: &Path) -> Result<()> {
    let output = Command::new(program).arg("kinds").output().context("run the example counts")?;
    let kinds = String::from_utf8_lossy(&output.stdout).into_owned();
    let presets: BTreeSet<&str> = limits.iter().map(|limit| limit.preset.as_str()).collect();
    if presets.is_empty() || kinds.trim().is_empty() {
        bail!("{LIMITS} has no limits, or the example knows no kinds");
    }
    for (preset, kind) in presets.iter().flat_map(|preset| kinds.split_whitespace().map(move |kind| (*preset, kind))) {
        if !limits.iter().any(|limit| limit.preset == preset && limit.kind == kind) {
            bail!("{LIMITS} has no line for {preset} {kind}");
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Line>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| parse_line(line).with_context(|| format!("{LIMITS}: not understood: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [preset, kind, costs @ ..] = &words[..] else { return None };
    let costs: Vec<f64> = costs.iter().map(|cost| cost.parse().ok()).collect::<Option<_>>()?;
    Some(Line { preset: (*preset).into(), kind: (*kind).into(), costs: costs.try_into().ok()? })
}

/// Builds the example as users build the library, with names for callgrind; tells where it is.
fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).env("CARGO_PROFILE_RELEASE_DEBUG", "1");
    let built =
        cargo.args(["build", "--release", "-p", "terrace", "--example", "counts"]).status().context("run cargo")?;
    if !built.success() {
        bail!("the example counts does not build");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/examples/counts"))
}

fn measure(program: &Path, line: &Line) -> Result<[f64; 3]> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured*"]);
    let output =
        valgrind.arg(program).args([&line.preset, &line.kind]).output().context("run valgrind (install it)")?;
    let log = String::from_utf8_lossy(&output.stderr);
    let instructions = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
    // Alone, because valgrind makes several system calls of one.
    let alone = Command::new(program).args([&line.preset, &line.kind]).output().context("run the example counts")?;
    let told = String::from_utf8_lossy(&alone.stdout);
    let counts: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let what = || format!("{} {}: {told}{log}", line.preset, line.kind);
    let succeeded = output.status.success() && alone.status.success();
    let (true, Some(instructions), [operations, allocations, calls]) = (succeeded, instructions, &counts[..]) else {
        bail!(what());
    };
    if instructions == 0.0 || *operations == 0.0 {
        bail!("nothing was counted: {}", what());
    }
    Ok([instructions, *allocations, *calls].map(|count| count / operations))
}
