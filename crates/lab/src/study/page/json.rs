//! Output of the results for programs. It has one object per experiment, with the contents of the
//! other output formats. Every figure has all its digits. An unknown figure is omitted from
//! `figures`, and is `null` elsewhere; it is never replaced by an estimate.
use super::{fitted, reasons, terms};
use crate::{
    experiment::metric,
    report::{bytes, stats::Estimate},
    study::{
        findings::{Entry, Findings},
        verdict::{self, Case, Compared, Context, Outcome, Verdict},
    },
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Returns the results of one experiment as an object.
pub fn render(findings: &Findings) -> Value {
    let (experiment, facts) = (&findings.experiment, &findings.facts);
    let reasons = reasons(findings);
    let why = |what: &str| reasons.iter().find(|(known, _)| *known == what).map(|(_, why)| *why);
    json!({
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "question": experiment.question,
        "scaling": experiment.scaling,
        "scale": facts.scale,
        "rounds": facts.rounds,
        "command": facts.command,
        "devices": findings.points.iter().map(|point| point.place.describe()).collect::<BTreeSet<_>>(),
        "pending": facts.pending,
        "entries": findings.entries.iter().map(entry).collect::<Vec<_>>(),
        "exponents": fitted::all(findings).iter().map(exponent).collect::<Vec<_>>(),
        "compared": verdict::compared(findings).iter().map(|it| compared(it, why(&it.what))).collect::<Vec<_>>(),
        "expectations": verdict::verdicts(findings).iter().map(expectation).collect::<Vec<_>>(),
        "terms": terms(findings).into_iter().map(|(title, lines)| (title.to_owned(), lines.into())).collect::<Map<_, _>>(),
    })
}

/// Returns the axes and labels of a point as an object.
fn at(context: &Context) -> Map<String, Value> {
    context.iter().map(|(axis, label)| (axis.clone(), label.as_str().into())).collect()
}

fn entry(entry: &Entry) -> Value {
    let figure = |metric: &'static metric::Metric| Some((metric.name.to_owned(), estimate(&entry.estimate(metric)?)));
    json!({
        "engine": entry.engine,
        "workload": entry.workload,
        "at": at(&entry.at),
        "error": entry.error,
        "disturbed_rounds": entry.rows.iter().filter(|row| row.disturbed == Some(true)).count(),
        "bytes": bytes::names().zip(entry.bytes()).map(|(name, sum)| (name.replace(' ', "_"), sum.into())).collect::<Map<_, _>>(),
        "figures": metric::LIST.iter().filter_map(figure).collect::<Map<_, _>>(),
    })
}

/// Returns a median over rounds as an object. If there are several rounds, the object has a
/// bootstrap 95 % interval.
fn estimate(estimate: &Estimate) -> Value {
    let Estimate { median, interval, rounds } = estimate;
    json!({ "median": median, "low": interval.map(|it| it.0), "high": interval.map(|it| it.1), "rounds": rounds })
}

fn exponent(fitted: &fitted::Fitted) -> Value {
    json!({ "metric": fitted.metric.name, "axis": fitted.axis, "engine": fitted.engine, "at": at(&fitted.at),
        "exponent": fitted.exponent })
}

fn compared(it: &Compared, why: Option<&str>) -> Value {
    json!({ "what": it.what, "at": at(&it.at), "paper": it.paper, "paper_key": it.path, "here": it.here.as_ref().ok(),
        "missing": it.here.as_ref().err(), "why": why })
}

fn expectation(verdict: &Verdict) -> Value {
    let Verdict { that, because, otherwise, outcome, cases } = verdict;
    let outcome = match outcome {
        Outcome::Held => "held",
        Outcome::Broken => "broken",
        Outcome::Pending => "pending",
    };
    json!({ "that": that, "because": because, "otherwise": otherwise, "outcome": outcome,
        "cases": cases.iter().map(case).collect::<Vec<_>>() })
}

fn case(case: &Case) -> Value {
    let Case { at: context, sides, holds, rounds_held, disturbed } = case;
    let sides_known = sides.as_ref().ok();
    json!({ "at": at(context), "left": sides_known.map(|it| it.0), "right": sides_known.map(|it| it.1), "holds": holds,
        "rounds_held": rounds_held, "missing": sides.as_ref().err(), "disturbed": disturbed })
}
