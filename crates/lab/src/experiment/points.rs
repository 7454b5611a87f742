//! The points of an experiment. A point is one combination of the values that the experiment
//! varies. At a given scale, it determines the cells (one engine in one round) and their device.
use super::{
    definition::{Experiment, ExperimentError, WorkloadName, label},
    tables::{Device, Kind, Load, State, Terms},
};
use crate::{
    cell::CellSpec,
    device::{self, DeviceSpec, DriveOptions, FileSystem},
    workload,
};
use serde::Deserialize;
use std::path::Path;
use terrace::parse_size;
use terrace_device::ssd::Profile;
use toml::de::DeTable;

/// A point: one combination of the values that the experiment varies.
#[derive(Clone, Debug)]
pub struct Point {
    /// The axes that the experiment varies, and the labels (values) of the point, in the order of
    /// the experiment's file.
    pub at: Vec<(String, String)>,
    /// The parameters that all cells of the point have in common.
    pub spec: CellSpec,
    /// Device that contains the stores.
    pub place: PointDevice,
    /// Name of the point's plan in a run.
    pub plan: String,
    /// Notes on sizes that did not shrink as far as the scale requires, because they reached their
    /// minimum.
    pub stopped: Vec<String>,
}

/// The device of a point, with its size.
#[derive(Clone, Debug, PartialEq)]
pub enum PointDevice {
    /// The device that the user requested, in the form of `--device`.
    Given(String),
    /// A temporary directory.
    Temporary,
    /// A loop device of this many bytes, with a file system of this kind.
    Loop(u64, FileSystem),
    /// A drive in this machine's memory.
    Memory {
        /// Size in bytes.
        bytes: u64,
        /// Options that determine how the drive is used and how fast it is.
        drive_options: DriveOptions,
        /// Text that says whether the kernel or the drive's server enforces the rate
        /// ([`DriveOptions::rate_limiter`]). Empty if unknown.
        rate_limiter: String,
    },
    /// A virtual SSD.
    Vssd {
        /// Profile of the SSD at its size.
        profile: Box<Profile>,
        /// Whether the SSD is in steady state, as after long use.
        is_steady: bool,
        /// Options that determine how the drive is used and how fast it is.
        drive_options: DriveOptions,
    },
}

/// An error, and its position in the experiment's file if it is known.
type LocatedError = (Option<usize>, String);

/// The invalid field as `TABLE.FIELD`, and the reason why it is invalid.
type FieldError = (&'static str, String);

/// Returns the number that a label of an axis represents: a size in bytes, or a plain number.
/// Returns `None` if the label is not a number above 0.
pub fn number(label: &str) -> Option<f64> {
    let number = label.parse().ok().or_else(|| parse_size(label).ok().map(|bytes| bytes as f64));
    number.filter(|number: &f64| number.is_finite() && *number > 0.0)
}

impl Experiment {
    /// Returns all points of the experiment at the given scale: every combination of the values
    /// that it varies.
    pub fn points(&self, scale: f64) -> Result<Vec<Point>, ExperimentError> {
        points(self, scale).map_err(|(_, why)| why)
    }
}

pub(super) fn points(experiment: &Experiment, scale: f64) -> Result<Vec<Point>, LocatedError> {
    let mut raw: Vec<(Vec<(String, String)>, toml::Table)> =
        vec![(Vec::new(), experiment.text.parse().expect("it was decoded"))];
    for sweep in &experiment.sweep {
        let wrong = |why: String| (Some(sweep.set.span().start), format!("sweep: {why}"));
        let mut next = Vec::new();
        for (at, table) in &raw {
            for value in &sweep.to {
                let set = sweep.set.get_ref();
                let at = [&at[..], &[(sweep.axis().to_owned(), label(value))]].concat();
                let table = with(table, set, value).map_err(wrong)?;
                // If one value of this sweep is invalid, the error names the line of this sweep.
                Tables::of(&table).map_err(wrong)?;
                next.push((at, table));
            }
        }
        raw = next;
    }
    let wrong = |(field, why): FieldError| {
        let swept = experiment.sweep.iter().find(|sweep| sweep.set.get_ref() == field);
        let at = swept.map(|sweep| sweep.set.span().start).or_else(|| located(&experiment.text, field));
        (at, format!("{field}: {why}"))
    };
    raw.into_iter().map(|(at, table)| point(experiment, scale, at, &table).map_err(wrong)).collect()
}

/// Returns the position of a field in the text of an experiment. `path` is `TABLE.FIELD`, or the
/// name of a field outside of tables. If the table lacks the field, the position is that of the
/// table.
pub(super) fn located(text: &str, path: &str) -> Option<usize> {
    fn entry<'a, 'text>(table: &'a DeTable<'text>, name: &str) -> Option<(usize, Option<&'a DeTable<'text>>)> {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some((key.span().start, value.get_ref().as_table()))
    }
    let (name, field) = path.split_once('.').unwrap_or((path, ""));
    let root = DeTable::parse(text).ok()?;
    let (at, table) = entry(root.get_ref(), name)?;
    Some(table.and_then(|table| entry(table, field)).map_or(at, |(at, _)| at))
}

/// Returns a copy of `table` that has `value` in the field `set`.
fn with(table: &toml::Table, set: &str, value: &toml::Value) -> Result<toml::Table, String> {
    let (section, field) = set.split_once('.').ok_or_else(|| format!("{set} is not of the form TABLE.FIELD"))?;
    if !["load", "terms", "device"].contains(&section) {
        return Err(format!("{set}: only fields of load, terms and device can be swept"));
    }
    let mut table = table.clone();
    let section = table.entry(section).or_insert_with(|| toml::Table::new().into());
    let section = section.as_table_mut().ok_or_else(|| format!("{set}: not a table"))?;
    section.insert(field.into(), value.clone());
    Ok(table)
}

struct Tables {
    load: Load,
    terms: Terms,
    device: Device,
}

impl Tables {
    fn of(table: &toml::Table) -> Result<Tables, String> {
        fn one<'a, T: Deserialize<'a>>(table: &toml::Table, name: &str) -> Result<T, String> {
            let section = table.get(name).cloned().unwrap_or_else(|| toml::Table::new().into());
            section.try_into().map_err(|error: toml::de::Error| format!("{name}: {}", error.to_string().trim_end()))
        }
        Ok(Tables { load: one(table, "load")?, terms: one(table, "terms")?, device: one(table, "device")? })
    }
}

fn point(
    experiment: &Experiment,
    scale: f64,
    at: Vec<(String, String)>,
    table: &toml::Table,
) -> Result<Point, FieldError> {
    let Tables { mut load, mut terms, mut device } = Tables::of(table).expect("it was decoded, each sweep's value too");
    let stopped = experiment.scale.apply(scale, &mut load, &mut terms, &mut device);
    let spec = CellSpec {
        settings: terms.settings(),
        workloads: experiment.workloads.iter().map(|WorkloadName(name)| name.clone()).collect(),
        num: load.keys().map_err(|why| ("load.num", why))?,
        reads: load.reads,
        writes: load.writes,
        processors: load.processors,
        memory: load.memory.map(|memory| memory.0),
        key_size: load.key_size,
        value_size: load.value_size.0 as usize,
        threads: load.threads,
        batch: load.batch,
        seed: load.seed,
        compression_ratio: load.compression_ratio,
        ycsb_update: load.ycsb_update,
        ..CellSpec::default()
    };
    workload::validate(&spec).map_err(|error| ("load", format!("{error:#}")))?;
    Ok(Point { at, spec, place: place(&device)?, plan: String::new(), stopped })
}

fn place(device: &Device) -> Result<PointDevice, FieldError> {
    let size = || device.size.map(|size| size.0).ok_or_else(|| ("device.size", "missing".to_owned()));
    match (device.kind, device.file_system) {
        (_, FileSystem::Ext4) | (Kind::Loop, _) | (Kind::Memory | Kind::Vssd, FileSystem::Ext4NoJournal) => {}
        (Kind::Temporary, _) => {
            return Err(("device.file_system", "a temporary directory uses the existing file system".into()));
        }
        (_, FileSystem::Xfs) => return Err(("device.file_system", "xfs is supported only with kind loop".into())),
    }
    let drive_options = DriveOptions {
        discards: device.discard,
        no_journal: device.file_system == FileSystem::Ext4NoJournal,
        flush_us: device.flush_us,
        bytes_per_s: device.bytes_per_s.map(|bytes| bytes.0),
    };
    match device.kind {
        Kind::Temporary => Ok(PointDevice::Temporary),
        Kind::Loop => Ok(PointDevice::Loop(size()?, device.file_system)),
        Kind::Memory => Ok(PointDevice::Memory {
            bytes: size()?.next_multiple_of(4096),
            drive_options,
            rate_limiter: String::new(),
        }),
        Kind::Vssd => {
            let missing = || ("device.profile", "missing".to_owned());
            let name = device.profile.as_deref().ok_or_else(missing)?;
            let known = || Profile::names().collect::<Vec<_>>().join(", ");
            let unknown = || ("device.profile", format!("unknown profile {name:?}; the profiles are {}", known()));
            let profile = resized(Profile::named(name).ok_or_else(unknown)?, size()?);
            profile.validate().map_err(|error| ("device.size", error.to_string()))?;
            let is_steady = device.state == State::Steady;
            Ok(PointDevice::Vssd { profile: Box::new(profile), is_steady, drive_options })
        }
    }
}

/// Returns the profile of a virtual SSD with another capacity. The size of erase blocks changes in
/// proportion, in whole program units. The number of superblocks therefore remains about the same.
fn resized(profile: Profile, bytes: u64) -> Profile {
    let share = bytes as f64 / profile.capacity_bytes as f64;
    let programs = f64::from(profile.pages_per_block / profile.pages_per_program) * share;
    let pages_per_block = (programs.round().max(1.0) as u32).saturating_mul(profile.pages_per_program);
    let pages_per_block = pages_per_block.clamp(profile.pages_per_program, (1 << 16) - profile.pages_per_program);
    let page = u64::from(profile.page_bytes);
    Profile { capacity_bytes: bytes / page * page, pages_per_block, ..profile }
}

impl PointDevice {
    /// Returns a complete description of the device, exact to the byte. `work` is the directory in
    /// which backing files of devices are created. Figures of devices with different identities
    /// must not be mixed.
    ///
    /// # Errors
    /// The profile of a requested device cannot be read.
    pub fn identity(&self, work: &Path) -> anyhow::Result<String> {
        match self {
            PointDevice::Temporary => device::temporary(work),
            PointDevice::Given(device) => device.parse::<DeviceSpec>().map_err(anyhow::Error::msg)?.identity(work),
            PointDevice::Loop(bytes, kind) => DeviceSpec::Loop(*bytes, *kind).identity(work),
            PointDevice::Memory { bytes, drive_options, .. } => {
                Ok(format!("memory:{bytes}{drive_options}{}", drive_options.rate_limiter()))
            }
            PointDevice::Vssd { profile, is_steady, drive_options } => {
                Ok(format!("{profile:?} {is_steady}{drive_options}"))
            }
        }
    }

    /// Returns text that says whether the kernel or the drive's server enforces the rate of a drive
    /// in memory on this machine. The text is empty for other devices.
    pub fn rate_limiter(&self) -> &'static str {
        if let PointDevice::Memory { drive_options, .. } = self { drive_options.rate_limiter() } else { "" }
    }

    /// Returns a short description for tables. The experiment's file has the details.
    pub fn describe(&self) -> String {
        match self {
            PointDevice::Temporary => "a temporary directory".into(),
            PointDevice::Given(device) => device.clone(),
            PointDevice::Loop(bytes, kind) => format!("loop:{}MiB, {}", bytes >> 20, kind.name()),
            PointDevice::Memory { bytes, drive_options, rate_limiter } => {
                format!("memory of {} MiB{}{rate_limiter}", bytes >> 20, drive_options.describe())
            }
            PointDevice::Vssd { profile, is_steady, drive_options } => format!(
                "vssd:{} of {} MiB, {}{}",
                profile.name,
                profile.capacity_bytes >> 20,
                if *is_steady { "steady" } else { "initial" },
                drive_options.describe()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_drive_has_as_many_superblocks() {
        let whole = Profile::named("ssd-s").expect("it is known");
        for bytes in [64 << 20, 1_000_000_000, 1 << 32, 240_000_000_000] {
            let small = resized(whole.clone(), bytes);
            small.validate().expect("there can be one");
            let ratio = small.superblocks() as f64 / whole.superblocks() as f64;
            assert!((0.7..1.5).contains(&ratio), "{bytes}: {} of {}", small.superblocks(), whole.superblocks());
        }
    }

    #[test]
    fn labels_are_sizes_or_numbers() {
        assert_eq!([number("64KiB"), number("0.1"), number("8")], [Some(65536.0), Some(0.1), Some(8.0)]);
        assert_eq!([number("steady"), number("0"), number("-1")], [None, None, None]);
    }

    #[test]
    fn devices_with_equal_descriptions_have_distinct_identities() {
        let rate = |bytes| DriveOptions { bytes_per_s: Some(bytes), ..DriveOptions::default() };
        let drive =
            |bytes| PointDevice::Memory { bytes: 1 << 30, drive_options: rate(bytes), rate_limiter: String::new() };
        let identity = |place: &PointDevice| place.identity(Path::new("/tmp")).expect("it needs no file");
        let (slow, fast) = (drive(1 << 20), drive(1900 << 10));
        assert_eq!(slow.describe(), fast.describe());
        assert_ne!(identity(&slow), identity(&fast));
    }
}
