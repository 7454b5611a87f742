//! `terrace bench`: compares engines on workloads.
pub mod cell;
pub mod engines;
mod flags;
pub mod output;
pub mod place;
pub mod progress;

use crate::args::Usage;
use anyhow::{Context, Result, bail};
use std::{io::Write, path::PathBuf, process::Command, time::Duration};
use terrace_lab::{
    ledger,
    plan::{
        Plan,
        results::Results,
        run::{Ended, RunContext, run},
        stop,
    },
    report::{Report, table},
    workload,
};

/// Runs workloads on engines and compares their costs.
///
/// The engines alternate in each round. Each engine and round is a separate process with its own
/// store, on which the workloads run in order. Docs: docs/lab.md.
#[derive(clap::Args)]
pub struct Bench {
    /// List workloads or engines and exit.
    #[arg(long, value_name = "WHAT")]
    list: Option<Listed>,
    #[command(flatten)]
    load: flags::Load,
    #[command(flatten)]
    terms: flags::Terms,
    /// Rounds per engine; a claim needs 9 rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    place: place::Place,
    /// Timeout of an engine in one round, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    timeout: u64,
    /// Tolerated load of other processes, in percent of one processor. A round with more load is
    /// marked and repeated once.
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    disturbed_at: u32,
    #[command(flatten)]
    output: output::Output,
}

/// The lists that `--list` can print.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Listed {
    Workloads,
    Engines,
}

impl Bench {
    /// Measures every cell that has no result yet, and prints the table.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(what) = self.list {
            return list(what, out);
        }
        let stop = stop::on_signal()?; // before threads start
        let mut missing = Vec::new();
        for name in self.load.engines() {
            let engine = engines::find(name).map_err(|error| Usage::of("--engine", error))?;
            missing.extend(engine.build().is_err().then_some(name));
        }
        workload::rows(self.load.workloads()).map_err(|error| Usage::of("--workload", error))?;
        let spec = self.load.spec(self.terms.settings()?);
        let engine_names = self.load.engines().to_vec();
        let plan = Plan::new(spec, engine_names, self.rounds, &self.place.identity()?, this_build()?)
            .and_then(|plan| plan.check().map(|()| plan))
            .map_err(|error| Usage::of("bench", error))?;
        self.output.check()?;
        let mut ground = self.place.prepare()?;
        if let Some(path) = self.output.json().filter(|_| self.output.fresh()) {
            Results::forget(path, &plan)?;
        }
        let mut results = Results::open(self.output.json(), &plan)?;
        let mut watch = progress::Progress::new(&plan);
        let program = std::env::current_exe().context("find this program")?;
        let ended = run(
            &plan,
            &mut results,
            &mut RunContext {
                command: &|| {
                    let mut command = Command::new(&program);
                    command.arg(cell::NAME);
                    command
                },
                ground: &mut *ground,
                timeout: Duration::from_secs(self.timeout),
                others_max: f64::from(self.disturbed_at) / 100.0,
                stop,
                watch: &mut watch,
            },
        );
        watch.finish();
        ledger::remove_stale(); // removes the trace instances that stopped cells left in the kernel
        let ended = ended?;
        let records = results.last(&plan);
        let report = Report::new(&plan, &self.place.to_string(), &records);
        write!(out, "{}", table::render(&report))?;
        match ended {
            Ended::Stopped => bail!("stopped before the end{}", self.output.how_to_go_on()),
            Ended::Complete { failed } => {
                self.output.write(&report, &records)?;
                let failed: Vec<_> = failed.iter().filter(|name| !missing.contains(name)).collect();
                if !failed.is_empty() || missing.len() == plan.engines().len() {
                    bail!("{} of the cells failed; the table says why", failed.len().max(missing.len()));
                }
                Ok(())
            }
        }
    }
}

fn list(what: Listed, out: &mut dyn Write) -> Result<()> {
    let lines = match what {
        Listed::Workloads => workload::list().into_iter().map(|(name, help)| (name.into(), help.into())).collect(),
        Listed::Engines => engines::list(),
    };
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, help) in lines {
        writeln!(out, "{name:<width$}  {help}")?;
    }
    Ok(())
}

/// Returns a number that is unique to this build of the program. Results of another build are not
/// reused.
pub fn this_build() -> Result<u64> {
    use std::hash::Hasher;
    let path: PathBuf = std::env::current_exe().context("find this program")?;
    let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&bytes);
    Ok(hasher.finish())
}
