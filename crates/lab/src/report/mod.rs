//! The report of a comparison: medians, intervals and ratios over all rounds, for every workload
//! and engine.
//!
//! | module | contents |
//! |---|---|
//! | `stats` | medians of rounds, and their intervals |
//! | `summary` `line` | the figures of all workloads, and of one engine in one workload |
//! | `bytes` `byte_table` | bytes by layer and cause |
//! | `terms` | settings, builds, machine |
//! | `figures` | figures as text |
//! | `table` `markdown` `csv` | output formats |
mod byte_table;
pub mod bytes;
pub mod csv;
mod figures;
mod line;
pub mod markdown;
pub mod stats;
mod summary;
pub mod table;
pub mod terms;

pub(crate) use figures::{estimate, figure};
pub use line::Line;
pub(crate) use line::micros_settled;
pub(crate) use summary::title;
pub use summary::{Group, Report};

#[cfg(test)]
mod tests {
    use super::{stats::Estimate, *};
    use crate::{
        cell::{CellSpec, Row},
        plan::{Plan, results::Record},
    };

    /// Returns a plan and its records: two engines, `rounds` rounds, and the workloads
    /// `fillseq,readseq,readseq`. In each round, engine `b` takes twice as long as engine `a`. The
    /// times of different rounds differ by a larger factor. After its operations, `b` needs the
    /// same time again for its background work, while `a` has no background work.
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
}
