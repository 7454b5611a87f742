//! Creates the places of the stores during a benchmark, such as a directory or a device. Each cell
//! (one engine in one round) gets a fresh place.
use crate::args::Usage;
use anyhow::{Context, Result};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    process,
    sync::Arc,
};
use terrace_lab::{
    device::{self, DeviceSpec, Images, remove_stale},
    plan::run::CellPlace,
    target::StoreMedium,
};

/// The device, and the permission to overwrite it.
#[derive(clap::Args)]
pub struct Place {
    /// dir:PATH is a directory. The other places need root: loop:SIZE is a fresh ext4 in a file,
    /// with exact counts of its I/O; block:/dev/X is a fresh ext4 on that device; memory:SIZE is a
    /// fresh ext4 on a drive in this machine's memory; vssd:PROFILE or vssd:PROFILE:steady is a
    /// fresh ext4 on a virtual SSD in memory, new or preconditioned, which counts its flash writes.
    /// On all places but dir, engines for raw devices (presets device, lds, leveldb-raw) get the
    /// device without a file system. Suffixes of loop:SIZE: :nojournal for an ext4 without a
    /// journal, :xfs for an XFS. Suffixes of memory and vssd, in this order: :discard sends
    /// discards to the drive, :nojournal, :flush=MICROSECONDS delays flushes, :rate=SIZE limits
    /// transfers per second. Default: a temporary directory.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Allow overwriting a directory or device with data.
    #[arg(long)]
    destroy_data: bool,
    /// Directory for loop-device files and temporary directories. Default: the system's
    /// temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device.as_deref().unwrap_or("a temporary directory"))
    }
}

impl Place {
    /// Returns a text that identifies the place. Results of another place are not reused.
    pub fn identity(&self) -> Result<String> {
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let identity = match &self.device {
            Some(device) => parse(device)?.identity(&work),
            None => device::temporary(&work),
        };
        identity.map_err(|error| Usage::of("--device", format!("{error:#}")))
    }

    /// Rejects a place that is unavailable or has data, and removes the remains of killed runs.
    /// Returns a function that provides a fresh place for each cell.
    pub fn prepare(&self) -> Result<Box<dyn FnMut(StoreMedium) -> Result<CellPlace>>> {
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let (spec, temporary) = match &self.device {
            Some(text) => (parse(text)?, None),
            None => {
                let directory = Temporary::new(&work);
                (DeviceSpec::Dir(directory.0.clone()), Some(directory))
            }
        };
        let destroy_data = self.destroy_data;
        look(&spec, destroy_data)?;
        remove_stale(&work).iter().for_each(|left| eprintln!("left over from an earlier run: {left}"));
        let images = Arc::new(Images::default());
        Ok(Box::new(move |below| {
            let _keep: &Option<Temporary> = &temporary;
            let device = spec.prepare(&work, below, destroy_data, Some(&images))?;
            fs::create_dir_all(&device.dir).with_context(|| device.dir.display().to_string())?;
            Ok(CellPlace { dir: device.dir.clone(), device: device.node.clone(), guard: Box::new(device) })
        }))
    }
}

/// Parses `--device`.
pub fn parse(text: &str) -> Result<DeviceSpec> {
    text.parse().map_err(|error: String| Usage::of("--device", error.trim_start_matches("--device ")))
}

/// Rejects a device that is unavailable or has data.
pub fn look(device: &DeviceSpec, destroy_data: bool) -> Result<()> {
    device.check(destroy_data).map_err(|error| Usage::of("--device", format!("{error:#}")))
}

/// Prefix of the names of temporary directories. After the prefix, a name has the id of the
/// process that created the directory.
const PREFIX: &str = "terrace-bench-";

/// A temporary directory of this run. Each cell empties it, and the end of the run removes it.
struct Temporary(PathBuf);

impl Temporary {
    /// Chooses a directory below `work` without creating it. Removes the directories of killed
    /// runs.
    fn new(work: &Path) -> Temporary {
        for entry in fs::read_dir(work).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
                // The run removes only objects that a run creates. Any other object belongs to
                // another program and stays.
                let _ = fs::remove_dir_all(entry.path().join("store"));
                let _ = fs::remove_dir(entry.path());
            }
        }
        Temporary(work.join(format!("{PREFIX}{}", process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        match fs::remove_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                eprintln!("not removed: {}: {error}", self.0.display());
            }
            _ => {}
        }
    }
}
