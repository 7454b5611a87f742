//! Output of the results for a browser: one file without scripts and external resources. The page
//! is light or dark as the reader's browser prefers, and black on white in print.
use super::{
    bytes, cascade, compared, figures, fitted, judged, median_round, over_time,
    plot::{self, Picture},
    reasons, scale, terms,
};
use crate::{
    cell::Row,
    study::{
        findings::{Entry, Findings},
        verdict::{Outcome, verdicts},
    },
};
use anyhow::Result;
use std::fmt::Write;

/// The style sheet.
const STYLE: &str = include_str!("report.css");

/// Returns the whole page.
pub fn render(all: &[Findings]) -> Result<String> {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>From the user's byte to the flash cell</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>From the user's byte to the flash cell</h1>\n"
    );
    html += &summary(all);
    for findings in all {
        html += &section(findings)?;
    }
    html += "</body>\n</html>\n";
    Ok(html)
}

/// Returns a table with one line per experiment.
fn summary(all: &[Findings]) -> String {
    let mut html = String::from(
        "<table class=\"summary\">\n<tr><th>experiment</th><th>source</th><th>scale</th><th>expectations</th></tr>\n",
    );
    for findings in all {
        let verdicts = verdicts(findings);
        let counts = [Outcome::Held, Outcome::Broken, Outcome::Pending].map(|outcome| {
            let count = verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
            if count == 0 {
                String::new()
            } else {
                format!("<span class=\"{}\">{count} {}</span> ", class(outcome), words(outcome, count))
            }
        });
        let experiment = &findings.experiment;
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{0}\">{1}</a></td><td>{2}</td><td>{3}</td><td>{4}</td></tr>",
            escape(&experiment.name),
            escape(&experiment.title),
            escape(&experiment.source),
            findings.facts.scale,
            counts.concat()
        );
    }
    html + "</table>\n"
}

fn words(outcome: Outcome, count: usize) -> &'static str {
    match (outcome, count) {
        (Outcome::Held, 1) => "holds",
        (Outcome::Held, _) => "hold",
        (Outcome::Broken, 1) => "does not hold",
        (Outcome::Broken, _) => "do not hold",
        (Outcome::Pending, _) => "pending",
    }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Broken => "broken",
        Outcome::Pending => "pending",
    }
}

fn section(findings: &Findings) -> Result<String> {
    let experiment = &findings.experiment;
    let mut html = format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"source\">{}; {}</p>\n<p>{}</p>\n",
        escape(&experiment.name),
        escape(&experiment.title),
        escape(&experiment.source),
        scale(findings),
        escape(&experiment.question)
    );
    html += &cascades(findings);
    let plots = experiment.plot.iter().map(|plot| plot::pictures(findings, plot)).collect::<Result<Vec<_>>>()?;
    html += &pictures(plots.iter().flatten());
    html += &table(&figures(findings));
    let more = [
        ("Bytes by layer", bytes(findings)),
        ("Growth", fitted::exponents(findings)),
        ("Comparison with the paper", compared(findings)),
    ];
    for (title, lines) in more.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(html, "<h3>{title}</h3>");
        html += &table(lines);
    }
    for (what, why) in reasons(findings) {
        let _ = writeln!(html, "<p>{}, where it differs: {}</p>", escape(what), escape(why));
    }
    html += "<h3>Expectations</h3>\n<ul class=\"verdicts\">\n";
    for judged in judged(findings) {
        let _ = writeln!(
            html,
            "<li><span class=\"{}\">{}</span> <code>{}</code><br>{}<br><small>{}{}</small></li>",
            class(judged.outcome),
            judged.outcome.word(),
            escape(&judged.that),
            escape(&judged.because),
            escape(&judged.cases.join("; ")),
            judged.otherwise.map_or_else(String::new, |why| format!("<br>{}", escape(&why)))
        );
    }
    html += "</ul>\n";
    let over_time = over_time::pictures(findings)?;
    if !over_time.is_empty() {
        html += "<details open>\n<summary>Over time</summary>\n";
        html += &pictures(over_time.iter());
        html += "</details>\n";
    }
    html += "<details open>\n<summary>Terms</summary>\n<dl>\n";
    let scaling = ("Scaling", vec![experiment.scaling.clone()]);
    for (title, lines) in [scaling].into_iter().chain(terms(findings)) {
        let _ = writeln!(
            html,
            "<dt>{title}</dt><dd>{}</dd>",
            lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>")
        );
    }
    let _ = writeln!(
        html,
        "<dt>Command</dt><dd><code>{}</code></dd>\n<dt>Data</dt><dd><a href=\"{1}/rows.jsonl\">rows.jsonl</a>, \
         <a href=\"{1}/rows.csv\">rows.csv</a>, \
         <a href=\"{1}/over-time.csv\">over-time.csv</a>, <a href=\"{1}/experiment.toml\">experiment.toml</a></dd>\n</dl>\n</details>\n</section>",
        escape(&findings.facts.command),
        escape(&experiment.name)
    );
    Ok(html)
}

fn pictures<'a>(all: impl Iterator<Item = &'a Picture>) -> String {
    let mut html = String::new();
    for Picture { title, svg } in all {
        let _ = writeln!(html, "<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>", escape(title));
    }
    if html.is_empty() { html } else { format!("<div class=\"pictures\">\n{html}</div>\n") }
}

/// Returns for each engine one picture of the bytes written at each layer. It shows the first
/// point of the experiment, and the row with the most user bytes.
fn cascades(findings: &Findings) -> String {
    let first = findings.points.first().map(|point| &point.at);
    let chosen: Vec<&Entry> = findings
        .experiment
        .engines()
        .filter_map(|engine| {
            let mine = findings.entries.iter().filter(|entry| entry.engine == engine && Some(&entry.at) == first);
            mine.filter(|entry| user(entry) > 0.0).max_by(|a, b| user(a).total_cmp(&user(b)))
        })
        .collect();
    let device = |row: &Row| Some(row.bytes.device.unwrap_or(0) as f64);
    let rows: Vec<&Row> = chosen.iter().filter_map(|entry| median_round(entry, device)).collect();
    let longest = rows.iter().map(|row| cascade::longest(&row.bytes)).max().unwrap_or(0);
    let picture = |row: &&Row| {
        let svg = cascade::picture(&row.bytes, longest)?;
        Some(Picture { title: format!("{}: {}", row.name, row.workload), svg })
    };
    let all: Vec<Picture> = rows.iter().filter_map(picture).collect();
    pictures(all.iter())
}

fn user(entry: &Entry) -> f64 {
    entry.rows.iter().map(|row| row.bytes.user as f64).fold(0.0, f64::max)
}

fn table(table: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table>\n");
    for (at, line) in table.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        let cells: String = line.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    html + "</table></div>\n"
}

/// Escapes the characters that are special in HTML.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}
