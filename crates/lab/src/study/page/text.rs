//! Output of the results of a study as text for the terminal.
use super::{compared, figures, fitted, judged, reasons, scale};
use crate::{
    report::table::{aligned, widths},
    study::{findings::Findings, verdict::Outcome},
};

/// Returns the text of one experiment.
pub fn render(findings: &Findings) -> String {
    let experiment = &findings.experiment;
    let mut text = format!("{}: {}\n{}; {}\n\n", experiment.name, experiment.title, experiment.source, scale(findings));
    for table in [figures(findings), fitted::exponents(findings), compared(findings)] {
        let widths = widths(table.iter().map(|line| &line[..]));
        text.extend(table.iter().map(|line| aligned(line, &widths)));
        text += if table.is_empty() { "" } else { "\n" };
    }
    text.extend(reasons(findings).into_iter().map(|(what, why)| format!("{what}, where it differs: {why}\n")));
    for judged in judged(findings) {
        let sign = match judged.outcome {
            Outcome::Held => "✓",
            Outcome::Broken => "✗",
            Outcome::Pending => "·",
        };
        text += &format!("{sign} {}  {}\n", judged.that, judged.outcome.word());
        text += &format!("    {}; {}\n", judged.cases.join("; "), judged.because);
        text.extend(judged.otherwise.map(|why| format!("    {why}\n")));
    }
    for (engine, why) in &findings.facts.pending {
        text += &format!("pending: {engine}: {why}\n");
    }
    text + "\n"
}
