//! `terrace options`: prints options.
use crate::args::Settings;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Print all options with their values and help, as a file that --options reads.
///
/// The file may omit every option that has the value of the file's preset. A store does not record
/// its options. It records only its layout, its feature flags, and whether it was created with
/// `durability=auto`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Prints the options.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.settings.resolve()?;
        if !self.json {
            return Ok(write!(out, "{}", options.to_text())?);
        }
        let values: Map<String, Value> =
            options.describe().into_iter().map(|option| (option.name.into(), typed(option.value))).collect();
        Ok(writeln!(out, "{}", json!({ "preset": options.preset_name(), "options": values }))?)
    }
}

/// Converts numbers and switches to JSON's types, and any other value to a string.
fn typed(value: String) -> Value {
    let number = || value.parse::<i64>().ok().map(Value::from);
    let switch = || value.parse::<bool>().ok().map(Value::from);
    number().or_else(switch).unwrap_or(Value::String(value))
}
