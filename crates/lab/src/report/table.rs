//! Formats a report for the terminal. Each time has a bar whose length is proportional to it.
use super::{
    bytes,
    figures::{count, estimate, figure, mebibytes},
    line::Line,
    summary::{Group, Report},
};

/// Length of the longest bar, in characters.
const BAR: usize = 12;
/// Characters for the end of a bar. Each character is one eighth wider than the previous
/// character.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Returns the whole report as text.
pub fn render(report: &Report) -> String {
    let ratio = format!("× {}", report.base);
    let names = ["", "", "µs/op [95 %]", &ratio, "settled µs/op", &ratio, "WA1"];
    let wa2 = report.has_wa2();
    let header = names.into_iter().chain(wa2.then_some("WA2"));
    let header: Vec<String> =
        header.chain(["syncs", "p99 µs", "p99.9 µs", "RSS MiB", "CPU s"]).map(String::from).collect();
    let body: Vec<Vec<String>> = report.groups.iter().flat_map(|group| lines(group, wa2)).collect();
    let widths = widths(std::iter::once(&header[..]).chain(body.iter().map(|line| &line[..])));
    let mut text = String::new();
    let mut lines = body.iter();
    text += &aligned(&header, &widths);
    for group in &report.groups {
        text += &format!("{}\n", group.workload);
        for (line, cells) in group.lines.iter().zip(&mut lines) {
            text += &match &line.error {
                Some(_) if line.micros.is_none() => format!("{:<1$}  failed, see below\n", cells[0], widths[0]),
                _ => aligned(cells, &widths),
            };
        }
    }
    text += "\n";
    let bytes = bytes::of_report(report);
    let widths = self::widths(bytes.iter().map(|line| &line[..]));
    text.extend(bytes.iter().map(|line| aligned(line, &widths)));
    text += &format!("{}{}\n", if bytes.is_empty() { "" } else { "\n" }, report.verdict());
    for (title, lines) in &report.terms {
        let indent = " ".repeat(13);
        text += &format!("{:<13}{}\n", format!("{title}:"), lines.join(&format!("\n{indent}")));
    }
    text
}

/// Returns the width of each column's widest cell.
pub(crate) fn widths<'a>(lines: impl Iterator<Item = &'a [String]>) -> Vec<usize> {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(line.len().max(widths.len()), 0);
        widths.iter_mut().zip(line).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    widths
}

/// Returns the cells of the table lines of a workload. `wa2` selects whether they have the column
/// WA2.
fn lines(group: &Group, wa2: bool) -> impl Iterator<Item = Vec<String>> {
    let median = |line: &Line| line.micros.map_or(0.0, |micros| micros.median);
    let longest = group.lines.iter().map(median).fold(0.0, f64::max);
    group.lines.iter().map(move |line| {
        let mut cells = vec![
            format!("  {}", line.engine),
            bar(median(line), longest),
            estimate(line.micros),
            estimate(line.ratio),
            figure(line.micros_settled.map(|settled| settled.median)),
            estimate(line.ratio_settled),
            figure(line.wa1),
        ];
        cells.extend(wa2.then(|| figure(line.wa2)));
        cells.extend([
            count(line.syncs),
            figure(line.p99),
            figure(line.p999),
            mebibytes(line.rss_bytes),
            figure(line.cpu_seconds),
        ]);
        cells
    })
}

/// Returns a line of text with aligned cells. The name and its bar are left-aligned, the figures
/// right-aligned.
pub(crate) fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        line += &match column {
            0 => format!("{cell:<width$}"),
            1 => format!("  {cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        };
    }
    format!("{}\n", line.trim_end())
}

/// Returns a bar of characters for `value`. The bar of `longest` has the full length.
fn bar(value: f64, longest: f64) -> String {
    if value <= 0.0 {
        return String::new();
    }
    let eighths = ((value / longest * (BAR * 8) as f64).round() as usize).max(1);
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8]));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, sample};

    #[test]
    fn bars_are_to_scale() {
        assert_eq!(bar(8.0, 8.0), "█".repeat(12));
        assert_eq!(bar(1.0, 8.0), "█▌");
        assert_eq!(bar(0.0001, 8.0), "▏");
        assert_eq!(bar(0.0, 8.0), "");
        assert_eq!(bar(0.0, 0.0), "");
    }

    #[test]
    fn a_table_shows_times_ratios_and_failures() {
        let (plan, mut records) = sample(3);
        for record in records.iter_mut().filter(|record| record.step == 1 && record.row.name == "a") {
            record.row.error = Some("out of luck".into());
        }
        let text = render(&report(&plan, &records));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("× a") && lines[1] == "fillseq", "{text}");
        assert!(lines[2].starts_with("  a       ██████        4.00 [2.00–8.00]"), "{text}");
        assert!(lines[3].contains("8.00 [4.00–16.0]  2.00 [2.00–2.00]"), "{text}");
        assert_eq!(lines[5], "  a       failed, see below", "{text}");
        assert!(
            text.contains("Indicative only") && text.contains("Errors:      a: readseq in round 1: out of luck"),
            "{text}"
        );
        assert!(text.contains("Settings:    1000000 keys"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("WA2"), "{text}");
        records[0].row.wa.wa2 = Some(2.5); // on a virtual drive
        let text = render(&report(&plan, &records));
        let column = |line: usize, end: &str| {
            let line = text.lines().nth(line)?;
            Some(line[..line.find(end)?].chars().count() + end.chars().count())
        };
        assert_eq!(column(0, "WA2"), column(2, "2.50"), "{text}");
    }
}
