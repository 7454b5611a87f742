//! `ssd profiles`: lists the built-in profiles of virtual SSDs, or prints one.
use crate::{args::Usage, table};
use anyhow::Result;
use serde_json::json;
use std::io::Write;
use terrace_device::ssd::Profile;

/// Lists the built-in profiles, or prints one as a starting point for a new profile.
#[derive(clap::Args)]
pub struct Profiles {
    /// Profile to print.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Profiles {
    /// Prints the list or the text.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.name {
            None => self.list(out),
            Some(name) => self.show(name, out),
        }
    }

    fn list(&self, out: &mut dyn Write) -> Result<()> {
        let profiles: Vec<Profile> = Profile::names().filter_map(Profile::named).collect();
        if self.json {
            writeln!(out, "{}", json!(profiles))?;
            return Ok(());
        }
        let row = |profile: &Profile| {
            let compresses = if profile.compressed_pages.is_some() { "yes" } else { "no" };
            let spare = format!("{:.1} %", 100.0 * profile.over_provisioning);
            let superblock = table::size(profile.superblock_bytes());
            vec![profile.name.clone(), table::size(profile.capacity_bytes), spare, superblock, compresses.into()]
        };
        let rows: Vec<Vec<String>> = profiles.iter().map(row).collect();
        table::write(out, &["name", "capacity", "over-provisioned", "superblock", "compresses"], &rows)
    }

    fn show(&self, name: &str, out: &mut dyn Write) -> Result<()> {
        let names = || Profile::names().collect::<Vec<_>>().join(", ");
        let text = Profile::text(name).ok_or_else(|| Usage::of("NAME", format!("'{name}' is none of {}", names())))?;
        match self.json {
            true => writeln!(out, "{}", json!(Profile::named(name)))?,
            false => write!(out, "{text}")?,
        }
        Ok(())
    }
}
