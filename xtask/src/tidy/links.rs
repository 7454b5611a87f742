//! Checks that relative links in pages, and paths in the glossary, lead to existing files.
use super::Report;
use std::path::{Path, PathBuf};

/// Checks every `[text](target)` whose target is neither a web address nor an anchor.
pub fn check(root: &Path, pages: &[(PathBuf, String)], report: &mut Report) {
    for (path, text) in pages {
        let folder = root.join(path).parent().expect("a file has a folder").to_owned();
        for target in targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                report.problem(path.display(), format!("broken link to {target}"));
            }
        }
    }
}

/// Checks that every path in the glossary's third column exists below `crates/`.
pub fn check_glossary(root: &Path, pages: &[(PathBuf, String)], report: &mut Report) {
    let Some((path, text)) = pages.iter().find(|(path, _)| path.ends_with("docs/glossary.md")) else { return };
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let places = line.split('|').nth(3).unwrap_or_default();
        for place in places.split('`').skip(1).step_by(2) {
            let place = place.split("::").next().unwrap_or_default();
            if !root.join("crates").join(place).exists() && !root.join(place).exists() {
                report.problem(path.display(), format!("{place} does not exist"));
            }
        }
    }
}

/// Returns the link targets outside code.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Of the pieces between backticks, every second one is code.
        for prose in line.split('`').step_by(2) {
            let ends = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(ends.filter(|target| !target.contains("://") && !target.starts_with("mailto:")));
        }
        // If the text of a link is code, its backticks separate the text from the target. This line
        // finds such targets.
        found.extend(line.match_indices("`](").filter_map(|(at, _)| line[at + 3..].split(')').next()));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_prose_are_found() {
        let text = "[a](b.md#c) and [d](https://e) `[x](y)` [`f`](g.rs)\n```\n[h](i)\n```\n[j](#k)";
        assert_eq!(targets(text), ["#k", "b.md#c", "g.rs"]);
    }
}
