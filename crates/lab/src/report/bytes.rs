//! Written bytes by layer (user, engine, process, device, flash). The device's bytes are also
//! divided by cause (kind of file). Each figure is the median over the rounds. In each single
//! round, the bytes of all causes add up to the device's bytes.
pub use super::byte_table::of_report;

use super::{figures::figure, stats::median};
use crate::{
    cell::{Bytes, Row},
    ledger::CAUSES,
};

/// Names of the columns for the layers. The columns for the causes follow them.
const LAYERS: [&str; 6] = ["user", "engine", "process", "never written", "device", "flash"];

/// Written bytes of one engine in one workload, in the order of the columns. Each figure is a
/// median over the rounds. A column is `None` if a round lacks the figure.
pub type ByteLine = [Option<f64>; LAYERS.len() + CAUSES.len()];

/// Returns the median bytes of several rounds. `rows` has one row (result) per round.
pub fn line(rows: &[&Row]) -> ByteLine {
    std::array::from_fn(|column| {
        median(&mut rows.iter().map(|row| value(&row.bytes, column)).collect::<Option<Vec<_>>>()?)
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

/// Returns the names of the columns of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    LAYERS.into_iter().chain(CAUSES)
}

/// Returns a table of bytes in MiB. It has a header and lines, and each line begins with two
/// names. Lines without writes and columns without data are omitted. The table is empty if nothing
/// was written.
pub fn table(lines: impl Iterator<Item = ([String; 2], ByteLine)>) -> Vec<Vec<String>> {
    let wrote = |(_, line): &([String; 2], ByteLine)| line[0].is_some_and(|user| user > 0.0);
    let lines: Vec<_> = lines.filter(wrote).collect();
    let has = |column: usize| lines.iter().any(|(_, line)| line[column].is_some_and(|sum| sum > 0.0));
    let shown: Vec<(usize, &str)> = names().enumerate().filter(|(column, _)| has(*column)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let header = ["MiB", ""].into_iter().chain(shown.iter().map(|(_, name)| *name)).map(String::from).collect();
    let formatted = |(names, line): ([String; 2], ByteLine)| {
        let figures = shown.iter().map(|(column, _)| figure(line[*column].map(|sum| sum / f64::from(1 << 20))));
        names.into_iter().chain(figures).collect()
    };
    [header].into_iter().chain(lines.into_iter().map(formatted)).collect()
}
