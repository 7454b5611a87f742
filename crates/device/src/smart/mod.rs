//! Reads two counters of a real drive: the bytes written by the host and the bytes programmed into
//! flash.
//!
//! No standard counter has the bytes programmed into flash. [`Reading::of`] interprets the output
//! of `smartctl --json` and `nvme -o json` with a table of vendors (`vendors.toml`). If a drive
//! lacks a counter, the reading says so. A missing counter is never estimated.
mod ask;
mod vendors;

pub use ask::ask;

use serde_json::Value;
use vendors::{Attribute, Counter, Family, Field, TABLE};

/// Unit in bytes of the counter of host writes of NVMe drives.
const NVME_UNIT_BYTES: u64 = 512_000;

/// A byte counter that a drive reports, with the unit in which the drive counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The count in bytes, a multiple of the unit.
    pub bytes: u64,
    /// The drive's unit in bytes.
    pub unit_bytes: u64,
    /// The attribute or field from which the count was read.
    pub from: String,
    /// Whether the drive reports only an average over its life, from which this count was computed.
    /// The difference of two such counts has no meaning.
    pub is_average: bool,
}

/// The counters of a drive at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The model name.
    pub model: String,
    /// The serial number, if known.
    pub serial: Option<String>,
    /// Bytes written by the host since the drive was new.
    pub host: Option<Told>,
    /// Bytes programmed into flash since the drive was new, or the reason why the number is
    /// unknown.
    pub nand: Result<Told, String>,
}

impl Reading {
    /// Returns the drive's write amplification (bytes programmed per byte written by the host)
    /// if both counters are known.
    pub fn wa2(&self) -> Option<f64> {
        let (host, nand) = (self.host.as_ref()?.bytes, self.nand.as_ref().ok()?.bytes);
        (host > 0).then(|| nand as f64 / host as f64)
    }

    /// Interprets the tools' output for one drive: `smartctl --json --all`, and for an NVMe
    /// drive also the logs of `nvme -o json`.
    ///
    /// # Errors
    /// If no text describes a drive.
    pub fn of(texts: &[Value]) -> Result<Reading, String> {
        let model = texts.iter().find_map(|text| text["model_name"].as_str()).unwrap_or("unknown model").to_owned();
        let serial = texts.iter().find_map(|text| text["serial_number"].as_str()).map(str::to_owned);
        let nvme = texts.iter().find_map(in_nvme_log);
        let own =
            texts.iter().find_map(|text| text["nvme_smart_health_information_log"]["data_units_written"].as_u64());
        let own = own.map(|units| told(units, NVME_UNIT_BYTES, "data_units_written".into()));
        if let Some((nand, host)) = nvme {
            return Ok(Reading { model, serial, host: host.or(own), nand });
        }
        if own.is_some() {
            let why = "standard NVMe has no such counter, and no vendor log was found";
            return Ok(Reading { model, serial, host: own, nand: Err(why.into()) });
        }
        let table = texts.iter().find_map(|text| text["ata_smart_attributes"]["table"].as_array());
        let statistics = texts.iter().find_map(sectors_written);
        match table {
            Some(table) => {
                let (host, nand) = in_ata_table(table, statistics);
                Ok(Reading { model, serial, host, nand })
            }
            None => Err(said(texts).unwrap_or_else(|| "neither ATA attributes nor an NVMe health log".into())),
        }
    }
}

/// Reads both counters from ATA attributes. If no attribute has the host writes, takes them from
/// the device statistics.
fn in_ata_table(table: &[Value], statistics: Option<Told>) -> (Option<Told>, Result<Told, String>) {
    let is_shown = |attribute: &Attribute| raw(table, attribute).is_some();
    let fits = |family: &&Family| {
        let pages = family.pages.iter().flat_map(|pages| [&pages.host, &pages.other]);
        let counters = family.nand.iter().map(|counter| &counter.attribute);
        family.when.iter().chain(counters).chain(pages).all(is_shown)
    };
    let Some(family) = TABLE.ata.iter().find(fits) else {
        let why = format!("the drive has none of the attributes known to count it ({} families)", TABLE.ata.len());
        return (statistics, Err(why));
    };
    let host = family.host.iter().find_map(|counter| counted(table, counter)).or(statistics);
    let nand = match (&family.silent, &family.pages) {
        (Some(why), _) => Err(why.clone()),
        (None, Some(pages)) => by_pages(raw(table, &pages.host), raw(table, &pages.other), host.as_ref()),
        (None, None) => sum(family.nand.iter().filter_map(|counter| counted(table, counter))),
    };
    (host, nand.map_err(|why| format!("{why} ({})", family.drives)))
}

/// Derives the bytes programmed into flash from two page counts: the pages programmed for the
/// host, and all other pages. The drive does not report its page size. The size follows from the
/// first count and from `written`, the bytes that the host has written.
fn by_pages(host: Option<u64>, other: Option<u64>, written: Option<&Told>) -> Result<Told, String> {
    match (host, other, written) {
        (Some(host), Some(other), Some(written)) if host > 0 => {
            let bytes = u128::from(written.bytes) * (u128::from(host) + u128::from(other)) / u128::from(host);
            let bytes = u64::try_from(bytes).map_err(|_| "its counters are contradictory".to_owned())?;
            let from = format!("{} × (247 + 248) / 247", written.from);
            Ok(Told { bytes, unit_bytes: (written.bytes / host).max(written.unit_bytes), from, is_average: true })
        }
        _ => Err("it counts pages, but no bytes or no pages of the host to compare them with".into()),
    }
}

fn sum(counts: impl Iterator<Item = Told>) -> Result<Told, String> {
    let add = |sum: Told, next: Told| Told {
        bytes: sum.bytes.saturating_add(next.bytes),
        unit_bytes: sum.unit_bytes + next.unit_bytes,
        from: format!("{} + {}", sum.from, next.from),
        is_average: sum.is_average || next.is_average,
    };
    counts.reduce(add).ok_or_else(|| "nothing is counted".into())
}

fn counted(table: &[Value], counter: &Counter) -> Option<Told> {
    let Attribute { id, name } = &counter.attribute;
    Some(told(raw(table, &counter.attribute)?, counter.bytes, format!("{id} {name}")))
}

fn raw(table: &[Value], wanted: &Attribute) -> Option<u64> {
    let is_wanted = |shown: &&Value| shown["id"] == wanted.id && shown["name"] == *wanted.name;
    table.iter().find(is_wanted)?["raw"]["value"].as_u64()
}

/// Reads the bytes written by the host from ATA device statistics, which count sectors of a stated
/// size.
fn sectors_written(text: &Value) -> Option<Told> {
    let pages = text["ata_device_statistics"]["pages"].as_array()?;
    let rows = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let sectors = rows.filter(|row| row["name"] == "Logical Sectors Written").find_map(|row| row["value"].as_u64())?;
    Some(told(sectors, text["logical_block_size"].as_u64()?, "device statistics".into()))
}

/// Reads both counters from a log of `nvme`.
fn in_nvme_log(text: &Value) -> Option<(Result<Told, String>, Option<Told>)> {
    let log = TABLE.nvme.iter().find(|log| log.when.iter().all(|name| named(text, name).is_some()))?;
    let count = |field: &Field| {
        let units = number(named(text, &field.name)?)?;
        Some(told(units, field.bytes, format!("{}: {}", log.log, field.name)))
    };
    let nand = count(&log.nand).ok_or_else(|| format!("{}: {} is no number", log.log, log.nand.name));
    Some((nand, log.host.as_ref().and_then(count)))
}

/// Returns the value of a field by its name, at any depth.
fn named<'a>(text: &'a Value, name: &str) -> Option<&'a Value> {
    match text {
        Value::Object(fields) => fields.get(name).or_else(|| fields.values().find_map(|value| named(value, name))),
        Value::Array(values) => values.iter().find_map(|value| named(value, name)),
        _ => None,
    }
}

/// Reads a number in any of the forms in which `nvme` prints large numbers: a number, a string,
/// two halves, or a field `raw` next to other fields.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        Value::Object(parts) if parts.contains_key("lo") => {
            (parts.get("hi").and_then(Value::as_u64) == Some(0)).then(|| parts["lo"].as_u64())?
        }
        Value::Object(parts) => parts.get("raw").and_then(number),
        value => value.as_u64(),
    }
}

fn told(units: u64, unit_bytes: u64, from: String) -> Told {
    Told { bytes: units.saturating_mul(unit_bytes), unit_bytes, from, is_average: false }
}

/// Returns the error messages that `smartctl` printed.
fn said(texts: &[Value]) -> Option<String> {
    let messages = texts.iter().find_map(|text| text["smartctl"]["messages"].as_array())?;
    let words: Vec<&str> = messages.iter().filter_map(|message| message["string"].as_str()).collect();
    (!words.is_empty()).then(|| format!("smartctl: {}", words.join("; ")))
}
