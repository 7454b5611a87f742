//! Flags that select a virtual SSD and its initial state.
use crate::args::Usage;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::{fs, path::Path};
use terrace::parse_size;
use terrace_device::ssd::{Ftl, Profile};

/// A drive profile and an initial state.
#[derive(clap::Args)]
pub struct Drive {
    /// Profile: a name listed by `terrace ssd profiles`, or a TOML or JSON file.
    #[arg(long, value_name = "NAME|FILE", default_value = "plain")]
    profile: String,
    /// Capacity; overrides the profile's.
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Random seed; overrides the profile's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// initial: a new drive. steady: a drive that was filled and then overwritten at random until
    /// the write amplification of three consecutive windows agreed within 5 %.
    #[arg(long, value_name = "STATE", default_value = "initial", value_parser = ["initial", "steady"])]
    state: String,
}

impl Drive {
    /// Returns the selected profile after validating it.
    pub fn profile(&self) -> Result<Profile> {
        let mut profile = match Profile::named(&self.profile) {
            Some(profile) => profile,
            None => from_file(&self.profile)?,
        };
        if let Some(size) = &self.size {
            profile.capacity_bytes = parse_size(size).map_err(|error| Usage::of("--size", error))?;
        }
        profile.seed = self.seed.unwrap_or(profile.seed);
        let what = if self.size.is_some() { "--size" } else { "--profile" };
        profile.validate().map_err(|error| Usage::of(what, error))?;
        Ok(profile)
    }

    /// Creates the drive in its initial state. Preconditioning takes a while and shows a progress
    /// bar on a terminal.
    pub fn make(&self) -> Result<Ftl> {
        let mut ftl = Ftl::new(self.profile()?)?;
        if self.state == "steady" {
            precondition(&mut ftl)?;
        }
        Ok(ftl)
    }

    /// Returns the name of the initial state.
    pub fn state(&self) -> &str {
        &self.state
    }
}

fn from_file(path: &str) -> Result<Profile> {
    let names = Profile::names().collect::<Vec<_>>().join(", ");
    if !Path::new(path).exists() {
        return Err(Usage::of("--profile", format!("'{path}' is neither a file nor one of {names}")));
    }
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    Ok(Profile::parse(&text, path)?)
}

fn precondition(ftl: &mut Ftl) -> Result<()> {
    let bar = ProgressBar::new_spinner(); // a spinner, because the duration is unknown in advance
    bar.set_style(ProgressStyle::with_template("{elapsed_precise} {spinner} {msg}").expect("it is well formed"));
    let capacity = ftl.profile().capacity_bytes as f64;
    let is_steady = ftl.precondition(|progress| {
        let wa2 = progress.wa2.map_or("-".into(), |wa2| format!("{wa2:.3}"));
        bar.set_message(format!("written {:.1} capacities, WA2 {wa2}", progress.written_bytes as f64 / capacity));
        bar.tick();
        true
    });
    bar.finish_and_clear();
    if !is_steady? {
        bail!("the drive does not become steady: after 200 windows WA2 still changes by 5 % and more");
    }
    Ok(())
}
