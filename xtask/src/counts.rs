//! `cargo xtask counts`: counts instructions, allocations and system calls of operations, and
//! compares them with recorded limits.
//!
//! Runs the example of each [`Subject`] under callgrind. The counts differ by only a few percent
//! between machines. Each crate has its limits in a file `counts.txt`, in lines of the form
//! `PRESET KIND INSTRUCTIONS ALLOCATIONS CALLS`. The three numbers are for one operation. `CALLS`
//! is the number of system calls that read or write. It is an error if a count exceeds its limit
//! by more than [`TOLERANCE`].
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// A program whose operations are counted.
struct Subject {
    package: &'static str,
    example: &'static str,
    limits: &'static str,
    /// The functions whose instructions callgrind counts, callees included. `None` counts the whole
    /// process with all threads.
    within: Option<&'static str>,
}

const SUBJECTS: [Subject; 3] = [
    Subject { package: "terrace", example: "counts", limits: "crates/engine/counts.txt", within: Some("*measured*") },
    Subject { package: "terrace-lab", example: "driver", limits: "crates/lab/counts.txt", within: None },
    Subject {
        package: "terrace-device",
        example: "ssd_counts",
        limits: "crates/device/counts.txt",
        within: Some("*measured*"),
    },
];

/// Factor by which a count may exceed its limit, because compilers and C libraries differ between
/// machines.
const TOLERANCE: f64 = 1.05;
/// Number by which a count per operation may exceed its limit in addition: instructions,
/// allocations, calls. 0.02 is 400 allocations or calls in 20,000 operations.
const SLACK: [f64; 3] = [10.0, 0.02, 0.02];
const HEAD: &str =
    "# What one operation costs at most, see xtask/src/counts.rs: preset kind instructions allocations calls\n";
const COLUMNS: [&str; 3] = ["instructions", "allocations", "calls"];

/// A line of `counts.txt`: the cost of one operation of a kind, measured with a preset.
struct Line {
    preset: String,
    kind: String,
    costs: [f64; 3],
}

/// Measures all costs and compares them with the limits. With `write`, records the measured values
/// as limits.
pub fn run(root: &Path, write: bool) -> Result<()> {
    println!("{:14} {:12} {:>24} {:>24} {:>24}", "preset", "kind", COLUMNS[0], COLUMNS[1], COLUMNS[2]);
    let mut worse = 0;
    for subject in &SUBJECTS {
        worse += subject.compare(root, write)?;
    }
    if worse > 0 && !write {
        bail!(
            "{worse} costs (!) are above what is written down; if that is worth it: cargo xtask counts --write, and say why"
        );
    }
    Ok(())
}

impl Subject {
    /// Returns the number of costs above their limits.
    fn compare(&self, root: &Path, write: bool) -> Result<u32> {
        let path = root.join(self.limits);
        let limits = parse(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)
            .with_context(|| self.limits)?;
        let program = self.build(root)?;
        self.complete(&limits, &program)?;
        let (mut text, mut worse) = (String::new(), 0);
        for (limit, costs) in limits.iter().zip(self.measure_all(&program, &limits)) {
            let costs = costs?;
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
            fs::write(&path, format!("{HEAD}{text}")).with_context(|| path.display().to_string())?;
        }
        Ok(worse)
    }

    /// Checks that every kind of operation of the example has a limit for each listed preset.
    fn complete(&self, limits: &[Line], program: &Path) -> Result<()> {
        let output = Command::new(program).arg("kinds").output().with_context(|| program.display().to_string())?;
        let kinds = String::from_utf8_lossy(&output.stdout).into_owned();
        let presets: BTreeSet<&str> = limits.iter().map(|limit| limit.preset.as_str()).collect();
        if presets.is_empty() || kinds.trim().is_empty() {
            bail!("{} has no limits, or the example {} knows no kinds", self.limits, self.example);
        }
        for (preset, kind) in
            presets.iter().flat_map(|preset| kinds.split_whitespace().map(move |kind| (*preset, kind)))
        {
            if !limits.iter().any(|limit| limit.preset == preset && limit.kind == kind) {
                bail!("{} has no line for {preset} {kind}", self.limits);
            }
        }
        Ok(())
    }

    /// Builds the example as users build the library, and returns its path. The release profile
    /// keeps the symbols that callgrind needs.
    fn build(&self, root: &Path) -> Result<PathBuf> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root);
        cargo.args(["build", "--release", "-p", self.package, "--example", self.example]);
        if !cargo.status().context("run cargo")?.success() {
            bail!("the example {} does not build", self.example);
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(target.join("release/examples").join(self.example))
    }

    /// Measures the costs of all `lines`, on all processors: instructions, allocations and calls of
    /// one process do not depend on other processes.
    fn measure_all(&self, program: &Path, lines: &[Line]) -> Vec<Result<[f64; 3]>> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let per_thread = lines.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let parts: Vec<_> = lines
                .chunks(per_thread)
                .map(|part| {
                    scope.spawn(move || part.iter().map(|line| self.measure(program, line)).collect::<Vec<_>>())
                })
                .collect();
            parts.into_iter().flat_map(|part| part.join().expect("a measuring thread panicked")).collect()
        })
    }

    fn measure(&self, program: &Path, line: &Line) -> Result<[f64; 3]> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.args(self.within.map(|functions| format!("--toggle-collect={functions}")));
        let output =
            valgrind.arg(program).args([&line.preset, &line.kind]).output().context("run valgrind (install it)")?;
        let log = String::from_utf8_lossy(&output.stderr);
        let instructions = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
        // Allocations and system calls are counted in a second run without valgrind, because
        // valgrind may split one system call into several.
        let alone = Command::new(program).args([&line.preset, &line.kind]).output();
        let alone = alone.with_context(|| program.display().to_string())?;
        let told = String::from_utf8_lossy(&alone.stdout);
        let counts: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let what = || format!("{} {}: {told}{log}", line.preset, line.kind);
        let succeeded = output.status.success() && alone.status.success();
        let (true, Some(instructions), [operations, allocations, calls]) = (succeeded, instructions, &counts[..])
        else {
            bail!(what());
        };
        if instructions == 0.0 || *operations == 0.0 {
            bail!("nothing was counted: {}", what());
        }
        Ok([instructions, *allocations, *calls].map(|count| count / operations))
    }
}

fn parse(text: &str) -> Result<Vec<Line>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| parse_line(line).with_context(|| format!("not understood: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [preset, kind, costs @ ..] = &words[..] else { return None };
    let costs: Vec<f64> = costs.iter().map(|cost| cost.parse().ok()).collect::<Option<_>>()?;
    Some(Line { preset: (*preset).into(), kind: (*kind).into(), costs: costs.try_into().ok()? })
}
