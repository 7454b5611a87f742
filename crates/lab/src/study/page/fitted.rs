//! How figures grow along a sweep: the exponents behind pictures whose axes are logarithmic.
use super::Table;
use crate::{
    experiment::expression,
    report::figure,
    study::{findings::Findings, verdict},
};

/// Fewer points than this lie on a line by themselves.
const POINTS_MIN: usize = 3;

/// For each logarithmic plot, row and engine the k of METRIC ~ AXIS^k, fitted over all values; empty without any.
pub fn exponents(findings: &Findings) -> Table {
    let experiment = &findings.experiment;
    let enough = |axis: &str| experiment.labels(axis).is_some_and(|labels| labels.len() >= POINTS_MIN);
    let mut table = Vec::new();
    for plot in experiment.plot.iter().filter(|plot| plot.log) {
        let Some(axis) = plot.x.as_ref().map(|x| x.get_ref()).filter(|axis| enough(axis)) else { continue };
        let metric = plot.y.0;
        for at in verdict::combinations(findings, |name| name != axis) {
            for engine in experiment.engines() {
                let along = Some(axis.clone());
                let fitted = expression::Figure { metric, engine: engine.into(), at: at.clone(), along };
                if let Ok(k) = findings.figure(&fitted, &[]) {
                    let what = format!("{} ~ {axis}^k", metric.name);
                    table.push(vec![verdict::told(findings, &at), engine.to_owned(), what, figure(Some(k))]);
                }
            }
        }
    }
    if !table.is_empty() {
        table.insert(0, ["", "", "fitted over all values", "k"].map(String::from).to_vec());
    }
    table
}
