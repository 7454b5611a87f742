//! `ssd smart`: prints the bytes that the host wrote to a drive, and the bytes that the drive
//! programmed into flash.
use super::report;
use crate::{
    args::Usage,
    table::{self, size},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use terrace_device::{
    smart::{self, Reading, Told},
    ssd::Image,
};

/// Prints the bytes that the host wrote to a drive and the bytes that the drive programmed into
/// flash.
///
/// A real drive is read with `smartctl` and `nvme` (needs root and the packages smartmontools and
/// nvme-cli). With --from-json the earlier output of these programs is read instead. A missing
/// counter is reported with the reason, and as null in JSON. Nothing is estimated. A virtual SSD
/// is named by its directory and has all counters.
#[derive(clap::Args)]
pub struct Smart {
    /// A block device, or the directory of a virtual SSD.
    #[arg(required_unless_present = "from_json", conflicts_with = "from_json")]
    device: Option<PathBuf>,
    /// Read the output of `smartctl --json --all` or `nvme … -o json` for one drive; repeatable.
    #[arg(long, value_name = "FILE")]
    from_json: Vec<PathBuf>,
    /// Print the difference to an earlier reading of the same drive: a file with the output of
    /// `--json`.
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Print JSON. The JSON of a virtual SSD has the form of `smartctl`, with the exact counters in
    /// `terrace`.
    #[arg(long)]
    json: bool,
}

impl Smart {
    /// Reads the counters and prints them.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let texts = match &self.device {
            Some(directory) if directory.is_dir() => return self.look(directory, out),
            Some(device) => smart::ask(device)?,
            None => self.from_json.iter().map(|path| json_of(path)).collect::<Result<_>>()?,
        };
        let reading = match Reading::of(&texts) {
            Ok(reading) => reading,
            Err(why) => bail!("cannot read the drive's counters: {why}"),
        };
        let added = self.since.as_ref().map(|path| added(path, &reading)).transpose()?;
        if self.json {
            writeln!(out, "{}", reading_json(&reading, added.as_ref()))?;
            return Ok(());
        }
        write_text(&reading, added.as_ref(), out)
    }

    fn look(&self, directory: &Path, out: &mut dyn Write) -> Result<()> {
        if self.since.is_some() {
            return Err(Usage::of("--since", "a virtual SSD prints its windows without it"));
        }
        let told = Image::look(directory)?;
        if self.json {
            writeln!(out, "{}", told.json())?;
            return Ok(());
        }
        report::write(&told, out)
    }
}

/// The difference between two readings of a drive's counters. A counter that is an average over
/// the drive's life has no meaningful difference.
struct Added {
    host_bytes: Option<u64>,
    nand_bytes: Option<u64>,
    /// WA2 (bytes programmed per host byte) and its uncertainty, which follows from the units of
    /// the counters.
    wa2: Option<(f64, f64)>,
}

fn added(path: &Path, now: &Reading) -> Result<Added> {
    let earlier = json_of(path)?;
    let Some(model) = earlier["model"].as_str() else {
        bail!("{}: not the output of `terrace ssd smart --json`", path.display());
    };
    if model != now.model {
        bail!("{}: a reading of {model}, but this drive is {}", path.display(), now.model);
    }
    if let (Some(then), Some(now)) = (earlier["serial"].as_str(), &now.serial)
        && then != now
    {
        bail!("{}: a reading of the {model} with serial number {then}, but this one has {now}", path.display());
    }
    let since = |name: &str, told: Option<&Told>| -> Result<Option<u64>> {
        let (Some(then), Some(told)) = (earlier[name].as_u64(), told) else { return Ok(None) };
        let added = told.bytes.checked_sub(then);
        added.map(Some).with_context(|| format!("{}: {name} was {then}, more than now", path.display()))
    };
    let nand = now.nand.as_ref().ok().filter(|told| !told.is_average);
    let (host_bytes, nand_bytes) = (since("host_bytes", now.host.as_ref())?, since("nand_bytes", nand)?);
    let wa2 = match (host_bytes, nand_bytes, &now.host, nand) {
        (Some(host), Some(nand), Some(host_told), Some(nand_told)) if host > 0 => {
            let wa2 = nand as f64 / host as f64;
            let coarse = nand_told.unit_bytes as f64 / host as f64 + wa2 * host_told.unit_bytes as f64 / host as f64;
            Some((wa2, coarse))
        }
        _ => None,
    };
    Ok(Added { host_bytes, nand_bytes, wa2 })
}

fn json_of(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: no JSON", path.display()))
}

fn reading_json(reading: &Reading, added: Option<&Added>) -> Value {
    let (host, nand) = (reading.host.as_ref(), reading.nand.as_ref());
    let since = added.map(|added| {
        json!({ "host_bytes": added.host_bytes, "nand_bytes": added.nand_bytes,
            "wa2": added.wa2.map(|wa2| wa2.0), "wa2_within": added.wa2.map(|wa2| wa2.1) })
    });
    json!({
        "model": reading.model,
        "serial": reading.serial,
        "host_bytes": host.map(|told| told.bytes),
        "host_unit_bytes": host.map(|told| told.unit_bytes),
        "host_from": host.map(|told| &told.from),
        "nand_bytes": nand.ok().map(|told| told.bytes),
        "nand_unit_bytes": nand.ok().map(|told| told.unit_bytes),
        "nand_from": nand.ok().map(|told| &told.from),
        "nand_not_told": nand.err(),
        "wa2": reading.wa2(),
        "since": since,
    })
}

fn write_text(reading: &Reading, added: Option<&Added>, out: &mut dyn Write) -> Result<()> {
    let row = |name: &str, told: &Told| {
        vec![name.to_owned(), told.bytes.to_string(), size(told.bytes), size(told.unit_bytes), told.from.clone()]
    };
    let not_told = |name: &str| vec![name.to_owned(), "unknown".into()];
    let rows = [
        reading.host.as_ref().map_or_else(|| not_told("host wrote"), |told| row("host wrote", told)),
        reading.nand.as_ref().map_or_else(|_| not_told("programmed"), |told| row("programmed", told)),
    ];
    writeln!(out, "{}", reading.model)?;
    table::write(out, &["", "bytes", "", "counted in", "from"], &rows)?;
    if let Err(why) = &reading.nand {
        writeln!(out, "\nThe drive does not report the bytes it programs into flash: {why}.")?;
    }
    if let Some(wa2) = reading.wa2() {
        writeln!(out, "\nWA2 since the drive was new: {wa2:.3}")?;
    }
    if let Some(added) = added {
        let bytes = |bytes: Option<u64>| bytes.map_or("unknown".into(), size);
        let (host, nand) = (bytes(added.host_bytes), bytes(added.nand_bytes));
        let wa2 = added.wa2.map_or("-".into(), |(wa2, within)| format!("{wa2:.3} ± {within:.3}"));
        writeln!(out, "since the earlier reading: host wrote {host}, programmed {nand}, WA2 {wa2}")?;
    }
    Ok(())
}
