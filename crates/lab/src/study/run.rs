//! Every cell of every experiment, point by point; at each point engines alternate as in a bench.
use super::folder::{Facts, Folder};
use crate::{
    cell::{Progress, Row},
    device::{DeviceSpec, Images},
    experiment::{
        Experiment,
        points::{Place, Point},
    },
    plan::{
        Cell, Plan,
        results::Results,
        run::{self, Ended, Ground, Watch},
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

/// One experiment, ready to be carried out.
pub struct Task {
    /// What is asked.
    pub experiment: Experiment,
    /// How it is asked.
    pub facts: Facts,
    /// Where the answers go.
    pub folder: Folder,
    /// Its points at that scale.
    pub points: Vec<Point>,
}

/// What a run needs beside its tasks; as [`run::Means`].
pub struct Means<'a> {
    /// The command of a cell's process.
    pub command: &'a dyn Fn() -> Command,
    /// Where files of devices and temporary directories are made.
    pub work: &'a Path,
    /// Longest that a cell may take.
    pub timeout: Duration,
    /// Processors that others may keep busy before a row counts as disturbed.
    pub others_max: f64,
    /// Whether cells that are on disk are forgotten, and run again.
    pub fresh: bool,
    /// Whether a device that was given may lose what is on it.
    pub destroy_data: bool,
    /// Set when the user wants the run to end.
    pub stop: &'a AtomicBool,
    /// Is told the experiment whose point begins.
    pub begin: &'a mut dyn FnMut(&Task, &Point),
    /// Is told about cells; shares are of all tasks together.
    pub watch: &'a mut dyn Watch,
}

/// Carries out what `tasks` still lack. The engine and experiment of each cell that failed, or `None` if it was stopped.
pub fn run(tasks: &[Task], means: &mut Means<'_>) -> Result<Option<Vec<String>>> {
    let mut parts = Vec::new();
    for (task, point) in tasks.iter().flat_map(|task| task.points.iter().map(move |point| (task, point))) {
        let Some(plan) = Folder::plan(&task.experiment, &task.facts, point)? else { continue };
        let device = device_of(task, point, means.work)?;
        if !matches!(point.place, Place::Given(_)) {
            // Each is made for its cell; one that was given was looked at before.
            device.check(false).with_context(|| task.experiment.name.clone())?;
        }
        parts.push((task, point, plan, device));
    }
    // All at once, so that a run which is stopped leaves nothing of an earlier one beside its own.
    for (task, _, plan, _) in parts.iter().filter(|_| means.fresh) {
        Results::forget(&task.folder.rows(), plan)?;
    }
    let total: f64 = parts.iter().map(|(_, _, plan, _)| plan.work()).sum();
    let images = Arc::new(Images::default());
    let (mut before, mut failed) = (0.0, Vec::new());
    for (task, point, plan, device) in parts {
        (means.begin)(task, point);
        let share = Share { before: before / total, of: plan.work() / total };
        before += plan.work();
        let ground = (&device, &images);
        match run_point(task, point, &plan, share, ground, means).with_context(|| task.experiment.name.clone())? {
            Ended::Stopped => return Ok(None),
            Ended::Complete { failed: names } => {
                failed.extend(names.iter().map(|name| format!("{} in {}", name, task.experiment.name)));
            }
        }
    }
    Ok(Some(failed))
}

/// The part of the whole that one point is.
#[derive(Clone, Copy)]
struct Share {
    before: f64,
    of: f64,
}

struct Within<'a> {
    share: Share,
    inner: &'a mut dyn Watch,
}

impl Watch for Within<'_> {
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

/// Where the stores of a point live; a temporary directory is in `work`.
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
    means: &mut Means<'_>,
) -> Result<Ended> {
    let mut results = Results::open(Some(&task.folder.rows()), plan)?;
    let work = means.work;
    let (is_given, destroy_data) = (matches!(point.place, Place::Given(_)), means.destroy_data);
    let ended = run::run(
        plan,
        &mut results,
        &mut run::Means {
            command: means.command,
            ground: &mut |below| {
                let device = device.prepare(work, below, destroy_data, Some(images))?;
                fs::create_dir_all(&device.dir).with_context(|| device.dir.display().to_string())?;
                Ok(Ground { dir: device.dir.clone(), device: device.node.clone(), guard: Box::new(device) })
            },
            timeout: means.timeout,
            others_max: means.others_max,
            stop: means.stop,
            watch: &mut Within { share, inner: means.watch },
        },
    );
    if let (DeviceSpec::Dir(dir), false) = (device, is_given) {
        // Cells have emptied it.
        let _ = fs::remove_dir(dir);
    }
    if means.stop.load(Ordering::Relaxed) { ended.map(|_| Ended::Stopped) } else { ended }
}
