//! Output of the results of a study.
//!
//! | module | contents |
//! |---|---|
//! | `text` `markdown` `html` `json` | output for the terminal, a paper, a browser, a program |
//! | `cascade` | picture of one engine's bytes from the user down to flash |
//! | `plot` | plot of a figure along an axis of the experiment, or by engine |
//! | `over_time` | throughput and latencies from the first operation to the last |
//! | `chart` `strips` | drawing of lines and bars, and of curves over time |
//! | `fitted` | fitted exponents of figures along an axis of the experiment |
mod cascade;
mod chart;
mod fitted;
pub mod html;
pub mod json;
pub mod markdown;
mod over_time;
mod plot;
mod strips;
pub mod text;

use super::{
    findings::{Entry, Findings},
    verdict::{self, Outcome},
};
use crate::{
    cell::Row,
    experiment::{
        WORKLOAD,
        metric::{self, Metric},
    },
    plan::results::Record,
    report::{
        bytes, estimate, figure,
        stats::{ROUNDS_OF_A_CLAIM, median},
        terms,
    },
};
use std::collections::BTreeSet;

/// The metrics in the table of figures. A metric has a column if any entry has it.
const COLUMNS: [&str; 13] = [
    "micros",
    "micros_settled",
    "mib_per_s",
    "p99",
    "wa_engine",
    "wa_process",
    "wa1",
    "wa2",
    "wa",
    "ra",
    "sa",
    "syncs",
    "synced_mib",
];

/// A table: a header and lines. The first two columns are names.
type Table = Vec<Vec<String>>;

/// Returns the table of figures. It has a line for every entry (the results of one engine in one
/// workload at one point), and a column for every metric that any entry has.
fn figures(findings: &Findings) -> Table {
    let metrics: Vec<&Metric> = COLUMNS.iter().filter_map(|name| metric::find(name).ok()).collect();
    let has = |metric: &&Metric| findings.entries.iter().any(|entry| entry.estimate(metric).is_some());
    let shown: Vec<&Metric> = metrics.into_iter().filter(has).collect();
    let name = |metric: &&Metric| match metric.name {
        "micros" => "µs/op".to_owned(),
        "micros_settled" => "settled µs/op".to_owned(),
        "mib_per_s" => "user MiB/s".to_owned(),
        "synced_mib" => "synced MiB".to_owned(),
        name if metric.unit.is_empty() => name.to_owned(),
        name => format!("{name} {}", metric.unit),
    };
    let mut table = vec![["", ""].map(String::from).into_iter().chain(shown.iter().map(name)).collect::<Vec<_>>()];
    for entry in &findings.entries {
        let cells = shown.iter().map(|metric| match (&entry.error, entry.rows.is_empty()) {
            (Some(_), true) => "failed".into(),
            _ => estimate(entry.estimate(metric)),
        });
        table.push([describe_point(findings, entry), entry.engine.clone()].into_iter().chain(cells).collect());
    }
    let width = table[0].len();
    for engine in findings.facts.pending.keys() {
        table.push([vec![String::new(), engine.clone()], vec!["pending".into(); width - 2]].concat());
    }
    table
}

/// Returns the table of bytes by layer and cause, with a line for every entry that has writes.
/// Without such an entry the table is empty.
fn bytes(findings: &Findings) -> Table {
    bytes::table(
        findings.entries.iter().map(|entry| ([describe_point(findings, entry), entry.engine.clone()], entry.bytes())),
    )
}

/// Describes the point of an entry in words. If the experiment has only one point, the description
/// is the name of the workload.
fn describe_point(findings: &Findings, entry: &Entry) -> String {
    let mut at = entry.at.clone();
    at.push((WORKLOAD.into(), entry.workload.clone()));
    Some(verdict::describe(findings, &at)).filter(|text| !text.is_empty()).unwrap_or_else(|| entry.workload.clone())
}

/// Returns the table that compares measured figures with those of the paper. Without any figure to
/// compare, the table is empty.
fn compared(findings: &Findings) -> Table {
    let compared = verdict::compared(findings);
    if compared.is_empty() {
        return Vec::new();
    }
    let header = ["", "", "paper", "here", "here / paper"].map(String::from).to_vec();
    let line = |it: verdict::Compared| {
        let here = it.here.as_ref().ok().copied();
        let shown = match &it.here {
            Ok(_) => figure(here),
            Err(_) => "pending".into(),
        };
        let ratio = figure(here.filter(|_| it.paper != 0.0).map(|here| here / it.paper));
        vec![it.what.clone(), verdict::describe(findings, &it.at), figure(Some(it.paper)), shown, ratio]
    };
    [header].into_iter().chain(compared.into_iter().map(line)).collect()
}

/// Returns the known reasons for differences from the paper. Only figures that were measured are
/// included.
fn reasons(findings: &Findings) -> Vec<(&str, &str)> {
    let compared = verdict::compared(findings);
    let is_there = |what: &str| compared.iter().any(|it| it.what == what && it.here.is_ok());
    let text = findings.experiment.compare.iter().filter_map(|compare| Some((&*compare.what, compare.why.as_deref()?)));
    text.filter(|(what, _)| is_there(what)).collect()
}

/// An expectation and its verdict.
struct Judged {
    outcome: Outcome,
    that: String,
    because: String,
    /// Texts about some of the cases (combinations of the values of the free axes). A text has both
    /// sides of the inequality, or the reason why a figure is missing. Cases in which the
    /// inequality fails are first. The other cases are in order of the number of rounds in which
    /// the inequality holds.
    cases: Vec<String>,
    otherwise: Option<String>,
}

/// Maximum number of cases that the output shows per expectation.
const CASES_MAX: usize = 4;

fn judged(findings: &Findings) -> Vec<Judged> {
    let one = |verdict: verdict::Verdict| {
        let mut cases = verdict.cases.clone();
        cases.sort_by_key(|case| case.rounds_held);
        cases.sort_by_key(|case| case.holds); // unknown, then false, then true
        cases.sort_by_key(|case| case.holds != Some(false));
        let text = |case: &verdict::Case| {
            let at = verdict::describe(findings, &case.at);
            let sides = match &case.sides {
                Ok((left, right)) => {
                    let sign = if case.holds == Some(true) { "and" } else { "but" };
                    let several = case.rounds_held.filter(|_| findings.facts.rounds > 1);
                    let rounds = several.map_or_else(String::new, |held| {
                        format!("; holds in {held} of {} rounds", findings.facts.rounds)
                    });
                    let note = if case.disturbed { " (disturbed by other processes)" } else { "" };
                    format!("{} {sign} {}{rounds}{note}", figure(Some(*left)), figure(Some(*right)))
                }
                Err(why) => why.clone(),
            };
            if at.is_empty() { sides } else { format!("{at}: {sides}") }
        };
        let more = cases.len().saturating_sub(CASES_MAX);
        let mut shown: Vec<String> = cases.iter().take(CASES_MAX).map(text).collect();
        shown.dedup();
        shown.extend((more > 0).then(|| format!("{more} more")));
        let otherwise = verdict.otherwise.filter(|_| verdict.outcome == Outcome::Broken);
        Judged { outcome: verdict.outcome, that: verdict.that, because: verdict.because, cases: shown, otherwise }
    };
    verdict::verdicts(findings).into_iter().map(one).collect()
}

impl Outcome {
    /// Returns the outcome as a word.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Held => "holds",
            Outcome::Broken => "does not hold",
            Outcome::Pending => "pending",
        }
    }
}

/// Returns the conditions under which the figures were measured: devices, common settings,
/// deviations, builds, machine, notes and errors.
fn terms(findings: &Findings) -> Vec<(&'static str, Vec<String>)> {
    let records: Vec<&Record> = findings.records_at().map(|(_, record)| record).collect();
    let place: BTreeSet<String> = findings.points.iter().map(|point| point.place.describe()).collect();
    let stopped: BTreeSet<&String> = findings.points.iter().flat_map(|point| &point.stopped).collect();
    let pending = findings.facts.pending.iter().map(|(engine, why)| format!("{engine}: {why}")).collect::<Vec<_>>();
    let first = findings.points.first();
    let plan =
        first.and_then(|point| super::folder::Folder::plan(&findings.experiment, &findings.facts, point).ok()?);
    let device = place.into_iter().collect::<Vec<_>>().join("; ");
    let mut terms = plan.map_or_else(Vec::new, |plan| terms::of(&plan, &device, &records));
    if let (Some((_, lines)), false) = (terms.first_mut(), findings.experiment.sweep.is_empty()) {
        lines.push("swept settings are in the table; these are those of the first point".into());
    }
    let own = [("Pending", pending), ("Not shrunk", stopped.into_iter().cloned().collect())];
    own.into_iter().filter(|(_, lines)| !lines.is_empty()).chain(terms).collect()
}

/// Returns the row of one round of an entry: the round whose figure is nearest to the median over
/// all rounds. A picture of a single round shows this round.
fn median_round(entry: &Entry, of: impl Fn(&Row) -> Option<f64>) -> Option<&Row> {
    let median_round = median(&mut entry.rows.iter().filter_map(&of).collect::<Vec<_>>())?;
    let off = |row: &Row| of(row).map_or(f64::INFINITY, |figure| (figure - median_round).abs());
    entry.rows.iter().min_by(|a, b| off(a).total_cmp(&off(b)))
}

/// Describes the scale in words, with a sentence that says whether the number of rounds is enough
/// for a claim.
fn scale(findings: &Findings) -> String {
    let rounds = findings.facts.rounds;
    let mut rounds = format!("{rounds} round{}", if rounds == 1 { "" } else { "s" });
    if (findings.facts.rounds as usize) < ROUNDS_OF_A_CLAIM {
        rounds += &format!(": times are indicative, a claim needs {ROUNDS_OF_A_CLAIM}");
    }
    match findings.facts.scale {
        1.0 => format!("at the paper's own size, {rounds}"),
        scale => format!("at scale {scale}, {rounds}"),
    }
}
