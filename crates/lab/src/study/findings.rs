//! What came out of a run, by engine, row and point.
use super::folder::{Facts, Folder};
use crate::{
    cell::Row,
    experiment::{
        Experiment, WORKLOAD,
        expression::{Figure, Lookup},
        metric::Metric,
        points::{self, Point},
    },
    plan::results::{Record, Results},
    report::{
        bytes::{self, ByteLine},
        stats::{Estimate, median},
        title,
    },
};
use anyhow::{Result, anyhow, ensure};

/// An experiment and all that is known about it.
#[derive(Debug)]
pub struct Findings {
    /// What was asked.
    pub experiment: Experiment,
    /// How.
    pub facts: Facts,
    /// At which points.
    pub points: Vec<Point>,
    /// One for each point, row and engine that ran, in this order.
    pub entries: Vec<Entry>,
    /// Every record that counts, by the number of its point.
    records: Vec<(usize, Record)>,
}

/// One engine in one row at one point.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As `--engine` spells it.
    pub engine: String,
    /// The row's name.
    pub workload: String,
    /// Axes and labels of the point.
    pub at: Vec<(String, String)>,
    /// Rows of all rounds without an error.
    pub rows: Vec<Row>,
    /// Why a round has no figures.
    pub error: Option<String>,
}

impl Entry {
    /// Medians of the bytes of each layer, and of the device's by cause.
    pub fn bytes(&self) -> ByteLine {
        bytes::line(&self.rows.iter().collect::<Vec<_>>())
    }

    /// The figure in one round, or the median over all.
    fn figure(&self, metric: &Metric, round: Option<u32>) -> Option<f64> {
        median(&mut self.figures(metric, round)?)
    }

    /// The figure over all rounds.
    pub fn estimate(&self, metric: &Metric) -> Option<Estimate> {
        Estimate::of(self.figures(metric, None)?)
    }

    /// In one round, or in all. None if one of them has none: those that have one are no sample of those that were to be.
    fn figures(&self, metric: &Metric, round: Option<u32>) -> Option<Vec<f64>> {
        let rows = self.rows.iter().filter(|row| round.is_none_or(|round| row.round == round));
        rows.map(|row| (metric.of)(row).filter(|value| value.is_finite())).collect()
    }

    fn is_at(&self, at: &[(String, String)]) -> bool {
        at.iter().all(|(axis, label)| match axis.as_str() {
            WORKLOAD => self.workload == *label,
            _ => self.at.iter().any(|(known, mine)| known == axis && mine == label),
        })
    }
}

impl Findings {
    /// What is on disk, complete or not.
    pub fn read(folder: &Folder, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<Findings> {
        let (experiment, facts) = folder.read(engine_is_known)?;
        let points = facts.points(&experiment).map_err(|why| anyhow!(why))?;
        ensure!(
            facts.plans.len() == points.len(),
            "its run.json names {} plans for {} points, as that of another version of this program may: run it again",
            facts.plans.len(),
            points.len()
        );
        let (mut entries, mut records) = (Vec::new(), Vec::new());
        for (number, point) in points.iter().enumerate() {
            let Some(plan) = Folder::plan(&experiment, &facts, point)? else { continue };
            let results = Results::read(&folder.rows(), &plan)?;
            // A run of fewer rounds than an earlier one is judged by its own.
            let last: Vec<_> =
                results.last(&plan).into_iter().filter(|record| record.row.round <= facts.rounds).collect();
            for step in 0..plan.steps().len() {
                for engine in plan.engines() {
                    let mine = || last.iter().filter(|record| record.step == step && record.row.name == *engine);
                    entries.push(Entry {
                        engine: engine.clone(),
                        workload: title(plan.steps(), step),
                        at: point.at.clone(),
                        rows: mine().filter(|record| record.row.error.is_none()).map(|it| it.row.clone()).collect(),
                        error: mine().find_map(|record| record.row.error.clone()),
                    });
                }
            }
            records.extend(last.into_iter().map(|record| (number, record.clone())));
        }
        Ok(Findings { experiment, facts, points, entries, records })
    }

    /// Every record that counts, with axes and labels of its point.
    pub fn records_at(&self) -> impl Iterator<Item = (&[(String, String)], &Record)> {
        self.records.iter().map(|(point, record)| (&self.points[*point].at[..], record))
    }

    /// The one entry of an engine at this point and row.
    pub fn entry(&self, engine: &str, at: &[(String, String)]) -> Result<&Entry, String> {
        if let Some(why) = self.facts.pending.get(engine) {
            return Err(format!("{engine} is pending: {why}"));
        }
        let mut found = self.entries.iter().filter(|entry| entry.engine == engine && entry.is_at(at));
        let entry = found.next().ok_or_else(|| format!("{engine} was not measured there"))?;
        match (&entry.error, found.next()) {
            (_, Some(_)) => Err(format!("{engine} was measured more than once there")),
            (Some(error), None) if entry.rows.is_empty() => Err(format!("{engine} failed: {error}")),
            // The rounds that are left are no sample of those that were to be.
            (Some(error), None) => Err(format!("{engine} failed in some rounds: {error}")),
            (None, None) if entry.rows.is_empty() => Err(format!("{engine} was not measured yet")),
            (None, None) if entry.rows.len() < self.facts.rounds as usize => {
                Err(format!("{engine} was measured in {} of {} rounds", entry.rows.len(), self.facts.rounds))
            }
            (None, None) => Ok(entry),
        }
    }

    /// A figure in one round, or its median over all, with what is free in it taken from `context`.
    pub fn figure(&self, figure: &Figure, context: &[(String, String)], round: Option<u32>) -> Result<f64, String> {
        let at = bound(figure, context);
        let one = |at: &[(String, String)]| {
            let entry = self.entry(&figure.engine, at)?;
            let unknown = || match entry.rows.iter().filter_map(figure.metric.of).count() {
                0 => format!("{} of {} is not known on this device", figure.metric.name, figure.engine),
                some => format!("{} of {} is known in {some} rounds only", figure.metric.name, figure.engine),
            };
            entry.figure(figure.metric, round).ok_or_else(unknown)
        };
        let Some(axis) = &figure.along else { return one(&at) };
        let labels = self.experiment.labels(axis).unwrap_or_default();
        let mut pairs = Vec::new();
        for label in labels {
            let x = points::number(&label).ok_or_else(|| format!("{label} is no number"))?;
            let y = one(&[&at[..], &[(axis.clone(), label)]].concat())?;
            pairs.push((x, y));
        }
        exponent(&pairs).ok_or_else(|| format!("no exponent fits {pairs:?}"))
    }

    /// Whether the figure is of time, and others kept the machine busy while it was measured.
    pub fn is_disturbed(&self, figure: &Figure, context: &[(String, String)]) -> bool {
        let at = bound(figure, context);
        let mine = self.entries.iter().filter(|entry| entry.engine == figure.engine && entry.is_at(&at));
        figure.metric.is_of_time() && mine.flat_map(|entry| &entry.rows).any(|row| row.disturbed == Some(true))
    }
}

/// What a figure names, and what is free in it from `context`, but for the axis that it is fitted along.
fn bound(figure: &Figure, context: &[(String, String)]) -> Vec<(String, String)> {
    let named = |axis: &String| figure.at.iter().any(|(known, _)| known == axis);
    let free = context.iter().filter(|(axis, _)| !named(axis) && figure.along.as_ref() != Some(axis));
    figure.at.iter().chain(free).cloned().collect()
}

/// Looks figures up in findings, with what is free in them taken from a context, in one round or over all.
pub struct At<'a>(pub &'a Findings, pub &'a [(String, String)], pub Option<u32>);

impl Lookup for At<'_> {
    fn figure(&self, figure: &Figure) -> Result<f64, String> {
        self.0.figure(figure, self.1, self.2)
    }
}

/// k of y = c x^k, by least squares of logarithms; `None` for fewer than two different x, or figures not above 0.
pub fn exponent(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|log| log.0), mean(|log| log.1));
    let covariance: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    (variance > 1e-12).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_of_powers_come_out() {
        for k in [-1.0, 0.0, 0.5, 1.3] {
            let pairs: Vec<(f64, f64)> = (0..5).map(|i| f64::from(1 << i)).map(|x| (x, 7.0 * x.powf(k))).collect();
            assert!((exponent(&pairs).unwrap() - k).abs() < 1e-12, "{k}");
        }
        assert_eq!(exponent(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(exponent(&[(1.0, 0.0), (2.0, 2.0)]), None);
        assert_eq!(exponent(&[]), None);
    }
}
