//! Summary of the rounds: medians, intervals and ratios for every workload and engine.
//!
//! | module | contents |
//! |---|---|
//! | `stats` | medians of rounds, and their intervals |
//! | `bytes` | bytes by layer and cause |
//! | `terms` | settings, builds, machine |
//! | `table` `markdown` `csv` | output formats |
pub mod bytes;
pub mod csv;
pub mod markdown;
pub mod stats;
pub mod table;
pub mod terms;

use crate::{
    cell::Row,
    plan::{Plan, results::Record},
};
use stats::{Estimate, ROUNDS_OF_A_CLAIM, median};

/// A comparison, ready for output.
#[derive(Clone, Debug)]
pub struct Report {
    /// The engine that all others are compared with.
    pub base: String,
    /// In the order of the plan.
    pub groups: Vec<Group>,
    /// Common settings, deviations, builds, machine, notes: a title and its lines.
    pub terms: Vec<(&'static str, Vec<String>)>,
}

/// One workload.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the workload; ` #2` follows if it runs a second time.
    pub workload: String,
    /// One line per engine, in the order of the plan.
    pub lines: Vec<Line>,
}

/// One engine in one workload. Medians over rounds; `None` if no round has the figure.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Engine name as `--engine` spells it.
    pub engine: String,
    /// Error of a round without figures.
    pub error: Option<String>,
    /// µs per operation of one thread.
    pub micros: Option<Estimate>,
    /// µs per operation including the time until background work is finished.
    pub micros_settled: Option<Estimate>,
    /// `micros` / `micros` of the base in the same round; `None` for the base itself.
    pub ratio: Option<Estimate>,
    /// The same ratio of `micros_settled`.
    pub ratio_settled: Option<Estimate>,
    /// Bytes on the device / user bytes.
    pub wa1: Option<f64>,
    /// Bytes programmed into flash / bytes on the device, on a virtual drive.
    pub wa2: Option<f64>,
    /// Bytes read / bytes returned.
    pub ra: Option<f64>,
    /// Bytes occupied / live user bytes.
    pub sa: Option<f64>,
    /// Syncs of all kinds.
    pub syncs: Option<f64>,
    /// 99th percentile of the most frequent kind of operation, in µs.
    pub p99: Option<f64>,
    /// 99.9th percentile of it, in µs.
    pub p999: Option<f64>,
    /// Peak resident memory in bytes, mapped files included.
    pub rss_bytes: Option<f64>,
    /// Peak anonymous memory in bytes.
    pub anon_bytes: Option<f64>,
    /// Processor seconds, settling included.
    pub cpu_seconds: Option<f64>,
    /// Bytes by layer and cause.
    pub bytes: bytes::ByteLine,
}

impl Report {
    /// Summarises the valid records.
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

    /// Returns whether any line has a WA2; the column is omitted otherwise.
    fn has_wa2(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.lines).any(|line| line.wa2.is_some())
    }

    /// Returns a statement on the confidence that the number of rounds permits.
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

impl Line {
    fn new(engine: &str, rows: &[&Row], base: Option<&[&Row]>) -> Line {
        let good: Vec<&Row> = rows.iter().copied().filter(|row| row.error.is_none()).collect();
        let of = |figure: &dyn Fn(&Row) -> Option<f64>| {
            median(&mut good.iter().filter_map(|&row| figure(row)).collect::<Vec<f64>>())
        };
        let estimate = |figure: fn(&Row) -> Option<f64>| Estimate::of(good.iter().filter_map(|row| figure(row)));
        let ratio = |figure: fn(&Row) -> Option<f64>| Estimate::of(paired(&good, base?, figure));
        Line {
            engine: engine.into(),
            error: rows.iter().find_map(|row| row.error.clone()),
            micros: estimate(micros),
            micros_settled: estimate(micros_settled),
            ratio: ratio(micros),
            ratio_settled: ratio(micros_settled),
            wa1: of(&|row| row.wa.wa1),
            wa2: of(&|row| row.wa.wa2),
            ra: of(&|row| row.ra),
            sa: of(&|row| row.sa),
            syncs: of(&|row| row.syncs.count.map(|count| count as f64)),
            p99: of(&|row| Some(row.latency_us.values().max_by_key(|latency| latency.count)?.p99)),
            p999: of(&|row| Some(row.latency_us.values().max_by_key(|latency| latency.count)?.p999)),
            rss_bytes: of(&|row| row.peak_rss_bytes.map(|bytes| bytes as f64)),
            anon_bytes: of(&|row| row.peak_anon_bytes.map(|bytes| bytes as f64)),
            cpu_seconds: of(&|row| row.cpu_seconds.map(|cpu| cpu.user + cpu.system)),
            bytes: bytes::line(&good),
        }
    }
}

fn micros(row: &Row) -> Option<f64> {
    row.micros_per_op
}

/// Returns µs per operation of one thread, including its share of the time until background work
/// is finished.
pub(crate) fn micros_settled(row: &Row) -> Option<f64> {
    let seconds = row.seconds.filter(|&seconds| seconds > 0.0)?;
    Some(row.micros_per_op? * (seconds + row.settle_seconds?) / seconds)
}

/// Returns the ratios of the rounds that both have.
fn paired(rows: &[&Row], base: &[&Row], figure: fn(&Row) -> Option<f64>) -> Vec<f64> {
    let partner = |row: &Row| base.iter().find(|other| other.round == row.round && other.error.is_none());
    rows.iter().filter_map(|row| Some(figure(row)? / figure(partner(row)?)?)).collect()
}

fn rows<'a>(records: &[&'a Record], engine: &str, step: usize) -> Vec<&'a Row> {
    let mine = records.iter().filter(|record| record.step == step && record.row.name == engine);
    mine.map(|record| &record.row).collect()
}

pub(crate) fn title(steps: &[String], step: usize) -> String {
    match steps[..step].iter().filter(|name| **name == steps[step]).count() {
        0 => steps[step].clone(),
        before => format!("{} #{}", steps[step], before + 1),
    }
}

/// Formats a figure: three digits, no exponent, `-` if it is missing.
pub(crate) fn figure(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".into() };
    let whole_digits = if value.abs() < 1.0 { 0 } else { value.abs().log10() as usize + 1 };
    match whole_digits {
        0 if value != 0.0 => {
            let zeros = (-value.abs().log10()).ceil().clamp(0.0, 9.0) as usize;
            format!("{value:.*}", zeros + 2)
        }
        0..3 => format!("{value:.*}", 3 - whole_digits.max(1)),
        _ => format!("{value:.0}"),
    }
}

/// Formats an estimate: `12.3 [11.8–13.1]`.
pub(crate) fn estimate(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "-".into() };
    let middle = figure(Some(estimate.median));
    match estimate.interval {
        Some((low, high)) => format!("{middle} [{}–{}]", figure(Some(low)), figure(Some(high))),
        None => middle,
    }
}

/// Formats a count as a whole number.
fn count(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.0}"))
}

/// Formats bytes in MiB.
fn mebibytes(bytes: Option<f64>) -> String {
    figure(bytes.map(|bytes| bytes / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellSpec;

    /// Returns a report of two engines, `rounds` rounds and `fillseq,readseq,readseq`. `b` takes
    /// twice as long as `a` in each round, although rounds differ by more than that; its settling
    /// takes as long again.
    pub(super) fn sample(rounds: u32) -> (Plan, Vec<Record>) {
        let workloads = ["fillseq", "readseq", "readseq"].map(String::from).to_vec();
        let engines = vec!["a".into(), "b:fast".into()];
        let plan = Plan::new(CellSpec { workloads, ..CellSpec::default() }, engines, rounds, "dir:/x", 1).unwrap();
        let mut records = Vec::new();
        for round in 1..=rounds {
            for (engine, times) in [("a", 1.0), ("b:fast", 2.0)] {
                for step in 0..3 {
                    let micros = times * f64::from(1 << round);
                    let mut row =
                        Row { name: engine.into(), workload: plan.steps()[step].clone(), round, ..Row::default() };
                    (row.seconds, row.micros_per_op) = (Some(micros / 8.0), Some(micros));
                    row.settle_seconds = Some(if times == 2.0 { micros / 8.0 } else { 0.0 });
                    records.push(Record {
                        plan: plan.id().into(),
                        step,
                        attempt: 1,
                        others: Some(f64::from(round)),
                        row,
                    });
                }
            }
        }
        (plan, records)
    }

    pub(super) fn report(plan: &Plan, records: &[Record]) -> Report {
        Report::new(plan, "dir:/x", &records.iter().collect::<Vec<_>>())
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let (plan, records) = sample(9);
        let report = report(&plan, &records);
        let titles: Vec<_> = report.groups.iter().map(|group| group.workload.as_str()).collect();
        assert_eq!(titles, ["fillseq", "readseq", "readseq #2"]);
        let [a, b] = &report.groups[0].lines[..] else { panic!("two engines") };
        assert!(a.ratio.is_none() && a.micros.unwrap().median == 32.0 && a.micros_settled == a.micros);
        let exact = |median| Estimate { median, interval: Some((median, median)), rounds: 9 };
        assert_eq!((b.ratio, b.ratio_settled), (Some(exact(2.0)), Some(exact(4.0))));
        assert_eq!(b.micros_settled.unwrap().median, 128.0);
        assert!(report.verdict().starts_with("9 paired rounds."));
    }

    #[test]
    fn a_failed_round_pairs_with_nothing_and_few_rounds_are_no_claim() {
        let (plan, mut records) = sample(9);
        records[0].row.error = Some("out of luck".into());
        let report = report(&plan, &records);
        assert_eq!(report.groups[0].lines[0].error.as_deref(), Some("out of luck"));
        assert_eq!(report.groups[0].lines[1].ratio.unwrap().rounds, 8);
        assert_eq!(report.groups[0].lines[1].micros.unwrap().rounds, 9);
        assert!(report.verdict().starts_with("Indicative only: 8 paired rounds"));
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.00123, 0.0999, 0.5, 1.0, 9.876, 12.34, 123.4, 1234.6].map(|value| figure(Some(value)));
        assert_eq!(shown, ["0.00", "0.00123", "0.0999", "0.500", "1.00", "9.88", "12.3", "123", "1235"]);
        assert_eq!(figure(None), "-");
        assert_eq!(figure(Some(f64::NAN)), "-");
        assert_eq!(estimate(Estimate::of([1.0])), "1.00");
        assert_eq!(estimate(Estimate::of([1.0, 1.0])), "1.00 [1.00–1.00]");
        assert_eq!(mebibytes(Some(1_572_864.0)), "1.50");
    }
}
