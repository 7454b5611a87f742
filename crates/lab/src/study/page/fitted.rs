//! Fits power laws to plots with two logarithmic axes. A fit gives the exponent with which a
//! figure grows along an axis of the experiment.
use super::Table;
use crate::{
    experiment::{expression, metric::Metric},
    report::figure,
    study::{findings::Findings, verdict},
};

/// Minimum number of points for a fit. With fewer points the fit is always exact and says nothing.
const POINTS_MIN: usize = 3;

/// The result of fitting METRIC ~ AXIS^exponent for one engine at one point.
pub struct Fitted {
    /// The metric.
    pub metric: &'static Metric,
    /// The axis.
    pub axis: String,
    /// The engine.
    pub engine: String,
    /// The axes other than the fitted one, with their labels.
    pub at: verdict::Context,
    /// The fitted exponent.
    pub exponent: f64,
}

/// Returns a fit for each logarithmic plot, row and engine. A fit covers all values of the plot's
/// axis.
pub fn all(findings: &Findings) -> Vec<Fitted> {
    let experiment = &findings.experiment;
    let enough = |axis: &str| experiment.labels(axis).is_some_and(|labels| labels.len() >= POINTS_MIN);
    let mut all = Vec::new();
    for plot in experiment.plot.iter().filter(|plot| plot.log) {
        let Some(axis) = plot.x.as_ref().map(|x| x.get_ref()).filter(|axis| enough(axis)) else { continue };
        let metric = plot.y.0;
        for at in verdict::combinations(findings, |name| name != axis) {
            for engine in experiment.engines() {
                let along = Some(axis.clone());
                let figure = expression::Figure { metric, engine: engine.into(), at: at.clone(), along };
                if let Ok(exponent) = findings.figure(&figure, &[], None) {
                    all.push(Fitted { metric, axis: axis.clone(), engine: engine.into(), at: at.clone(), exponent });
                }
            }
        }
    }
    all
}

/// Returns the fits of all findings as a table. Without any fit the table is empty.
pub fn exponents(findings: &Findings) -> Table {
    let all = all(findings);
    if all.is_empty() {
        return Vec::new();
    }
    let header = ["", "", "fitted over all values", "k"].map(String::from).to_vec();
    let line = |Fitted { metric, axis, engine, at, exponent }: Fitted| {
        let what = format!("{} ~ {axis}^k", metric.name);
        vec![verdict::describe(findings, &at), engine, what, figure(Some(exponent))]
    };
    [header].into_iter().chain(all.into_iter().map(line)).collect()
}
