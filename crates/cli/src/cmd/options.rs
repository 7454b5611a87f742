//! `options`: what a preset and single options come to, as a file.
use crate::args::Settings;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Prints all options, with their values and meanings, as a file that --options reads.
///
/// Such a file may be cut down to what differs from its preset. A store keeps none of it but how
/// its bytes lie, and whether it was made to become durable in batches.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Prints them.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.settings.resolve()?;
        if !self.json {
            return Ok(write!(out, "{}", options.to_text())?);
        }
        let values: Map<String, Value> =
            options.describe().into_iter().map(|(name, value, _)| (name.into(), typed(value))).collect();
        Ok(writeln!(out, "{}", json!({ "preset": options.preset_name(), "options": values }))?)
    }
}

/// Numbers and switches as such, the rest as text.
fn typed(value: String) -> Value {
    let number = || value.parse::<i64>().ok().map(Value::from);
    let switch = || value.parse::<bool>().ok().map(Value::from);
    number().or_else(switch).unwrap_or(Value::String(value))
}
