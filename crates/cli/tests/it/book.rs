//! Tests that the book's console blocks are correct. The commands of each page run in order, in a
//! separate directory.
//!
//! A line that begins with `$ ` is a command for `sh`. The lines up to the next command are its
//! complete output on a terminal. `…` stands for any text in a line.
use std::{fs, path::Path, process::Command};

struct Step {
    command: String,
    prints: String,
}

/// Returns the steps of all blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.into(), prints: String::new() }),
                (None, Some(step)) => step.prints += &format!("{line}\n"),
                (None, None) => panic!("a block begins with a command, not with {line:?}"),
            }
        }
    }
    steps
}

/// Returns whether `pattern`, where `…` stands for any text in a line, matches `text`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('…') {
        None => pattern == text,
        Some((before, rest)) => {
            let Some(behind) = text.strip_prefix(before) else { return false };
            let line = behind.split('\n').next().unwrap_or_default();
            let mut ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.any(|end| matches(rest, &behind[end..]))
        }
    }
}

/// Runs a page and returns its number of commands.
fn run(page: &Path) -> usize {
    let place = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let steps = steps(&fs::read_to_string(page).unwrap());
    for Step { command, prints } in &steps {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(place.path()).env("PATH", &path);
        let ran = shell.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        let page = page.display();
        assert!(matches(prints, &said), "{page}: $ {command}\nexpected:\n{prints}\nprinted:\n{said}");
        assert!(ran.status.success(), "{page}: $ {command}: {}", ran.status);
    }
    steps.len()
}

#[test]
fn console_blocks_do_what_they_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guides = fs::read_dir(docs.join("guide")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<_> = guides.chain([docs.join("tutorial.md")]).collect();
    let commands: usize = pages.iter().map(|page| run(page)).sum();
    assert!(commands > 15, "only {commands} commands in {} pages", pages.len());
}

#[test]
fn dots_stand_for_text_within_a_line() {
    assert!(matches("a … c\n", "a b b c\n") && matches("…", "") && matches("x…y…z", "xyyz"));
    assert!(!matches("a … c\n", "a b\nc\n") && !matches("a", "ab") && !matches("a…", "b"));
}
