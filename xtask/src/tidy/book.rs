//! Checks that the book contains every page of `docs`, and that the Rust examples of pages are
//! compiled.
use super::{Report, source::Source};
use std::path::{Path, PathBuf};

const SUMMARY: &str = "docs/SUMMARY.md";
/// The files that include pages with Rust examples as documentation, so that the examples are doc
/// tests.
const COMPILED: [&str; 2] = ["crates/engine/src/lib.rs", "crates/backup/src/lib.rs"];

/// Compares the pages below `docs` with the book's summary and with the compiled pages.
pub fn check(pages: &[(PathBuf, String)], sources: &[Source], report: &mut Report) {
    let compiled: String =
        sources.iter().filter(|source| COMPILED.contains(&&*source.name)).map(|source| &*source.text).collect();
    let text = |name: &str| pages.iter().find(|(path, _)| path == Path::new(name)).map(|(_, text)| text.as_str());
    let summary = text(SUMMARY).unwrap_or_default();
    for (path, text) in pages {
        let Ok(page) = path.strip_prefix("docs") else { continue };
        if path != Path::new(SUMMARY) && !summary.contains(&format!("({})", page.display())) {
            report.problem(path.display(), format!("is not in the book: {SUMMARY} does not name it"));
        }
        if text.contains("\n```rust") && !compiled.contains(&format!("{}\")", path.display())) {
            report.problem(path.display(), format!("has Rust that is not compiled: none of {COMPILED:?} includes it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_and_their_rust_is_included() {
        let page = |path: &str, text: &str| (PathBuf::from(path), text.to_string());
        let pages = [
            page("docs/SUMMARY.md", "[a](a.md) [b](g/b.md)"),
            page("docs/a.md", "\n```rust\n```"),
            page("docs/g/b.md", "\n```rust\n```"),
            page("docs/c.md", ""),
            page("README.md", "\n```rust\n```"),
        ];
        let mut report = Report::default();
        let library = Source::new((COMPILED[0].into(), "include_str!(\"../docs/a.md\")".into()));
        check(&pages, &[library], &mut report);
        let found: Vec<_> = report.problems.iter().map(|problem| problem.split(' ').next().unwrap()).collect();
        assert_eq!(found, ["docs/g/b.md:", "docs/c.md:"]);
    }
}
