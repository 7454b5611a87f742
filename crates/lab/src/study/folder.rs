//! The files of a study. The results of each experiment have one directory:
//! ```text
//! OUT/NAME/
//!     experiment.toml   the experiment's file at the time of the run
//!     run.json          scale, build, pending engines with their reasons, plan of each point
//!     rows.jsonl        every row as soon as it is complete; a second start resumes from it
//!     drives/*.json     profiles of the virtual SSDs at their size
//! ```
use crate::{
    experiment::{
        Experiment,
        points::{Point, PointDevice},
    },
    plan::Plan,
};
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The directory with the results of one experiment.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// The parameters of a run that are not in the experiment's file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Scale of the sizes in the run. 1 is the paper's own size.
    pub scale: f64,
    /// Number of rounds per engine and point. In each round, every engine runs once.
    pub rounds: u32,
    /// A number that identifies the build of this program.
    pub program: u64,
    /// The argument of `--device`; `None` if the stores are on the device that the experiment
    /// names.
    #[serde(default)]
    pub device: Option<String>,
    /// Identifiers of the plans of the experiment's points, in the order of the points. An
    /// identifier also depends on the machine of the run.
    #[serde(default)]
    pub plans: Vec<String>,
    /// For each point, text that says whether the kernel or the drive's server enforced the rate of
    /// a drive in memory
    /// ([`DriveOptions::rate_limiter`](crate::device::DriveOptions::rate_limiter)).
    #[serde(default)]
    pub rates_kept_by: Vec<String>,
    /// The command line of the run.
    pub command: String,
    /// Engines that are not available, each with the reason.
    pub pending: BTreeMap<String, String>,
}

impl Facts {
    /// Adds the parameters that depend on the machine that runs `experiment`. Backing files of
    /// devices are created in `work`.
    ///
    /// # Errors
    /// The errors of [`points`](Self::points). A profile that cannot be read is an error, too.
    pub fn here(mut self, experiment: &Experiment, work: &Path) -> Result<Facts, String> {
        let points = self.points(experiment)?;
        let name = |point: &Point| Plan::id_of(&point.spec, &point.place.identity(work)?, self.program);
        let names = points.iter().map(name).collect::<Result<_>>();
        self.plans = names.map_err(|why| format!("{why:#}"))?;
        self.rates_kept_by = points.iter().map(|point| point.place.rate_limiter().to_owned()).collect();
        Ok(self)
    }

    /// Returns the points of `experiment` at the scale of the run, with their devices. A point is
    /// one combination of the values that the experiment varies.
    ///
    /// # Errors
    /// A point is invalid; the error names its line in the experiment's file. It is also an error
    /// if the experiment compares devices and the user requested one device.
    pub fn points(&self, experiment: &Experiment) -> Result<Vec<Point>, String> {
        let mut points = experiment.points(self.scale)?;
        for (point, plan) in points.iter_mut().zip(&self.plans) {
            point.plan.clone_from(plan);
        }
        for (point, kept) in points.iter_mut().zip(&self.rates_kept_by) {
            if let PointDevice::Memory { rate_limiter, .. } = &mut point.place {
                rate_limiter.clone_from(kept);
            }
        }
        let Some(device) = &self.device else { return Ok(points) };
        if let Some(sweep) = experiment.sweep.iter().find(|sweep| sweep.set.get_ref().starts_with("device.")) {
            return Err(format!(
                "the experiment compares devices ({}), so --device cannot be used",
                sweep.set.get_ref()
            ));
        }
        for point in &mut points {
            point.place = PointDevice::Given(device.clone());
            point.stopped.retain(|line| !line.starts_with("device."));
        }
        Ok(points)
    }
}

impl Folder {
    /// Creates the directory of `experiment` below `out` if it is missing, and stores the
    /// experiment and the parameters of the new run in it.
    pub fn begin(out: &Path, experiment: &Experiment, facts: &Facts) -> Result<Folder> {
        let folder = Folder { dir: out.join(&experiment.name) };
        let drives = folder.dir.join("drives");
        fs::create_dir_all(&drives).with_context(|| drives.display().to_string())?;
        folder.write("experiment.toml", &experiment.text)?;
        folder.write("run.json", &serde_json::to_string_pretty(facts).context("facts as JSON")?)?;
        Ok(folder)
    }

    /// Returns the directories below `out` that contain results, in the order of their names.
    /// Returns an error if `out` contains no such directory.
    pub fn all(out: &Path) -> Result<Vec<Folder>> {
        let entries = fs::read_dir(out).with_context(|| out.display().to_string())?;
        let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        dirs.retain(|dir| dir.join("run.json").exists());
        dirs.sort();
        if dirs.is_empty() {
            return Err(anyhow!("{}: contains no run of a study", out.display()));
        }
        Ok(dirs.into_iter().map(|dir| Folder { dir }).collect())
    }

    /// Reads the experiment and the parameters of the run from the directory.
    pub fn read(&self, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<(Experiment, Facts)> {
        let path = self.dir.join("experiment.toml").display().to_string();
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let experiment = Experiment::decode(self.name(), &path, &text, engine_is_known).map_err(|why| anyhow!(why))?;
        let path = self.dir.join("run.json");
        let facts = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((experiment, serde_json::from_str(&facts).with_context(|| path.display().to_string())?))
    }

    /// Returns the name of the experiment.
    pub fn name(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the path of the file that contains the rows (results).
    pub fn rows(&self) -> PathBuf {
        self.dir.join("rows.jsonl")
    }

    /// Returns the `--device` argument for `place`; `None` for a temporary directory. For a virtual
    /// SSD, the function writes the profile to a file.
    pub fn device(&self, place: &PointDevice) -> Result<Option<String>> {
        match place {
            PointDevice::Temporary => Ok(None),
            PointDevice::Given(device) => Ok(Some(device.clone())),
            PointDevice::Loop(bytes, kind) => Ok(Some(format!("loop:{bytes}{}", kind.suffix()))),
            PointDevice::Memory { bytes, drive_options, .. } => Ok(Some(format!("memory:{bytes}{drive_options}"))),
            PointDevice::Vssd { profile, is_steady, drive_options } => {
                let name = format!("drives/{}-{}.json", profile.name, profile.capacity_bytes);
                self.write(&name, &serde_json::to_string_pretty(profile).context("a profile as JSON")?)?;
                let path = self.dir.join(name);
                let state = if *is_steady { ":steady" } else { ":initial" };
                Ok(Some(format!("vssd:{}{state}{drive_options}", path.display())))
            }
        }
    }

    /// Returns the plan of one point with the engines that are available; `None` if no engine is
    /// available.
    pub fn plan(experiment: &Experiment, facts: &Facts, point: &Point) -> Result<Option<Plan>> {
        let here: Vec<String> =
            experiment.engines().filter(|name| !facts.pending.contains_key(*name)).map(String::from).collect();
        if here.is_empty() {
            return Ok(None);
        }
        Plan::with_id(point.plan.clone(), point.spec.clone(), here, facts.rounds).map(Some)
    }

    /// Replaces a file atomically.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, fresh) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path));
        written.with_context(|| path.display().to_string())
    }
}
