//! Where the bytes went: medians of each layer's sum, and of the device's by cause, which add up to it within each round.
use super::{Report, figure, stats::median};
use crate::{
    cell::{Bytes, Row},
    ledger::CAUSES,
};

/// Columns of the table; behind them come the causes.
const LAYERS: [&str; 6] = ["user", "engine", "process", "never written", "device", "flash"];

/// Median bytes of one engine in one workload, in the order of the columns; `None` where no round has the figure.
pub type ByteLine = [Option<f64>; LAYERS.len() + CAUSES.len()];

/// The line of some rounds.
pub fn line(rows: &[&Row]) -> ByteLine {
    std::array::from_fn(|column| {
        median(&mut rows.iter().filter_map(|row| value(&row.bytes, column)).collect::<Vec<_>>())
    })
}

fn value(bytes: &Bytes, column: usize) -> Option<f64> {
    let sum = match column {
        0 => Some(bytes.user),
        1 => bytes.engine,
        2 => bytes.process,
        3 => bytes.never_written,
        4 => bytes.device,
        5 => bytes.nand,
        cause => {
            let causes = bytes.device_by_cause.as_ref()?;
            Some(causes.get(CAUSES[cause - LAYERS.len()]).copied().unwrap_or_default())
        }
    };
    sum.map(|sum| sum as f64)
}

/// Header and lines, in MiB: workloads that wrote, columns that somebody has. Empty if nobody wrote.
pub fn table(report: &Report) -> Vec<Vec<String>> {
    let wrote = |line: &ByteLine| line[0].is_some_and(|user| user > 0.0);
    let lines = || report.groups.iter().flat_map(|group| group.lines.iter().map(move |line| (group, line)));
    let shown: Vec<usize> = (0..LAYERS.len() + CAUSES.len())
        .filter(|&column| {
            lines().any(|(_, line)| wrote(&line.bytes) && line.bytes[column].is_some_and(|sum| sum > 0.0))
        })
        .collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let name = |&column: &usize| LAYERS.iter().chain(&CAUSES).nth(column).map_or("", |name| *name).into();
    let mut table = vec![["MiB".into(), "".into()].into_iter().chain(shown.iter().map(name)).collect()];
    for (group, line) in lines().filter(|(_, line)| wrote(&line.bytes)) {
        let names = [group.workload.clone(), line.engine.clone()];
        let figures = shown.iter().map(|&column| figure(line.bytes[column].map(|sum| sum / f64::from(1 << 20))));
        table.push(names.into_iter().chain(figures).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, sample};

    #[test]
    fn only_what_somebody_has_is_shown() {
        let (plan, mut records) = sample(1);
        assert!(table(&report(&plan, &records)).is_empty());
        let causes = [("tables".into(), 1 << 20), ("journal".into(), 1 << 19)].into();
        records[0].row.bytes =
            Bytes { user: 1 << 20, device: Some(3 << 19), device_by_cause: Some(causes), ..Bytes::default() };
        let shown = table(&report(&plan, &records));
        assert_eq!(shown[0], ["MiB", "", "user", "device", "tables", "journal"]);
        assert_eq!(shown[1], ["fillseq", "a", "1.00", "1.50", "1.00", "0.500"]);
        records[0].row.bytes.nand = Some(3 << 20); // on a virtual drive
        let table = table(&report(&plan, &records));
        assert_eq!(table[0], ["MiB", "", "user", "device", "flash", "tables", "journal"]);
        assert_eq!(table[1], ["fillseq", "a", "1.00", "1.50", "3.00", "1.00", "0.500"]);
        assert_eq!(table.len(), 2);
    }
}
