//! Checks that the README's Rust example equals a compiled example, and that its minimum Rust
//! version equals the one in `Cargo.toml`.
use super::Report;
use anyhow::{Context, Result};
use std::{fs, path::Path};

const PAGE: &str = "README.md";
const EXAMPLE: &str = "crates/engine/examples/readme.rs";

/// Compares the first Rust block of the README with the compiled example, which may begin with a
/// `//!` header. Also compares the minimum Rust version in the README with the one in
/// `Cargo.toml`.
pub fn check(root: &Path, report: &mut Report) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let example = fs::read_to_string(root.join(EXAMPLE)).context(EXAMPLE)?;
    let header = example.lines().take_while(|line| line.starts_with("//!"));
    let header_bytes: usize = header.map(|line| line.len() + 1).sum();
    match rust_block(&page) {
        None => report.problem(PAGE, "no Rust block"),
        Some(block) if block.trim() != example[header_bytes..].trim() => {
            report.problem(PAGE, format!("its Rust block differs from {EXAMPLE}"));
        }
        Some(_) => {}
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("Cargo.toml")?;
    let needed = manifest.split_once("rust-version = \"").and_then(|(_, rest)| rest.split('"').next());
    let needed = needed.context("no rust-version in Cargo.toml")?;
    if !page.contains(&format!("Rust {needed} or newer")) {
        report.problem(PAGE, format!("does not say that it needs Rust {needed} or newer, as Cargo.toml does"));
    }
    Ok(())
}

fn rust_block(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("```rust\n")?;
    Some(rest.split_once("```")?.0)
}
