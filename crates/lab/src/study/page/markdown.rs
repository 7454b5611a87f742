//! Output of the results of a study as Markdown, for a paper or a page of the book.
use super::{bytes, compared, figures, fitted, judged, reasons, scale, terms};
use crate::{
    report::markdown::{plain, row, rule},
    study::findings::Findings,
};

/// Returns the text of all experiments, in order.
pub fn render(all: &[Findings]) -> String {
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(findings: &Findings) -> String {
    let experiment = &findings.experiment;
    let mut text = format!("## {}\n\n", plain(&experiment.title));
    text += &format!("`{}`, {}, {}.\n", experiment.name, plain(&experiment.source), scale(findings));
    text += &format!("{}\n\n```sh\n{}\n```\n", plain(&experiment.question), findings.facts.command);
    for table in [figures(findings), bytes(findings), fitted::exponents(findings), compared(findings)] {
        for (at, line) in table.iter().enumerate() {
            text += &match at {
                0 => format!("\n{}{}", row(line), rule(line.len())),
                _ => row(line),
            };
        }
    }
    text += "\n";
    let reason = |(what, why)| format!("- **{}, where it differs:** {}\n", plain(what), plain(why));
    text.extend(reasons(findings).into_iter().map(reason));
    for judged in judged(findings) {
        let (word, cases) = (judged.outcome.word(), plain(&judged.cases.join("; ")));
        text += &format!("- **{word}:** `{}` ({}): {cases}", judged.that, plain(&judged.because));
        text += &judged.otherwise.map_or_else(String::new, |why| format!(". {}", plain(&why)));
        text += "\n";
    }
    text += &format!("- **Scaling:** {}\n", plain(&experiment.scaling));
    for (title, lines) in terms(findings) {
        text += &format!("- **{title}:** {}\n", lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("; "));
    }
    text
}
