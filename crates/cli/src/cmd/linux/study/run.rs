//! `study run`: runs experiments of the study.
use super::{find, pending};
use crate::{
    args::Usage,
    cmd::linux::bench::{cell, output, place, progress::Progress, this_build},
};
use anyhow::{Context, Result, bail};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use terrace_lab::{
    device::remove_stale,
    experiment::{Experiment, points::Point},
    ledger,
    plan::stop,
    study::{
        findings::Findings,
        folder::{Facts, Folder},
        lock::Lock,
        page,
        run::{RunContext, Task, run},
    },
};

/// Runs experiments, or continues interrupted ones, and prints the outcome.
///
/// Each row is written to disk below --out immediately after it is measured, and the same command
/// continues from there. Exit status 0 means that all cells (one engine in one round) ran. It does
/// not mean that all expectations are met: see the report.
#[derive(clap::Args)]
pub struct Run {
    /// Experiments by name, in order; `noblsm-*` selects a prefix, `FILE.toml` a file.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Scale; 1 is the scale of the paper. Default: each experiment's own scale, which takes
    /// minutes.
    #[arg(long, value_name = "SHARE")]
    scale: Option<f64>,
    /// Rounds per engine and point; a claim about time needs 9 rounds. Default: each experiment's
    /// own number.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Directory of the results, one folder per experiment.
    #[arg(long, value_name = "DIR", default_value = "study")]
    out: PathBuf,
    /// Discard existing results and measure again.
    #[arg(long)]
    fresh: bool,
    /// Print the outcome as JSON, one object per experiment and line.
    #[arg(long)]
    json: bool,
    /// Device for the stores instead of the experiments' own devices, as in `terrace bench
    /// --device`. The device, size, state and speed that an experiment names are ignored. An
    /// experiment that compares devices is refused. After a killed run, data stay on the drive.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Allow overwriting the given directory or device if it has data.
    #[arg(long, requires = "device")]
    destroy_data: bool,
    /// Directory for device files and temporary directories. Default: the system's temporary
    /// directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Timeout of a cell (one engine in one round), in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    timeout: u64,
    /// Tolerated load of other processes, in percent of one processor. A round with more load is
    /// marked and repeated once.
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    disturbed_at: u32,
    /// Name of the lock that lets only one study run at a time on a machine. Each test uses another
    /// name.
    #[arg(long, hide = true, default_value = "terrace-study")]
    lock: String,
}

impl Run {
    /// Runs the experiments.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let stop = stop::on_signal()?; // before threads start
        if self.scale.is_some_and(|scale| !(scale > 0.0 && scale <= 1.0)) {
            return Err(Usage::of("--scale", "it is above 0 and up to 1"));
        }
        let mut experiments: Vec<Experiment> = Vec::new();
        for name in &self.names {
            for experiment in find(name)? {
                if !experiments.iter().any(|known| known.name == experiment.name) {
                    experiments.push(experiment);
                }
            }
        }
        let device = self.device.as_deref().map(place::parse).transpose()?;
        let _lock = Lock::take(&self.lock)?;
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        remove_stale(&work).iter().for_each(|left| eprintln!("left over from an earlier run: {left}"));
        device.map_or(Ok(()), |device| place::look(&device, self.destroy_data))?;
        let program = this_build()?;
        let asked = experiments
            .into_iter()
            .map(|experiment| self.ask(experiment, program, &work))
            .collect::<Result<Vec<_>>>()?;
        // Validate all experiments before anything is written.
        let begin = |(experiment, facts, points)| {
            let folder = Folder::begin(&self.out, &experiment, &facts)?;
            Ok(Task { experiment, facts, folder, points })
        };
        let tasks = asked.into_iter().map(begin).collect::<Result<Vec<_>>>()?;

        let mut watch = progress(&tasks);
        let narrator = watch.clone();
        let executable = std::env::current_exe().context("find this program")?;
        let ended = run(
            &tasks,
            &mut RunContext {
                command: &|| {
                    let mut command = Command::new(&executable);
                    command.arg(cell::NAME);
                    command
                },
                work: &work,
                timeout: Duration::from_secs(self.timeout),
                others_max: f64::from(self.disturbed_at) / 100.0,
                fresh: self.fresh,
                destroy_data: self.destroy_data,
                stop,
                begin: &mut |task, point| narrator.say(&headline(task, point)),
                watch: &mut watch,
            },
        );
        watch.finish();
        ledger::remove_stale(); // removes the trace instances that stopped cells left in the kernel
        let Some(failed) = ended? else {
            let fresh = if self.fresh { " without --fresh" } else { "" };
            bail!("stopped before the end; run the same command{fresh} to continue")
        };
        for task in &tasks {
            let findings = Findings::read(&task.folder, &super::engine_is_known)?;
            match self.json {
                true => writeln!(out, "{}", page::json::render(&findings))?,
                false => write!(out, "{}", page::text::render(&findings))?,
            }
        }
        if !failed.is_empty() {
            bail!("{} cells failed: {}", failed.len(), failed.join(", "));
        }
        if !self.json {
            writeln!(out, "run `terrace study report {}` for a report", self.out.display())?;
        }
        Ok(())
    }

    /// Returns the scaled experiment, the parameters of this run, and the points of the sweep to
    /// measure.
    fn ask(&self, experiment: Experiment, program: u64, work: &Path) -> Result<(Experiment, Facts, Vec<Point>)> {
        let facts = Facts {
            scale: self.scale.unwrap_or(experiment.scale.default),
            rounds: self.rounds.unwrap_or(experiment.rounds),
            device: self.device.clone(),
            program,
            command: output::command(),
            pending: experiment.engines().filter_map(|name| Some((name.to_owned(), pending(name)?))).collect(),
            ..Facts::default()
        };
        let facts = facts.here(&experiment, work).map_err(|why| Usage::of(&experiment.name, why))?;
        let points = facts.points(&experiment).map_err(|why| Usage::of(&experiment.name, why))?;
        for point in &points {
            let plan = Folder::plan(&experiment, &facts, point)?;
            plan.map_or(Ok(()), |plan| plan.check()).with_context(|| experiment.name.clone())?;
        }
        Ok((experiment, facts, points))
    }
}

/// Returns one progress bar for all tasks.
fn progress(tasks: &[Task]) -> Progress {
    let rounds = tasks.iter().map(|task| task.facts.rounds).max().unwrap_or(1);
    let engines: Vec<String> = tasks.iter().flat_map(|task| task.experiment.engines().map(String::from)).collect();
    let rows: Vec<String> = tasks.iter().flat_map(|task| task.experiment.rows()).collect();
    Progress::of(rounds, &engines, &rows)
}

fn headline(task: &Task, point: &Point) -> String {
    let at: Vec<String> = point.at.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
    let stopped = point.stopped.iter().map(|line| format!("\n  {line}")).collect::<String>();
    format!("{} at scale {}  {}{stopped}", task.experiment.name, task.facts.scale, at.join(", "))
}
