//! `raw ls` and `raw cat`: list and print the files of a store on a device without a file system.
use super::open;
use crate::table::{self, size};
use anyhow::{Context, Result};
use serde_json::json;
use std::{io::Write, path::PathBuf};
use terrace_storage::backends::files::fs::FileSystem;

/// Lists the files on a device with their slots.
#[derive(clap::Args)]
pub struct Ls {
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Print JSON, one object per file.
    #[arg(long)]
    json: bool,
}

impl Ls {
    /// Prints the files sorted by name.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let files = open(&self.device)?.files().with_context(|| self.device.display().to_string())?;
        if self.json {
            for file in &files {
                let slots: Vec<_> = file.slots.iter().map(|run| [run.start, run.end]).collect();
                writeln!(out, "{}", json!({ "name": file.name, "bytes": file.bytes, "slots": slots }))?;
            }
            return Ok(());
        }
        let slots = |runs: &[std::ops::Range<u32>]| -> String {
            let text = |run: &std::ops::Range<u32>| match run.len() {
                1 => run.start.to_string(),
                _ => format!("{}-{}", run.start, run.end - 1),
            };
            runs.iter().map(text).collect::<Vec<_>>().join(" ")
        };
        let rows: Vec<_> =
            files.iter().map(|file| vec![file.name.clone(), size(file.bytes), slots(&file.slots)]).collect();
        table::write(out, &["file", "size", "slots"], &rows)
    }
}

/// Writes a file on a device to stdout.
#[derive(clap::Args)]
pub struct Cat {
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// File name, as `terrace raw ls` prints it.
    #[arg(value_name = "FILE")]
    file: String,
}

impl Cat {
    /// Writes the file.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        const PIECE_BYTES: u64 = 1 << 20;
        let named = || format!("{} on {}", self.file, self.device.display());
        let file = open(&self.device)?.open(&self.file).with_context(named)?;
        let (mut at, bytes) = (0, file.bytes().with_context(named)?);
        while at < bytes {
            let piece = (bytes - at).min(PIECE_BYTES);
            out.write_all(&file.read_at(at, piece as usize).with_context(named)?)?;
            at += piece;
        }
        Ok(())
    }
}
