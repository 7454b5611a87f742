//! What is kept of a run, one folder for each experiment:
//! ```text
//! OUT/NAME/experiment.toml   as it was when it ran
//!          run.json          at which scale, by which build, what was pending and why, and which rows are of which point
//!          rows.jsonl        every row, as soon as it was there: what a second start goes on from
//!          drives/*.json     profiles of the virtual SSDs at their size
//! ```
use crate::{
    experiment::{
        Experiment,
        points::{Place, Point},
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

/// The folder of one experiment.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// What a run was, beside its experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// 1 is the paper's own size.
    pub scale: f64,
    /// How often each engine ran at each point.
    pub rounds: u32,
    /// A number that another build does not have.
    pub program: u64,
    /// What `--device` said, where stores do not live on what the experiment names.
    #[serde(default)]
    pub device: Option<String>,
    /// The names of the plans of its points, in order: what each rests on beside this is known only where it runs.
    #[serde(default)]
    pub plans: Vec<String>,
    /// Who saw to the rate of drives in memory, by point ([`Habits::kept_by`](crate::device::Habits::kept_by)).
    #[serde(default)]
    pub rates_kept_by: Vec<String>,
    /// What was typed.
    pub command: String,
    /// Engines that were not there, and why.
    pub pending: BTreeMap<String, String>,
}

impl Facts {
    /// The same, with what is known only here, where `experiment` is carried out; files of devices are made in `work`.
    ///
    /// # Errors
    /// As [`points`](Self::points); or a profile cannot be read.
    pub fn here(mut self, experiment: &Experiment, work: &Path) -> Result<Facts, String> {
        let points = self.points(experiment)?;
        let name = |point: &Point| Plan::id_of(&point.spec, &point.place.identity(work)?, self.program);
        let names = points.iter().map(name).collect::<Result<_>>();
        self.plans = names.map_err(|why| format!("{why:#}"))?;
        self.rates_kept_by = points.iter().map(|point| point.place.rate_kept_by().to_owned()).collect();
        Ok(self)
    }

    /// The points of `experiment` at this scale, where their stores live.
    ///
    /// # Errors
    /// What is wrong with a point, with its line; or devices are what the experiment compares, and one was given.
    pub fn points(&self, experiment: &Experiment) -> Result<Vec<Point>, String> {
        let mut points = experiment.points(self.scale)?;
        for (point, plan) in points.iter_mut().zip(&self.plans) {
            point.plan.clone_from(plan);
        }
        for (point, kept) in points.iter_mut().zip(&self.rates_kept_by) {
            if let Place::Memory { kept_by, .. } = &mut point.place {
                kept_by.clone_from(kept);
            }
        }
        let Some(device) = &self.device else { return Ok(points) };
        if let Some(sweep) = experiment.sweep.iter().find(|sweep| sweep.set.get_ref().starts_with("device.")) {
            return Err(format!("it compares devices ({}), so none can be given", sweep.set.get_ref()));
        }
        for point in &mut points {
            point.place = Place::Given(device.clone());
            point.stopped.retain(|line| !line.starts_with("device."));
        }
        Ok(points)
    }
}

impl Folder {
    /// The folder of `experiment` below `out`, made if it is missing, with `facts` about the run that begins.
    pub fn begin(out: &Path, experiment: &Experiment, facts: &Facts) -> Result<Folder> {
        let folder = Folder { dir: out.join(&experiment.name) };
        let drives = folder.dir.join("drives");
        fs::create_dir_all(&drives).with_context(|| drives.display().to_string())?;
        folder.write("experiment.toml", &experiment.text)?;
        folder.write("run.json", &serde_json::to_string_pretty(facts).context("facts as JSON")?)?;
        Ok(folder)
    }

    /// The folders below `out`, by name; none is an error.
    pub fn all(out: &Path) -> Result<Vec<Folder>> {
        let entries = fs::read_dir(out).with_context(|| out.display().to_string())?;
        let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        dirs.retain(|dir| dir.join("run.json").exists());
        dirs.sort();
        if dirs.is_empty() {
            return Err(anyhow!("{}: there is no run of a study in it", out.display()));
        }
        Ok(dirs.into_iter().map(|dir| Folder { dir }).collect())
    }

    /// The experiment and the facts as they were kept.
    pub fn read(&self, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<(Experiment, Facts)> {
        let path = self.dir.join("experiment.toml").display().to_string();
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let experiment = Experiment::decode(self.name(), &path, &text, engine_is_known).map_err(|why| anyhow!(why))?;
        let path = self.dir.join("run.json");
        let facts = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((experiment, serde_json::from_str(&facts).with_context(|| path.display().to_string())?))
    }

    /// The experiment's name.
    pub fn name(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The file of rows.
    pub fn rows(&self) -> PathBuf {
        self.dir.join("rows.jsonl")
    }

    /// What `--device` would say for `place`; `None` for a temporary directory. A drive's profile is written to a file.
    pub fn device(&self, place: &Place) -> Result<Option<String>> {
        match place {
            Place::Temporary => Ok(None),
            Place::Given(device) => Ok(Some(device.clone())),
            Place::Loop(bytes, kind) => Ok(Some(format!("loop:{bytes}{}", kind.suffix()))),
            Place::Memory { bytes, habits, .. } => Ok(Some(format!("memory:{bytes}{habits}"))),
            Place::Vssd { profile, is_steady, habits } => {
                let name = format!("drives/{}-{}.json", profile.name, profile.capacity_bytes);
                self.write(&name, &serde_json::to_string_pretty(profile).context("a profile as JSON")?)?;
                let path = self.dir.join(name);
                let state = if *is_steady { ":steady" } else { ":initial" };
                Ok(Some(format!("vssd:{}{state}{habits}", path.display())))
            }
        }
    }

    /// The plan of one point, for the engines that are there; `None` if all are pending.
    pub fn plan(experiment: &Experiment, facts: &Facts, point: &Point) -> Result<Option<Plan>> {
        let here: Vec<String> =
            experiment.engines().filter(|name| !facts.pending.contains_key(*name)).map(String::from).collect();
        if here.is_empty() {
            return Ok(None);
        }
        Plan::called(point.plan.clone(), point.spec.clone(), here, facts.rounds).map(Some)
    }

    /// Replaces a file whole, or not at all.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, fresh) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path));
        written.with_context(|| path.display().to_string())
    }
}
