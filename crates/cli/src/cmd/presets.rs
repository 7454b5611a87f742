//! `terrace presets`: lists the presets.
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::io::Write;

/// List the presets of options, each with one line that describes it.
///
/// `terrace options --preset NAME` prints the option values of a preset.
#[derive(clap::Args)]
pub struct Presets {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Presets {
    /// Prints the two lists: presets for users, and presets that reproduce designs of papers.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let lists = [("Presets:", terrace::PRESETS), ("Presets that reproduce papers:", terrace::PAPER_PRESETS)];
        if self.json {
            let [presets, papers] = lists.map(|(_, presets)| as_map(presets));
            return Ok(writeln!(out, "{}", json!({ "presets": presets, "papers": papers }))?);
        }
        for (heading, presets) in lists {
            writeln!(out, "{heading}")?;
            for (name, contents) in presets {
                writeln!(out, "  {name:12} {contents}")?;
            }
        }
        Ok(())
    }
}

fn as_map(presets: &[(&str, &str)]) -> Map<String, Value> {
    presets.iter().map(|(name, contents)| ((*name).into(), Value::from(*contents))).collect()
}
