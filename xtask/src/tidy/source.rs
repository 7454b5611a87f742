//! A Rust source file in the form that the checks of `cargo xtask tidy` use: its text, and its
//! code without unit tests, comments and strings.
use std::path::PathBuf;

/// A source file.
pub struct Source {
    /// Path from the repository's root, separated by `/`.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The text without comments, string contents and the module of unit tests. Its line numbers
    /// are those of the text.
    pub code: String,
}

impl Source {
    /// Reads a file given by path and text.
    pub fn new((path, text): (PathBuf, String)) -> Source {
        let name = path.to_string_lossy().into_owned();
        let code = strip(before_tests(&text));
        Source { name, text, code }
    }

    /// Returns the lines of code that contain `word` as a whole word.
    pub fn lines_with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.lines().enumerate().filter(|(_, line)| has_word(line, word)).map(|(at, _)| at + 1)
    }
}

fn before_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ").map_or(text, |end| &text[..end])
}

/// Returns whether `line` contains `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(in_name)
            && !line[at + word.len()..].chars().next().is_some_and(in_name)
    })
}

/// Blanks comments and string literals. Does not handle raw strings with `#` and nested block
/// comments, which are rare here.
fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|&c| c != '\n').is_some() {},
            '"' => {
                out.push('"');
                skip_string(&mut rest, &mut out);
            }
            '\'' => skip_character(&mut rest, &mut out),
            _ => out.push(c),
        }
    }
    out
}

/// Skips the inside of a string literal but keeps its line ends.
fn skip_string(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => out.extend(rest.next().filter(|c| *c == '\n')),
            '"' => {
                out.push('"');
                return;
            }
            '\n' => out.push('\n'),
            _ => {}
        }
    }
}

/// Handles the characters after a `'`: skips a character literal, but keeps a lifetime.
fn skip_character(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let ahead: Vec<char> = rest.clone().take(2).collect();
    match ahead[..] {
        ['\\', _] => {
            rest.nth(1);
            while rest.next().is_some_and(|c| c != '\'') {}
        }
        [_, '\''] => {
            rest.nth(1);
        }
        _ => out.push('\''),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let text = "let a = \"unsafe // \\\" \"; // unsafe\nlet b = '\"'; let c: &'static str = '\\'';\n\
                    #[cfg(test)]\nmod tests { unsafe }";
        let source = Source::new(("a.rs".into(), text.into()));
        assert_eq!(source.code, "let a = \"\"; \nlet b = ; let c: &'static str = ;\n");
        assert_eq!(source.lines_with("unsafe").count(), 0);
        assert_eq!(source.lines_with("static").collect::<Vec<_>>(), [2]);
        assert_eq!(source.lines_with("stati").count(), 0);
    }
}
