//! Runs every cell of every experiment, point by point. A cell is one engine in one round. A point
//! is one combination of the values that an experiment varies. At each point the engines alternate
//! as in `terrace bench`.
use super::folder::{Facts, Folder};
use crate::{
    cell::{Progress, Row},
    device::{DeviceSpec, Images},
    experiment::{
        Experiment,
        points::{Point, PointDevice},
    },
    plan::{
        Cell, Plan,
        results::Results,
        run::{self, CellPlace, Ended, Watch},
    },
};
use anyhow::{Context, Result, anyhow};
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// An experiment that is ready to run, with its directory for results.
pub struct Task {
    /// The experiment.
    pub experiment: Experiment,
    /// Parameters of the run.
    pub facts: Facts,
    /// Directory for the results.
    pub folder: Folder,
    /// The points of the experiment at the scale of the run.
    pub points: Vec<Point>,
}

/// The parameters of a run in addition to its experiments. They correspond to [`run::RunContext`].
pub struct RunContext<'a> {
    /// A function that creates the command for the process of a cell.
    pub command: &'a dyn Fn() -> Command,
    /// Directory for device files and temporary directories.
    pub work: &'a Path,
    /// Maximum duration of a cell.
    pub timeout: Duration,
    /// If other processes use more than this number of processors while a cell runs, its row is
    /// marked as disturbed.
    pub others_max: f64,
    /// Whether the run discards the results of finished cells on disk and measures them again.
    pub fresh: bool,
    /// Whether the run may overwrite data on a device that the user requested.
    pub destroy_data: bool,
    /// The flag that is set when the user stops the run.
    pub stop: &'a AtomicBool,
    /// A function that is called with the experiment and the point when a point starts.
    pub begin: &'a mut dyn FnMut(&Task, &Point),
    /// Receives the progress of cells. The shares that it receives refer to all experiments
    /// together.
    pub watch: &'a mut dyn Watch,
}

/// Runs the cells of `tasks` that have no results yet. Returns the engine and the experiment of
/// each failed cell, or `None` if the run was stopped.
pub fn run(tasks: &[Task], context: &mut RunContext<'_>) -> Result<Option<Vec<String>>> {
    let mut parts = Vec::new();
    for (task, point) in tasks.iter().flat_map(|task| task.points.iter().map(move |point| (task, point))) {
        let Some(plan) = Folder::plan(&task.experiment, &task.facts, point)? else { continue };
        let device = device_of(task, point, context.work)?;
        if !matches!(point.place, PointDevice::Given(_)) {
            // A device that the user requested was checked before. Other devices are created for
            // each cell.
            device.check(false).with_context(|| task.experiment.name.clone())?;
        }
        parts.push((task, point, plan, device));
    }
    // The rows of all points are removed before the first cell runs. Otherwise, if this run were
    // stopped, rows of an earlier run would remain next to its own.
    for (task, _, plan, _) in parts.iter().filter(|_| context.fresh) {
        Results::forget(&task.folder.rows(), plan)?;
    }
    let total: f64 = parts.iter().map(|(_, _, plan, _)| plan.work()).sum();
    let images = Arc::new(Images::default());
    let (mut before, mut failed) = (0.0, Vec::new());
    for (task, point, plan, device) in parts {
        (context.begin)(task, point);
        let share = Share { before: before / total, of: plan.work() / total };
        before += plan.work();
        let ground = (&device, &images);
        match run_point(task, point, &plan, share, ground, context).with_context(|| task.experiment.name.clone())? {
            Ended::Stopped => return Ok(None),
            Ended::Complete { failed: names } => {
                failed.extend(names.iter().map(|name| format!("{} in {}", name, task.experiment.name)));
            }
        }
    }
    Ok(Some(failed))
}

/// The part of one point in the work of the whole run: the share of the work before the point, and
/// the share of the point itself.
#[derive(Clone, Copy)]
struct Share {
    before: f64,
    of: f64,
}

struct ShareWatch<'a> {
    share: Share,
    inner: &'a mut dyn Watch,
}

impl Watch for ShareWatch<'_> {
    fn begin(&mut self, cell: Cell<'_>, share: f64) {
        self.inner.begin(cell, self.share.before + share * self.share.of);
    }

    fn progress(&mut self, cell: Cell<'_>, progress: &Progress, share: f64) {
        self.inner.progress(cell, progress, self.share.before + share * self.share.of);
    }

    fn row(&mut self, row: &Row) {
        self.inner.row(row);
    }
}

/// Returns the device of a point. If the point needs no particular device, it is a temporary
/// directory in `work`.
fn device_of(task: &Task, point: &Point, work: &Path) -> Result<DeviceSpec> {
    match task.folder.device(&point.place)? {
        Some(text) => text.parse().map_err(|why: String| anyhow!(why)),
        None => Ok(DeviceSpec::Dir(work.join(format!("terrace-study-{}", std::process::id())))),
    }
}

fn run_point(
    task: &Task,
    point: &Point,
    plan: &Plan,
    share: Share,
    (device, images): (&DeviceSpec, &Arc<Images>),
    context: &mut RunContext<'_>,
) -> Result<Ended> {
    let mut results = Results::open(Some(&task.folder.rows()), plan)?;
    let work = context.work;
    let (is_given, destroy_data) = (matches!(point.place, PointDevice::Given(_)), context.destroy_data);
    let ended = run::run(
        plan,
        &mut results,
        &mut run::RunContext {
            command: context.command,
            ground: &mut |below| {
                let device = device.prepare(work, below, destroy_data, Some(images))?;
                fs::create_dir_all(&device.dir).with_context(|| device.dir.display().to_string())?;
                Ok(CellPlace { dir: device.dir.clone(), device: device.node.clone(), guard: Box::new(device) })
            },
            timeout: context.timeout,
            others_max: context.others_max,
            stop: context.stop,
            watch: &mut ShareWatch { share, inner: context.watch },
        },
    );
    if let (DeviceSpec::Dir(dir), false) = (device, is_given) {
        // The directory is empty at this point of the run, because the cells have removed its
        // contents.
        let _ = fs::remove_dir(dir);
    }
    if context.stop.load(Ordering::Relaxed) { ended.map(|_| Ended::Stopped) } else { ended }
}
