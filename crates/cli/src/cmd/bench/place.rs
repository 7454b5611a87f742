//! Where stores live while they are measured: a fresh place for every cell.
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
    plan::run::Ground,
    target::Below,
};

/// Which device, and what may happen to it.
#[derive(clap::Args)]
pub struct Place {
    /// dir:PATH, a directory; loop:SIZE, a fresh ext4 in a file, counted to the byte (root); block:/dev/X, a fresh ext4
    /// on that device (root); memory:SIZE, a fresh ext4 on a drive that is this machine's memory (root); vssd:PROFILE or
    /// vssd:PROFILE:steady, a fresh ext4 on a virtual SSD in memory, new or well used, whose flash is counted (root).
    /// On all but the first, engines that take a device without a file system (presets raw, lds, leveldb-raw) have it bare.
    /// Behind loop:SIZE, :nojournal makes an ext4 without a journal, and :xfs an XFS. Behind the last two, in this order:
    /// :discard tells the drive what is deleted, :nojournal, :flush=MICROSECONDS makes flushes slower, :rate=SIZE is what
    /// it moves in a second. Default: a temporary directory.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Lets a directory or device that holds data be overwritten.
    #[arg(long)]
    destroy_data: bool,
    /// Where files of loop devices and temporary directories are made. Default: the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device.as_deref().unwrap_or("a temporary directory"))
    }
}

impl Place {
    /// All that says where stores live: results of another place are not ours.
    pub fn identity(&self) -> Result<String> {
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let identity = match &self.device {
            Some(device) => parse(device)?.identity(&work),
            None => device::temporary(&work),
        };
        identity.map_err(|error| Usage::of("--device", format!("{error:#}")))
    }

    /// Refuses what cannot be had or holds data, and removes what killed runs left; then a place for each cell.
    pub fn prepare(&self) -> Result<Box<dyn FnMut(Below) -> Result<Ground>>> {
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
        remove_stale(&work).iter().for_each(|left| eprintln!("left behind by an earlier run: {left}"));
        let images = Arc::new(Images::default());
        Ok(Box::new(move |below| {
            let _keep: &Option<Temporary> = &temporary;
            let device = spec.prepare(&work, below, destroy_data, Some(&images))?;
            fs::create_dir_all(&device.dir).with_context(|| device.dir.display().to_string())?;
            Ok(Ground { dir: device.dir.clone(), device: device.node.clone(), guard: Box::new(device) })
        }))
    }
}

/// What `--device` says.
pub fn parse(text: &str) -> Result<DeviceSpec> {
    text.parse().map_err(|error: String| Usage::of("--device", error.trim_start_matches("--device ")))
}

/// Refuses what cannot be had or holds data.
pub fn look(device: &DeviceSpec, destroy_data: bool) -> Result<()> {
    device.check(destroy_data).map_err(|error| Usage::of("--device", format!("{error:#}")))
}

/// Before the number of the process that a temporary directory belongs to.
const PREFIX: &str = "terrace-bench-";

/// A directory of this run. It goes when the run ends; each cell has emptied it before.
struct Temporary(PathBuf);

impl Temporary {
    /// Below `work`, not made yet. Those of runs that were killed are removed.
    fn new(work: &Path) -> Temporary {
        for entry in fs::read_dir(work).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
                // Only what a run makes. What cannot be removed is somebody else's.
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
                eprintln!("left behind: {}: {error}", self.0.display());
            }
            _ => {}
        }
    }
}
