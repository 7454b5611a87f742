//! Draws the plots of an experiment: a figure along one of the axes that the experiment varies, or
//! one bar for each engine.
use super::chart::{Dot, Series, bars, lines};
use crate::{
    experiment::{Plot, points::number},
    study::{findings::Findings, verdict},
};
use anyhow::Result;

/// A picture with its title.
pub struct Picture {
    /// The metric and the point of the experiment that the picture shows.
    pub title: String,
    /// The picture as SVG.
    pub svg: String,
}

/// Returns the pictures of a plot. There is one for every combination of the values of the axes
/// other than the x axis. A picture without any figure is omitted.
pub fn pictures(findings: &Findings, plot: &Plot) -> Result<Vec<Picture>> {
    let metric = plot.y.0;
    let axis = plot.x.as_ref().map(|x| x.get_ref().clone());
    let labels = axis.as_ref().and_then(|axis| findings.experiment.labels(axis)).unwrap_or_else(|| vec![String::new()]);
    let numbers: Option<Vec<f64>> = labels.iter().map(|label| number(label)).collect();
    // If a label is not a number, the labels are categories at equal distances.
    let places = numbers.clone().unwrap_or_else(|| (0..labels.len()).map(|at| at as f64).collect());
    let mut pictures = Vec::new();
    for rest in verdict::combinations(findings, |name| Some(name) != axis.as_deref()) {
        let at = |label: &String| match &axis {
            Some(axis) => [&rest[..], &[(axis.clone(), label.clone())]].concat(),
            None => rest.clone(),
        };
        let dot = |engine: &str, place: f64, label: &String| -> Option<Dot> {
            let estimate = findings.entry(engine, &at(label)).ok()?.estimate(metric)?;
            let (low, high) = estimate.interval.unwrap_or((estimate.median, estimate.median));
            Some((place, low, estimate.median, high))
        };
        let series: Vec<Series> = findings
            .experiment
            .engines()
            .enumerate()
            .map(|(index, engine)| Series {
                engine: engine.into(),
                index,
                dots: places.iter().zip(&labels).filter_map(|(place, label)| dot(engine, *place, label)).collect(),
            })
            .filter(|series| !series.dots.is_empty())
            .collect();
        if series.is_empty() {
            continue;
        }
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" in {}", metric.unit) };
        let point = verdict::describe(findings, &rest);
        let title = format!("{}{unit}{}{point}", metric.title, if point.is_empty() { "" } else { ": " });
        let y_title = format!("{}{unit}", metric.title);
        let svg = match &axis {
            Some(axis) => lines(&series, axis, &y_title, &labels, numbers.is_some(), plot.log)?,
            None => bars(&series)?,
        };
        pictures.push(Picture { title, svg });
    }
    Ok(pictures)
}
