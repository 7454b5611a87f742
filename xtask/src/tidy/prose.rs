//! Checks of comments and pages: they avoid certain words, comment lines are not too wide, and
//! table cells are not too long.
use super::{Report, source::Source};
use std::path::PathBuf;

/// Maximum width of a comment line in columns.
const COLUMNS_MAX: usize = 100;
/// Maximum length of a table cell in characters. Longer text belongs in a paragraph.
const CELL_MAX: usize = 200;

/// Words that storage engineers do not use, and pronouns for actors that should have a name. The
/// glossary has the terms to use instead.
const AVOIDED: &[&str] = &[
    "baton",
    "somebody",
    "nobody",
    "whoever",
    "anew",
    "lest",
    "thereby",
    "in vain",
    "put again",
    "condemned",
    "relieved",
    "beside",
    "besides",
];

/// Checks comments in code and paragraphs in pages.
pub fn check(pages: &[(PathBuf, String)], sources: &[Source], report: &mut Report) {
    for source in sources {
        let mut fenced = false; // in an example or a picture
        for (at, line) in source.text.lines().enumerate() {
            let Some(comment) = comment(line) else { continue };
            fenced ^= comment.starts_with("```");
            if fenced {
                continue;
            }
            let place = || format!("{}:{}", source.name, at + 1);
            if line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX {
                report.problem(place(), format!("a comment wider than {COLUMNS_MAX} columns"));
            }
            if let Some(word) = avoided(comment) {
                report.problem(place(), format!("'{word}' is not in the glossary's words"));
            }
        }
    }
    for (path, text) in pages {
        page(&path.display().to_string(), text, report);
    }
}

fn page(name: &str, text: &str, report: &mut Report) {
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        // The glossary lists the words to avoid; licence texts are quotations.
        if fenced || name.ends_with("glossary.md") || name.ends_with("licences.md") {
            continue;
        }
        let place = || format!("{name}:{}", at + 1);
        if line.starts_with('|') && line.split('|').any(|cell| cell.trim().chars().count() > CELL_MAX) {
            report.problem(place(), format!("a table cell of more than {CELL_MAX} characters"));
        }
        if let Some(word) = avoided(line) {
            report.problem(place(), format!("'{word}' is not in the glossary's words"));
        }
    }
}

/// Returns the comment in a line of code that begins with one.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!', ' ']))
}

/// Returns the first avoided word outside code and quotations.
fn avoided(text: &str) -> Option<&'static str> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let prose: String = prose.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    AVOIDED.iter().copied().find(|word| {
        prose.match_indices(word).any(|(at, _)| {
            let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            !prose[..at].chars().next_back().is_some_and(is_letter)
                && !prose[at + word.len()..].chars().next().is_some_and(is_letter)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(code: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        let sources = [Source::new(("a.rs".into(), code.to_owned()))];
        check(&[("b.md".into(), text.to_owned())], &sources, &mut report);
        report.problems
    }

    #[test]
    fn avoided_words_wide_comments_and_long_cells_are_reported() {
        assert_eq!(problems(&format!("/// ```\n/// {}\n/// ```\n", "x".repeat(120)), ""), [""; 0]);
        let wide = format!("// {}\nlet baton = 1;\n/// `nobody` writes \"anew\"\n", "x".repeat(100));
        assert_eq!(problems(&wide, "plain\n"), ["a.rs:1: a comment wider than 100 columns"]);
        assert_eq!(problems("/// Nobody waits.\n", ""), ["a.rs:1: 'nobody' is not in the glossary's words"]);
        let cell = format!("| {} |\n```\nwritten anew\n```\nIt begins anew.\n", "x".repeat(201));
        let found = problems("", &cell);
        assert_eq!(
            found,
            ["b.md:1: a table cell of more than 200 characters", "b.md:5: 'anew' is not in the glossary's words"]
        );
    }
}
