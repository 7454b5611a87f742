//! Formats a report as Markdown. The result is a separate text, or the part of a page between two
//! markers.
use super::{
    bytes,
    figures::{count, estimate, figure, mebibytes},
    line::Line,
    summary::Report,
};
use anyhow::{Result, ensure};

/// Start of the part of a page that [`splice`] replaces.
pub const BEGIN: &str = "<!-- bench:begin -->";
/// End of the part of a page that [`splice`] replaces.
pub const END: &str = "<!-- bench:end -->";

/// Returns the whole report as Markdown. `command` is the command that produced the report.
pub fn render(report: &Report, command: &str) -> String {
    let ratio = format!("× {}", report.base);
    let settled = format!("settled {ratio}");
    let wa2 = report.has_wa2();
    let names = ["workload", "engine", "µs/op [95 %]", &ratio, "settled µs/op", &settled, "WA1"];
    let more = ["RA", "SA", "syncs", "p99 µs", "p99.9 µs", "RSS MiB", "anonymous MiB", "CPU s"];
    let header: Vec<String> = names.into_iter().chain(wa2.then_some("WA2")).chain(more).map(String::from).collect();
    let mut text = format!("```sh\n{command}\n```\n\n");
    text += &row(&header);
    text += &rule(header.len());
    for group in &report.groups {
        for (at, line) in group.lines.iter().enumerate() {
            let workload = if at == 0 { group.workload.as_str() } else { "" };
            text += &row(&cells(workload, line, wa2));
        }
    }
    let bytes = bytes::of_report(report);
    for (at, line) in bytes.iter().enumerate() {
        text += &match at {
            0 => format!("\n{}{}", row(line), rule(line.len())),
            _ => row(line),
        };
    }
    text += &format!("\n{}\n\n", report.verdict());
    for (title, lines) in &report.terms {
        text += &format!("- **{title}:** {}\n", lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("; "));
    }
    text
}

/// Returns `page` with `text` in place of the part between the two markers. Each marker must occur
/// exactly once.
pub fn splice(page: &str, text: &str) -> Result<String> {
    for mark in [BEGIN, END] {
        ensure!(page.matches(mark).count() == 1, "the page must contain the line {mark} exactly once");
    }
    let (before, rest) = page.split_once(BEGIN).expect("it is there");
    let Some((_, after)) = rest.split_once(END) else { anyhow::bail!("{END} precedes {BEGIN}") };
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", text.trim_end()))
}

fn cells(workload: &str, line: &Line, wa2: bool) -> Vec<String> {
    let micros = match (&line.error, line.micros) {
        (Some(_), None) => "failed".into(),
        (_, micros) => estimate(micros),
    };
    let mut cells = vec![
        workload.into(),
        line.engine.clone(),
        micros,
        estimate(line.ratio),
        estimate(line.micros_settled),
        estimate(line.ratio_settled),
        figure(line.wa1),
    ];
    cells.extend(wa2.then(|| figure(line.wa2)));
    cells.extend([
        figure(line.ra),
        figure(line.sa),
        count(line.syncs),
        figure(line.p99),
        figure(line.p999),
        mebibytes(line.rss_bytes),
        mebibytes(line.anon_bytes),
        figure(line.cpu_seconds),
    ]);
    cells
}

/// Returns a row of a Markdown table.
pub(crate) fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join(" | "))
}

/// Returns the line under the header of a Markdown table. It aligns names to the left and figures
/// to the right.
pub(crate) fn rule(columns: usize) -> String {
    format!("|---|---|{}\n", "---:|".repeat(columns - 2))
}

/// Escapes the characters of `text` that are special in Markdown. Error messages may contain any
/// text.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => plain.push(' '),
            '|' | '<' | '>' | '*' | '_' | '`' | '\\' => plain.extend(['\\', c]),
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, sample};

    #[test]
    fn a_report_is_a_table_and_its_conditions() {
        let (plan, mut records) = sample(9);
        records[0].row.error = Some("a|b\n<c>".into());
        let text = render(&report(&plan, &records), "terrace bench");
        assert!(text.starts_with("```sh\nterrace bench\n```\n\n| workload | engine |"), "{text}");
        assert!(text.contains("| readseq | a | 32.0 [4.00–256] | - | 32.0"), "{text}");
        assert!(text.contains("|  | b:fast | 64.0 [8.00–512] | 2.00 [2.00–2.00] |"), "{text}");
        assert!(text.contains(r"- **Errors:** a: fillseq in round 1: a\|b \<c\>"), "{text}");
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(table.len() == 2 + 6 && table.iter().all(|line| line.matches('|').count() == 16), "{text}");
    }

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let page = format!("top\n{BEGIN}\nold\n{END}\nbottom\n");
        let once = splice(&page, "new\n").unwrap();
        assert_eq!(once, format!("top\n{BEGIN}\nnew\n{END}\nbottom\n"));
        assert_eq!(splice(&once, "new\n").unwrap(), once);
        for bad in ["", BEGIN, &format!("{END}{BEGIN}"), &format!("{page}{BEGIN}")] {
            assert!(splice(bad, "new").is_err(), "{bad}");
        }
    }
}
