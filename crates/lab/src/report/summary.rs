//! Computes the figures of a comparison of engines in several workloads.
use super::{
    line::Line,
    stats::{Estimate, ROUNDS_OF_A_CLAIM},
    terms,
};
use crate::{
    cell::Row,
    plan::{Plan, results::Record},
};

/// The report of a comparison of engines, ready for output as a table, Markdown or CSV.
#[derive(Clone, Debug)]
pub struct Report {
    /// The engine that all others are compared with.
    pub base: String,
    /// The workloads, in the order of the plan.
    pub groups: Vec<Group>,
    /// Notes under the tables: common settings, deviations, builds, machine and remarks. Each has a
    /// title and its lines.
    pub terms: Vec<(&'static str, Vec<String>)>,
}

/// The figures of all engines in one workload.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the workload. If the workload runs a second time, ` #2` follows.
    pub workload: String,
    /// One line per engine, in the order of the plan.
    pub lines: Vec<Line>,
}

impl Report {
    /// Computes the figures from the valid records of `plan`. `device` is a description of the
    /// device.
    pub fn new(plan: &Plan, device: &str, records: &[&Record]) -> Report {
        let base = plan.engines()[0].clone();
        let group = |step: usize| {
            let rows = |engine: &str| rows(records, engine, step);
            let base_rows = rows(&base);
            let line = |engine: &String| {
                let compared = (*engine != base).then_some(&base_rows[..]);
                Line::new(engine, &rows(engine), compared)
            };
            Group { workload: title(plan.steps(), step), lines: plan.engines().iter().map(line).collect() }
        };
        Report {
            base: base.clone(),
            groups: (0..plan.steps().len()).map(group).collect(),
            terms: terms::of(plan, device, records),
        }
    }

    /// Returns whether any line has a WA2 (flash bytes per device byte). If none has, the column is
    /// omitted.
    pub(super) fn has_wa2(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.lines).any(|line| line.wa2.is_some())
    }

    /// Returns a sentence that says whether the number of rounds is enough for a claim.
    pub fn verdict(&self) -> String {
        let lines = || self.groups.iter().flat_map(|group| &group.lines);
        let rounds = |estimate: &Option<Estimate>| estimate.map(|estimate| estimate.rounds);
        let paired = lines().filter_map(|line| rounds(&line.ratio)).min();
        let rounds = paired.or_else(|| lines().filter_map(|line| rounds(&line.micros)).min()).unwrap_or(0);
        let what = if paired.is_some() { "paired rounds" } else { "rounds" };
        if rounds < ROUNDS_OF_A_CLAIM {
            format!("Indicative only: {rounds} {what}; a claim needs {ROUNDS_OF_A_CLAIM}.")
        } else {
            format!(
                "{rounds} {what}. A difference is significant if the interval of a ratio excludes 1; for writes, in both columns."
            )
        }
    }
}

fn rows<'a>(records: &[&'a Record], engine: &str, step: usize) -> Vec<&'a Row> {
    let mine = records.iter().filter(|record| record.step == step && record.row.name == engine);
    mine.map(|record| &record.row).collect()
}

/// Returns the name of workload number `step`. If the same workload runs a second time, ` #2`
/// follows.
pub(crate) fn title(steps: &[String], step: usize) -> String {
    match steps[..step].iter().filter(|name| **name == steps[step]).count() {
        0 => steps[step].clone(),
        before => format!("{} #{}", steps[step], before + 1),
    }
}
