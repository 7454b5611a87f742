//! `raw info` and `raw check`: print a device's geometry and check its consistency.
use super::open;
use crate::table::size;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{io::Write, path::PathBuf};

/// Prints the geometry of a device and how full it is.
#[derive(clap::Args)]
pub struct Info {
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Info {
    /// Prints the information.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let device = open(&self.device)?;
        let named = || self.device.display().to_string();
        let (superblock, free) = (device.superblock().with_context(named)?, device.free_slots().with_context(named)?);
        let files = device.files().with_context(named)?;
        let (sizes, bytes) = (superblock.sizes(), files.iter().map(|file| file.bytes).sum::<u64>());
        if self.json {
            let object = json!({ "device": named(), "bytes": superblock.device_bytes(), "slot_bytes": sizes.slot_bytes,
                "unit_bytes": sizes.unit_bytes(), "journal_bytes": superblock.journal_bytes(), "slots": superblock.slots(),
                "free_slots": free, "files": files.len(), "file_bytes": bytes });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} bytes, of which {} of {} slots are free",
            superblock.device_bytes(),
            free,
            superblock.slots()
        )?;
        writeln!(out, "slots of {}, units of {}", size(sizes.slot_bytes.into()), size(sizes.unit_bytes()))?;
        writeln!(out, "slot journal: two halves of {}", size(superblock.journal_bytes()))?;
        writeln!(out, "{} files with {}", files.len(), size(bytes))?;
        Ok(())
    }
}

/// Verifies a device's file table: no slot has two owners, no slot is lost, and the table agrees
/// with the slot journal. Exits with 1 if there are problems.
///
/// The contents of the files are verified by `terrace check DEVICE`.
#[derive(clap::Args)]
pub struct Check {
    /// A prepared device.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Prints the problems.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let problems = open(&self.device)?.problems().with_context(|| self.device.display().to_string())?;
        if self.json {
            writeln!(out, "{}", json!({ "ok": problems.is_empty(), "problems": problems }))?;
        } else {
            problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
            if problems.is_empty() {
                writeln!(out, "no problems")?;
            }
        }
        match problems.len() {
            0 => Ok(()),
            count => bail!("{count} problems"),
        }
    }
}
