//! The figures of a study by engine, row (workload) and point. A point is one combination of the
//! values that the experiment varies.
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

/// An experiment with its results.
#[derive(Debug)]
pub struct Findings {
    /// The experiment.
    pub experiment: Experiment,
    /// Parameters of the run that measured the results.
    pub facts: Facts,
    /// The points of the experiment.
    pub points: Vec<Point>,
    /// One entry for each point, row and engine that ran, in this order.
    pub entries: Vec<Entry>,
    /// Every valid record, with the index of the point at which it was measured.
    records: Vec<(usize, Record)>,
}

/// The results of one engine in one row (workload) at one point.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Name of the row, which is that of its workload.
    pub workload: String,
    /// The point: the axes that the experiment varies, and their labels (values).
    pub at: Vec<(String, String)>,
    /// The results of all rounds that ended without an error.
    pub rows: Vec<Row>,
    /// Error of a round that failed. Such a round has no figures.
    pub error: Option<String>,
}

impl Entry {
    /// Returns the bytes of each layer, and the bytes of the device by cause. Each figure is a
    /// median over the rounds.
    pub fn bytes(&self) -> ByteLine {
        bytes::line(&self.rows.iter().collect::<Vec<_>>())
    }

    /// Returns the metric in the given round, or its median over all rounds if `round` is `None`.
    fn figure(&self, metric: &Metric, round: Option<u32>) -> Option<f64> {
        median(&mut self.figures(metric, round)?)
    }

    /// Returns the median of the metric over all rounds, with its interval.
    pub fn estimate(&self, metric: &Metric) -> Option<Estimate> {
        Estimate::of(self.figures(metric, None)?)
    }

    /// Returns the values of the metric in one round, or in all rounds if `round` is `None`. If one
    /// of the rounds lacks the metric, the result is `None`, because the remaining rounds would be
    /// a biased sample.
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
    /// Reads the results of a study from disk. They may be incomplete.
    pub fn read(folder: &Folder, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<Findings> {
        let (experiment, facts) = folder.read(engine_is_known)?;
        let points = facts.points(&experiment).map_err(|why| anyhow!(why))?;
        ensure!(
            facts.plans.len() == points.len(),
            "its run.json has {} plans for {} points, possibly from another version of this program; run the study again",
            facts.plans.len(),
            points.len()
        );
        let (mut entries, mut records) = (Vec::new(), Vec::new());
        for (number, point) in points.iter().enumerate() {
            let Some(plan) = Folder::plan(&experiment, &facts, point)? else { continue };
            let results = Results::read(&folder.rows(), &plan)?;
            // An earlier run may have had more rounds. Its additional rounds are not used.
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

    /// Returns every valid record, with the axes and labels of the point at which it was measured.
    pub fn records_at(&self) -> impl Iterator<Item = (&[(String, String)], &Record)> {
        self.records.iter().map(|(point, record)| (&self.points[*point].at[..], record))
    }

    /// Returns the entry of an engine at this point and row. The entry must have results of all its
    /// rounds. A missing entry and several entries are errors, too.
    pub fn entry(&self, engine: &str, at: &[(String, String)]) -> Result<&Entry, String> {
        if let Some(why) = self.facts.pending.get(engine) {
            return Err(format!("{engine} is pending: {why}"));
        }
        let mut found = self.entries.iter().filter(|entry| entry.engine == engine && entry.is_at(at));
        let entry = found.next().ok_or_else(|| format!("{engine} was not measured at this point"))?;
        match (&entry.error, found.next()) {
            (_, Some(_)) => Err(format!("{engine} was measured more than once at this point")),
            (Some(error), None) if entry.rows.is_empty() => Err(format!("{engine} failed: {error}")),
            // An engine that failed in some rounds has no figure, because the remaining rounds
            // would be a biased sample.
            (Some(error), None) => Err(format!("{engine} failed in some rounds: {error}")),
            (None, None) if entry.rows.is_empty() => Err(format!("{engine} was not measured yet")),
            (None, None) if entry.rows.len() < self.facts.rounds as usize => {
                Err(format!("{engine} was measured in {} of {} rounds", entry.rows.len(), self.facts.rounds))
            }
            (None, None) => Ok(entry),
        }
    }

    /// Returns the value of a figure in one round, or its median over all rounds if `round` is
    /// `None`. `context` contains the labels (values) of the axes that the figure itself does not
    /// mention.
    pub fn figure(&self, figure: &Figure, context: &[(String, String)], round: Option<u32>) -> Result<f64, String> {
        let at = bind_axes(figure, context);
        let one = |at: &[(String, String)]| {
            let entry = self.entry(&figure.engine, at)?;
            let unknown = || match entry.rows.iter().filter_map(figure.metric.of).count() {
                0 => format!("{} of {} is unknown on this device", figure.metric.name, figure.engine),
                some => format!("{} of {} is known in {some} rounds only", figure.metric.name, figure.engine),
            };
            entry.figure(figure.metric, round).ok_or_else(unknown)
        };
        let Some(axis) = &figure.along else { return one(&at) };
        let labels = self.experiment.labels(axis).unwrap_or_default();
        let mut pairs = Vec::new();
        for label in labels {
            let x = points::number(&label).ok_or_else(|| format!("{label} is not a number"))?;
            let y = one(&[&at[..], &[(axis.clone(), label)]].concat())?;
            pairs.push((x, y));
        }
        exponent(&pairs).ok_or_else(|| format!("no exponent fits {pairs:?}"))
    }

    /// Returns whether the figure is a time that was measured while other processes used the
    /// machine.
    pub fn is_disturbed(&self, figure: &Figure, context: &[(String, String)]) -> bool {
        let at = bind_axes(figure, context);
        let mine = self.entries.iter().filter(|entry| entry.engine == figure.engine && entry.is_at(&at));
        figure.metric.is_of_time() && mine.flat_map(|entry| &entry.rows).any(|row| row.disturbed == Some(true))
    }
}

/// Returns the axes and labels at which a figure is looked up. They are the figure's own axes, and
/// those axes of `context` that the figure does not determine. The axis along which an exponent is
/// fitted is omitted.
fn bind_axes(figure: &Figure, context: &[(String, String)]) -> Vec<(String, String)> {
    let named = |axis: &String| figure.at.iter().any(|(known, _)| known == axis);
    let free = context.iter().filter(|(axis, _)| !named(axis) && figure.along.as_ref() != Some(axis));
    figure.at.iter().chain(free).cloned().collect()
}

/// Looks up figures in the results of a study. The fields are the results, the labels (values) of
/// the axes that a figure does not mention, and the round. If the round is `None`, a figure is the
/// median over all rounds.
pub struct FiguresAt<'a>(pub &'a Findings, pub &'a [(String, String)], pub Option<u32>);

impl Lookup for FiguresAt<'_> {
    fn figure(&self, figure: &Figure) -> Result<f64, String> {
        self.0.figure(figure, self.1, self.2)
    }
}

/// Returns the exponent k of y = c x^k, fitted by least squares of the logarithms. Returns `None`
/// for fewer than two different x, or if a number is not above 0.
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
    fn exponents_of_powers_are_recovered() {
        for k in [-1.0, 0.0, 0.5, 1.3] {
            let pairs: Vec<(f64, f64)> = (0..5).map(|i| f64::from(1 << i)).map(|x| (x, 7.0 * x.powf(k))).collect();
            assert!((exponent(&pairs).unwrap() - k).abs() < 1e-12, "{k}");
        }
        assert_eq!(exponent(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(exponent(&[(1.0, 0.0), (2.0, 2.0)]), None);
        assert_eq!(exponent(&[]), None);
    }
}
