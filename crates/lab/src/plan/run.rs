//! Runs a plan. Each cell (one engine in one round) runs in its own process. The plan writes every
//! row (the result of a workload) to disk as soon as the row is complete.
use super::{
    Cell, Plan,
    child::{ChildMessage, Running},
    others::ProcessorSample,
    results::{Record, Results},
};
use crate::{
    cell::{CellSpec, Event, Progress, Row},
    target::StoreMedium,
};
use anyhow::{Context, Result};
use std::{
    any::Any,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Interval between two checks of the stop flag and of the time limit.
const TICK: Duration = Duration::from_millis(100);

/// The directory and device of one cell.
pub struct CellPlace {
    /// An empty directory for the store.
    pub dir: PathBuf,
    /// The block device that contains the directory, if known.
    pub device: Option<PathBuf>,
    /// Removes the directory and the device when it is dropped, after the cell has ended.
    pub guard: Box<dyn Any>,
}

/// Receives the progress of a run.
pub trait Watch {
    /// Called when `cell` starts. `share` is the share of the run that is finished, from 0 to 1.
    fn begin(&mut self, cell: Cell<'_>, share: f64);
    /// Called while `cell` runs. `share` is the share of the run that is finished, from 0 to 1.
    fn progress(&mut self, cell: Cell<'_>, progress: &Progress, share: f64);
    /// Called when a row (the result of a workload) is complete.
    fn row(&mut self, row: &Row);
}

/// The parameters of a run in addition to its plan.
pub struct RunContext<'a> {
    /// A function that creates the command for the process of a cell.
    pub command: &'a dyn Fn() -> Command,
    /// A function that creates a fresh directory and device for a cell, on the medium that the
    /// cell's engine needs.
    pub ground: &'a mut dyn FnMut(StoreMedium) -> Result<CellPlace>,
    /// Maximum duration of a cell.
    pub timeout: Duration,
    /// If other processes use more than this number of processors while a cell runs, its row is
    /// marked as disturbed.
    pub others_max: f64,
    /// The flag that is set when the user stops the run.
    pub stop: &'a AtomicBool,
    /// Receives the progress of the run.
    pub watch: &'a mut dyn Watch,
}

/// Result of running a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All cells were run.
    Complete {
        /// The engines of the failed cells, in the order of the run.
        failed: Vec<String>,
    },
    /// The user stopped the run.
    Stopped,
}

/// Result of running a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellEnd {
    Done,
    Failed { step: usize },
    Stopped,
}

/// Runs the cells of `plan` that have no valid result in `results`. Then repeats each disturbed
/// round once with all of its engines, so that results remain comparable within a round. If a cell
/// fails, an error row is added to the results, and the run continues. An engine that fails at its
/// first workload does not run again.
///
/// # Errors
/// The run itself fails: a device for a store or a process cannot be created, or a result cannot
/// be written.
pub fn run(plan: &Plan, results: &mut Results, context: &mut RunContext<'_>) -> Result<Ended> {
    let mut waiting: Vec<Cell<'_>> = (1..=plan.rounds()).flat_map(|round| plan.round(round, 1)).collect();
    let mut abandoned: Vec<&str> = Vec::new();
    let mut failed = Vec::new();
    for attempt in [1, 2] {
        if attempt == 2 {
            let disturbed: Vec<u32> = (1..=plan.rounds()).filter(|&round| results.disturbed(round)).collect();
            waiting = disturbed.into_iter().flat_map(|round| plan.round(round, 2)).collect();
        }
        waiting.retain(|&cell| !results.has(plan, cell));
        let count = waiting.len();
        for (at, &cell) in waiting.iter().enumerate() {
            if abandoned.contains(&cell.engine) {
                continue;
            }
            let share = |of_cell: f64| (at as f64 + of_cell) / count as f64;
            match run_cell(plan, cell, results, context, &share)? {
                CellEnd::Done => {}
                CellEnd::Stopped => return Ok(Ended::Stopped),
                CellEnd::Failed { step } => {
                    failed.push(cell.engine.to_owned());
                    if step == 0 {
                        abandoned.push(cell.engine);
                    }
                }
            }
        }
    }
    Ok(Ended::Complete { failed })
}

/// Returns the medium that an engine's stores need. If the engine is unknown, the result does not
/// matter, because the cell fails.
fn below(engine: &str) -> StoreMedium {
    crate::engines::engine(engine).map_or(StoreMedium::FileSystem, |engine| engine.below())
}

fn run_cell(
    plan: &Plan,
    cell: Cell<'_>,
    results: &mut Results,
    context: &mut RunContext<'_>,
    share: &dyn Fn(f64) -> f64,
) -> Result<CellEnd> {
    if context.stop.load(Ordering::Relaxed) {
        return Ok(CellEnd::Stopped);
    }
    context.watch.begin(cell, share(0.0));
    let ground = (context.ground)(below(cell.engine)).context("prepare a device for the store")?;
    let spec = plan.spec(cell, ground.dir.clone(), ground.device.clone());
    let running = Running::start((context.command)(), &spec)?;
    let mut step = 0;
    // When `follow` returns, the process has ended, so the directory of the store can be removed.
    let end = follow(running, plan, cell, context, share, &mut |row, others| {
        // If the process cannot close the store, it reports an error row after its last row. The
        // error row replaces the last row, because the result of the last workload is then invalid.
        let at = step.min(plan.steps().len() - 1);
        let record = Record { plan: plan.id().into(), step: at, attempt: cell.attempt, others, row };
        step += usize::from(record.row.error.is_none());
        results.add(record)
    })?;
    let error = match end {
        Followed::Done if step == plan.steps().len() => return Ok(CellEnd::Done),
        Followed::Done => "the cell's process ended before its last row".into(),
        Followed::Failed => return Ok(CellEnd::Failed { step }),
        Followed::Stopped => return Ok(CellEnd::Stopped),
        Followed::Broken(why) => why,
    };
    // The process may fail after its last row, while it closes the store. The last row is then
    // invalid, and the error row replaces it.
    let step = step.min(plan.steps().len() - 1);
    let row = error_row(&spec, &plan.steps()[step], error);
    let record = Record { plan: plan.id().into(), step, attempt: cell.attempt, others: None, row };
    context.watch.row(&record.row);
    results.add(record)?;
    Ok(CellEnd::Failed { step })
}

/// How the process of a cell ended.
enum Followed {
    Done,
    /// The process reported its failure in a row.
    Failed,
    Stopped,
    /// The process failed without reporting it in a row.
    Broken(String),
}

/// Receives the events of a cell's process until the process has ended or exceeds the time limit,
/// or the user stops the run.
fn follow(
    mut running: Running,
    plan: &Plan,
    cell: Cell<'_>,
    context: &mut RunContext<'_>,
    share: &dyn Fn(f64) -> f64,
    add: &mut dyn FnMut(Row, Option<f64>) -> Result<()>,
) -> Result<Followed> {
    let deadline = Instant::now() + context.timeout;
    let mut before = ProcessorSample::take();
    let mut rows = 0;
    loop {
        if context.stop.load(Ordering::Relaxed) {
            return Ok(Followed::Stopped);
        }
        if Instant::now() >= deadline {
            return Ok(Followed::Broken(format!("the cell took longer than {} s", context.timeout.as_secs())));
        }
        match running.next(TICK) {
            Ok(ChildMessage::Silence) => {}
            Ok(ChildMessage::Event(Event::Progress { progress })) => {
                let of_step = progress.done as f64 / progress.total.max(1) as f64;
                let of_cell = (f64::from(rows) + of_step.min(1.0)) / plan.steps().len() as f64;
                context.watch.progress(cell, &progress, share(of_cell.min(1.0)));
            }
            Ok(ChildMessage::Event(Event::Row(mut row))) => {
                let after = ProcessorSample::take();
                let others = before.as_ref().zip(after.as_ref()).map(|(before, after)| after.others_since(before));
                row.disturbed = others.map(|others| others > context.others_max);
                before = after;
                let failed = row.error.is_some();
                context.watch.row(&row);
                add(*row, others)?;
                if failed {
                    return Ok(Followed::Failed);
                }
                rows += 1;
            }
            Ok(ChildMessage::End(None)) => return Ok(Followed::Done),
            Ok(ChildMessage::End(Some(why))) => return Ok(Followed::Broken(why)),
            Err(error) => return Ok(Followed::Broken(format!("{error:#}"))),
        }
    }
}

/// Returns an error row for a workload whose process could not report the error itself.
fn error_row(spec: &CellSpec, workload: &str, error: String) -> Row {
    Row { workload: workload.into(), error: Some(error), ..Row::blank(spec) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shell script of a child process in these tests. It reports one row for each of the two
    /// workloads, or it fails in the way that the engine's name says.
    const CHILD: &str = r#"
        read spec; engine=${spec#*\"engine\":\"}; engine=${engine%%\"*}; round=${spec#*\"round\":}; round=${round%%,*}
        case $engine in hang) exec sleep 100;; crash) kill -9 $$;; esac
        for step in 0 1; do
            sed "s/\"name\":\"\"/\"name\":\"$engine\"/; s/\"round\":0/\"round\":$round/" ROW
            case $engine in half) echo out of luck >&2; exit 1;; esac
        done
        case $engine in late) exit 7;; esac"#;

    struct Log(Vec<String>);

    impl Watch for Log {
        fn begin(&mut self, cell: Cell<'_>, share: f64) {
            self.0.push(format!("{}{}.{} {share:.2}", cell.engine, cell.round, cell.attempt));
        }
        fn progress(&mut self, _cell: Cell<'_>, _progress: &Progress, _share: f64) {}
        fn row(&mut self, _row: &Row) {}
    }

    fn plan(engines: &[&str], rounds: u32) -> Plan {
        let spec = CellSpec { workloads: vec!["fillseq".into(), "readseq".into()], ..CellSpec::default() };
        Plan::new(spec, engines.iter().map(|&name| name.into()).collect(), rounds, "", 0).unwrap()
    }

    fn run_fake(plan: &Plan, results: &mut Results, others_max: f64, stop: bool) -> (Ended, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let row = directory.path().join("row");
        let text = serde_json::to_string(&Event::Row(Box::default())).unwrap();
        std::fs::write(&row, text + "\n").unwrap();
        let script = CHILD.replace("ROW", row.to_str().unwrap());
        let mut log = Log(Vec::new());
        let mut context = RunContext {
            command: &|| {
                let mut command = Command::new("sh");
                command.args(["-c", &script]);
                command
            },
            ground: &mut |_| Ok(CellPlace { dir: "/nowhere".into(), device: None, guard: Box::new(()) }),
            timeout: Duration::from_secs(3),
            others_max,
            stop: &AtomicBool::new(stop),
            watch: &mut log,
        };
        let ended = run(plan, results, &mut context).unwrap();
        (ended, log.0)
    }

    #[test]
    fn rounds_alternate_and_a_second_start_has_nothing_to_do() {
        let plan = plan(&["a", "b"], 2);
        let mut results = Results::open(None, &plan).unwrap();
        let (ended, log) = run_fake(&plan, &mut results, f64::INFINITY, false);
        assert_eq!(ended, Ended::Complete { failed: vec![] });
        assert_eq!(log, ["a1.1 0.00", "b1.1 0.25", "b2.1 0.50", "a2.1 0.75"]);
        assert_eq!(results.last(&plan).len(), 2 * 2 * 2);
        assert!(run_fake(&plan, &mut results, f64::INFINITY, false).1.is_empty());
    }

    #[test]
    fn disturbed_rounds_are_repeated_once_with_all_engines() {
        let plan = plan(&["a", "b"], 1);
        let mut results = Results::open(None, &plan).unwrap();
        let (ended, log) = run_fake(&plan, &mut results, -1.0, false);
        assert_eq!(ended, Ended::Complete { failed: vec![] });
        assert_eq!(log, ["a1.1 0.00", "b1.1 0.50", "a1.2 0.00", "b1.2 0.50"]);
        assert!(results.last(&plan).iter().all(|record| record.attempt == 2 && record.row.disturbed == Some(true)));
        assert!(run_fake(&plan, &mut results, -1.0, false).1.is_empty());
    }

    #[test]
    fn a_failure_ends_its_cell_alone() {
        let plan = plan(&["crash", "half", "hang", "late", "well"], 2);
        let mut results = Results::open(None, &plan).unwrap();
        let (ended, log) = run_fake(&plan, &mut results, f64::INFINITY, false);
        // The engines `crash` and `hang` fail at their first workload, so they do not run again.
        // The other engines fail in both rounds.
        let failed = ["crash", "half", "hang", "late", "half", "late"].map(String::from).to_vec();
        assert_eq!(ended, Ended::Complete { failed });
        assert_eq!(log.len(), 2 * 5 - 2);
        let error = |engine: &str, step| {
            let last = results.last(&plan);
            let record = last.iter().find(|record| record.row.name == engine && record.step == step);
            record.and_then(|record| record.row.error.clone()).unwrap_or_default()
        };
        assert!(error("crash", 0).contains("signal 9"));
        assert_eq!(error("half", 0), "");
        assert!(error("half", 1).contains("out of luck"));
        assert!(error("hang", 0).contains("longer than 3 s"));
        assert!(error("late", 1).contains("status 7"));
        assert_eq!(error("well", 1), "");
    }

    #[test]
    fn a_stopped_run_ends_before_the_next_cell() {
        let plan = plan(&["a"], 1);
        let mut results = Results::open(None, &plan).unwrap();
        assert_eq!(run_fake(&plan, &mut results, 1.0, true), (Ended::Stopped, vec![]));
    }
}
