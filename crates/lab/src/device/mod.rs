//! The device under a store during a measurement. The argument of `--device` selects it:
//!
//! - `dir:PATH`: the store is in that directory. Device bytes are counted only if a file system is
//!   mounted at that path, because only then no other process writes to it.
//! - `loop:SIZE`, `loop:SIZE:nojournal`, `loop:SIZE:xfs`: the store is on a fresh file system
//!   (ext4, ext4 without a journal, XFS) in a file. The run creates this file, uses it for all its
//!   cells, and removes it. All device bytes are counted.
//! - `block:/dev/X`: the store is on a fresh ext4 on that device, whose content is lost. All
//!   device bytes are counted. Flash bytes are counted if the drive reports them.
//! - `vssd:PROFILE`: the store is on a fresh ext4 on a virtual SSD in memory, which another
//!   process serves. All device and flash bytes are counted.
//! - `memory:SIZE`: the store is on a fresh ext4 on a drive in this machine's memory, without the
//!   model of an SSD. All device bytes are counted.
//!
//! All forms except `dir:PATH` need root.
//!
//! The [`DriveOptions`] of `vssd` and `memory` set the drive's speed and the options of its ext4.
//! For an engine that stores data on a device without a file system, the run creates no file
//! system, or only a small ext4 in a first partition. The form `dir` creates no such device.
//!
//! [`DeviceSpec::check`] rejects a device with data before anything is changed. A run removes what
//! it created when it ends, also after an error. [`remove_stale`] removes what killed runs left.
mod command;
mod drive;
mod drive_options;
mod file_system;
mod images;
mod scratch;
mod scratch_dir;

pub use drive_options::{DriveOptions, parse_rate};
pub use file_system::FileSystem;
pub use images::Images;
pub(crate) use scratch::divide;
pub use scratch_dir::remove_stale;

use crate::target::StoreMedium;
use anyhow::{Context, Result, bail};
use drive::{Drive, DriveSpec};
use nix::{fcntl::OFlag, sys::stat};
use scratch::Scratch;
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{self, Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::Arc,
};
use terrace::parse_size;

/// A device requested by `--device`.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceSpec {
    /// `dir:PATH`.
    Dir(PathBuf),
    /// `loop:SIZE` (in bytes), `loop:SIZE:nojournal`, or `loop:SIZE:xfs`.
    Loop(u64, FileSystem),
    /// `block:/dev/X`.
    Block(PathBuf),
    /// `vssd:PROFILE`, `vssd:PROFILE:steady` for an SSD in steady state, or `memory:SIZE`. The
    /// [`DriveOptions`] follow.
    Drive(DriveSpec),
}

/// A device that is ready for a store. It is removed on drop.
#[derive(Debug)]
pub struct Device {
    /// Directory for the store. It does not exist yet, or it is empty except for the link to a
    /// device.
    pub dir: PathBuf,
    /// The block device that contains the directory, if no other process writes to that device.
    pub node: Option<PathBuf>,
    scratch: Option<Scratch>,
    /// The served drive. It is dropped after the file system on it is unmounted.
    drive: Option<Drive>,
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceSpec, String> {
        match text.split_once(':') {
            Some((_, "")) => Err(format!("--device {text}: the argument after the colon is missing")),
            Some(("dir", path)) => Ok(DeviceSpec::Dir(path.into())),
            Some(("loop", size)) => {
                let named = |kind: FileSystem| Some((size.strip_suffix(kind.suffix())?, kind));
                let (size, kind) = named(FileSystem::Xfs)
                    .or_else(|| named(FileSystem::Ext4NoJournal))
                    .unwrap_or((size, FileSystem::Ext4));
                match (parse_size(size)?, kind.bytes_min()) {
                    (bytes, min) if bytes < min => {
                        Err(format!("--device {text}: the size must be at least {}MiB", min >> 20))
                    }
                    (bytes, _) => Ok(DeviceSpec::Loop(bytes, kind)),
                }
            }
            Some(("block", path)) => Ok(DeviceSpec::Block(path.into())),
            Some(("vssd", drive)) => DriveSpec::ssd(drive).map(DeviceSpec::Drive),
            Some(("memory", drive)) => DriveSpec::memory(drive).map(DeviceSpec::Drive),
            _ => Err(format!(
                "--device {text}: unknown device; the forms are dir:PATH, loop:SIZE, memory:SIZE, block:/dev/X and vssd:PROFILE"
            )),
        }
    }
}

/// Returns the description of a temporary directory in `work`, in the form of
/// [`DeviceSpec::identity`]. The bytes that its device receives are not counted.
pub fn temporary(work: &Path) -> Result<String> {
    let work = path::absolute(work).with_context(|| work.display().to_string())?;
    Ok(format!("a temporary directory in {}", work.display()))
}

impl DeviceSpec {
    /// Checks that the device exists and is available, and that a run would not destroy data on it.
    /// With `destroy_data`, the device may contain data. The check changes nothing.
    ///
    /// # Errors
    /// The text names the device and the remedy. A device that is mounted or has another exclusive
    /// user is always an error.
    pub fn check(&self, destroy_data: bool) -> Result<()> {
        match self {
            DeviceSpec::Dir(path) => check_dir(path, destroy_data),
            DeviceSpec::Loop(..) => check_root("loop:SIZE"),
            DeviceSpec::Block(path) => check_block(path, destroy_data),
            DeviceSpec::Drive(drive) => check_root(drive.form()).and_then(|()| drive.check()),
        }
    }

    /// Returns a complete description of the device, exact to the byte. `work` is the directory in
    /// which backing files of devices are created. Figures of devices with different identities
    /// must not be mixed.
    ///
    /// # Errors
    /// A profile of a virtual SSD cannot be read.
    pub fn identity(&self, work: &Path) -> Result<String> {
        let whole = |path: &Path| path::absolute(path).with_context(|| path.display().to_string());
        Ok(match self {
            DeviceSpec::Dir(path) => format!("dir:{}", whole(path)?.display()),
            DeviceSpec::Loop(bytes, kind) => format!("loop:{bytes}{} in {}", kind.suffix(), whole(work)?.display()),
            DeviceSpec::Block(path) => format!("block:{}", whole(path)?.display()),
            DeviceSpec::Drive(drive) => drive.identity()?,
        })
    }

    /// Checks the device again, then creates it for an engine whose stores need the medium `below`.
    /// The backing file and the mount point of a loop device are below `work`. If the pool `images`
    /// has a backing file, the function takes it from there, and the file returns there after use.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), and the failure of a step. After a failure, the parts
    /// that were already created are removed.
    pub fn prepare(
        &self,
        work: &Path,
        below: StoreMedium,
        destroy_data: bool,
        images: Option<&Arc<Images>>,
    ) -> Result<Device> {
        self.check(destroy_data)?;
        let mut drive = None;
        let scratch = match self {
            DeviceSpec::Dir(path) => {
                fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
                let node = node_mounted_at(path);
                return Ok(Device { dir: path.join("store"), node, scratch: None, drive: None });
            }
            DeviceSpec::Loop(bytes, kind) => Scratch::on_loop(work, *bytes, *kind, below, images)?,
            DeviceSpec::Block(path) => Scratch::on_block(work, path, below)?,
            DeviceSpec::Drive(spec) => {
                let node = drive.insert(spec.serve(work)?).node();
                Scratch::on_drive(work, node, spec, below)?
            }
        };
        let (dir, node) = (scratch.mount_point().join("store"), Some(scratch.node()));
        Ok(Device { dir, node, scratch: Some(scratch), drive })
    }
}

impl Device {
    /// Removes the store and everything that was created for its device.
    ///
    /// # Errors
    /// A part is still in use. [`remove_stale`] can remove that part after this process has ended.
    pub fn remove(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", self.dir.display()));
            }
            _ => {}
        }
        self.scratch.take().map_or(Ok(()), Scratch::remove)?;
        drop(self.drive.take());
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("not removed: {error:#}");
        }
    }
}

fn check_dir(path: &Path, destroy_data: bool) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("dir:{}", path.display()))?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name != "lost+found" && !destroy_data {
            let (path, name) = (path.display(), name.display());
            bail!("dir:{path} is not empty (it contains {name}); --destroy-data lets its `store` be overwritten");
        }
    }
    Ok(())
}

fn check_block(path: &Path, destroy_data: bool) -> Result<()> {
    check_root("block:/dev/X")?;
    let name = path.display();
    let metadata = fs::metadata(path).with_context(|| format!("block:{name}"))?;
    if !metadata.file_type().is_block_device() {
        bail!("block:{name} is not a block device");
    }
    // An exclusive open of a block device fails while another exclusive user has it. Such a user is
    // a mount, swap, or a device that is built on this device or on its partitions.
    let exclusive = fs::OpenOptions::new().read(true).custom_flags(OFlag::O_EXCL.bits()).open(path);
    exclusive.with_context(|| match fs::File::open(path) {
        Ok(_) => format!("block:{name} is mounted or in use"),
        Err(_) => format!("block:{name} cannot be opened"),
    })?;
    let probe = Command::new("blkid").args(["-p", "-o", "export"]).arg(path).output().context("run blkid")?;
    let found = String::from_utf8_lossy(&probe.stdout);
    let is_empty = probe.status.code() == Some(2) && found.trim().is_empty();
    if !is_empty && !destroy_data {
        let kinds: Vec<&str> = found.lines().filter_map(|line| Some(line.split_once("TYPE=")?.1)).collect();
        bail!("block:{name} holds data ({}); --destroy-data overwrites it", kinds.join(", "));
    }
    if !destroy_data && !scratch::begins_with_zeros(path).with_context(|| format!("read block:{name}"))? {
        bail!("block:{name} holds data in an unknown format; --destroy-data overwrites it");
    }
    Ok(())
}

fn check_root(device: &str) -> Result<()> {
    // The owner of `/proc/self` is the user of this process.
    let owner = fs::metadata("/proc/self").context("/proc is not mounted")?.uid();
    if owner != 0 {
        bail!("{device} needs root, to mount a file system; dir:PATH does not");
    }
    Ok(())
}

/// Returns the block device of the file system whose mount point is exactly `path`.
fn node_mounted_at(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let device = fs::metadata(&path).ok()?.dev();
    if path.parent().is_some_and(|parent| fs::metadata(parent).is_ok_and(|parent| parent.dev() == device)) {
        return None;
    }
    let link = format!("/sys/dev/block/{}:{}", stat::major(device), stat::minor(device));
    let name = fs::canonicalize(link).ok()?.file_name()?.to_owned();
    Some(Path::new("/dev").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_device_covers_its_contents() {
        let directory = tempfile::tempdir().expect("a directory");
        let at =
            |text: &str, work: &str| text.parse::<DeviceSpec>().expect(text).identity(Path::new(work)).expect(text);
        assert_eq!(at("loop:1GiB", "/a"), at("loop:1024MiB", "/a"));
        assert_ne!(at("loop:1GiB", "/a"), at("loop:1GiB", "/b"));
        assert_ne!(at("memory:1GiB:rate=1000000", "/a"), at("memory:1GiB:rate=1000001", "/a"));
        assert_ne!(at("dir:/a", "/a"), temporary(Path::new("/a")).expect("it is absolute"));
        assert_eq!(at("dir:x", "/a"), at(&format!("dir:{}/x", std::env::current_dir().expect("one").display()), "/b"));

        let file = directory.path().join("mine.json");
        let drive = format!("vssd:{}:steady", file.display());
        let mut profile = terrace_device::ssd::Profile::named("ssd-s").expect("it is ours");
        let mut with = |spare: f64| {
            profile.over_provisioning = spare;
            fs::write(&file, serde_json::to_string(&profile).expect("JSON")).expect("it is written");
            at(&drive, "/a")
        };
        assert_eq!(with(0.1), with(0.1));
        assert_ne!(with(0.1), with(0.2));
        fs::remove_file(&file).expect("it was there");
        let gone = drive.parse::<DeviceSpec>().expect("it is only parsed").identity(Path::new("/a"));
        assert!(gone.expect_err("no such file").to_string().contains("neither a file"));
    }

    #[test]
    fn devices_are_parsed_and_unknown_ones_are_refused_with_a_list() {
        assert_eq!("dir:/a:b".parse(), Ok(DeviceSpec::Dir("/a:b".into())));
        assert_eq!("loop:16GiB".parse(), Ok(DeviceSpec::Loop(16 << 30, FileSystem::Ext4)));
        assert_eq!("block:/dev/x".parse(), Ok(DeviceSpec::Block("/dev/x".into())));
        assert_eq!("loop:1GiB:xfs".parse(), Ok(DeviceSpec::Loop(1 << 30, FileSystem::Xfs)));
        assert_eq!("loop:1GiB:nojournal".parse(), Ok(DeviceSpec::Loop(1 << 30, FileSystem::Ext4NoJournal)));
        assert!("loop:64MiB:xfs".parse::<DeviceSpec>().expect_err("small").contains("300MiB"));
        assert!("loop:1MiB".parse::<DeviceSpec>().expect_err("small").contains("16MiB"));
        for bad in ["disk:/dev/x", "loop", "/tmp", "dir:", ""] {
            assert!(bad.parse::<DeviceSpec>().is_err(), "{bad}");
        }
        assert!("disk:x".parse::<DeviceSpec>().expect_err("unknown").contains("loop:SIZE"));
    }

    #[test]
    fn a_directory_with_data_is_refused_and_its_store_is_removed_with_the_device() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = DeviceSpec::Dir(dir.path().to_owned());
        let device = spec.prepare(dir.path(), StoreMedium::FileSystem, false, None).expect("it is empty");
        fs::create_dir(&device.dir).expect("made");
        assert_eq!(device.node, None, "others write to this file system");
        let refused = spec.check(false).expect_err("it holds a store");
        assert!(refused.to_string().contains("store"), "{refused}");
        spec.check(true).expect("permitted");
        device.remove().expect("removed");
        spec.check(false).expect("it is empty again");
    }

    #[test]
    fn a_drive_in_memory_has_a_size_and_options() {
        let drive = |text: &str| text.parse::<DeviceSpec>();
        assert_eq!(drive("memory:1GiB:discard:flush=5000"), drive("memory:1073741824:discard:flush=5000"));
        assert_ne!(drive("memory:1GiB:flush=5000"), drive("memory:1GiB"));
        for (bad, why) in
            [("memory:1MiB", "16MiB"), ("memory:1GiB:steady", "steady"), ("memory:1GiB:flush=x", "flush=x")]
        {
            assert!(drive(bad).expect_err(bad).contains(why), "{bad}");
        }
    }

    #[test]
    fn a_virtual_ssd_needs_a_valid_profile() {
        let check = |text: &str| DriveSpec::ssd(text).expect("any text").check();
        check("ssd-s:steady").expect("it is known");
        assert!(check("ssd-x").expect_err("unknown").to_string().contains("ssd-x"));
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "streams = 0").expect("written");
        let refused = format!("{:#}", check(file.path().to_str().expect("text")).expect_err("no streams"));
        assert!(refused.contains("streams: 0"), "{refused}");
    }
}
