//! Runs every cell of every experiment, point by point. At each point the engines alternate as in
//! `terrace bench`.
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

/// An experiment that is ready to run.
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

/// What a run needs in addition to its tasks. It corresponds to [`run::RunContext`].
pub struct RunContext<'a> {
    /// Creates the command that starts the process of a cell.
    pub command: &'a dyn Fn() -> Command,
    /// Directory for device files and temporary directories.
    pub work: &'a Path,
    /// Maximum duration of a cell.
    pub timeout: Duration,
    /// Number of processors used by other processes above which a row is disturbed.
    pub others_max: f64,
    /// Whether finished cells on disk are discarded and run again.
    pub fresh: bool,
    /// Whether the data on a requested device may be overwritten.
    pub destroy_data: bool,
    /// The flag that is set when the user asks the run to stop.
    pub stop: &'a AtomicBool,
    /// Called when a point starts, with its experiment.
    pub begin: &'a mut dyn FnMut(&Task, &Point),
    /// Receives the progress of cells. Its shares refer to all tasks together.
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
            // A requested device was checked before. Other devices are created per cell.
            device.check(false).with_context(|| task.experiment.name.clone())?;
        }
        parts.push((task, point, plan, device));
    }
    // The rows of all points are removed before the first cell runs. Otherwise a stopped run would
    // leave rows of an earlier run among its own.
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

/// The part of the whole run that one point is.
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

/// Returns the device of a point. A temporary directory is created in `work`.
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
        // The cells have removed the contents of the directory.
        let _ = fs::remove_dir(dir);
    }
    if context.stop.load(Ordering::Relaxed) { ended.map(|_| Ended::Stopped) } else { ended }
}
