//! What a store stands on, and a power cut is judged on: a file system on the device, the device itself, or a small file system and
//! the rest of the device.
use super::{guest, worker::Place};
use crate::{
    device::divide,
    target::{BARE, Below, Engine, Settings},
};
use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs::{self, File},
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use terrace_device::serve::{self, Loop};
use terrace_storage::{StorageConfig, backends::raw, placement::OpenMode};

/// Half a store remembers where the other half is, which must be the same for all workers: this is a place of each one's own.
const STABLE: &str = "/mnt";
/// The store, where it has a folder around it.
const STORE: &str = "store";
/// Of a device for both, as much is for the file system: ext4 wants 16 MiB for one with a journal.
const META_BYTES: u64 = 32 << 20;

/// What a store stands on, entered until it is dropped.
pub enum Ground {
    /// A file system.
    Files(Mounted),
    /// A device.
    Bare(Device),
    /// A file system, and a device at [`STABLE`].
    Both {
        /// With the half that names the other one.
        meta: Mounted,
        /// That other one's name.
        data: Stable,
    },
}

impl Ground {
    /// Makes what the engine's stores stand on; what was there is lost.
    pub fn make(place: &Place, engine: &dyn Engine, settings: &Settings) -> Result<()> {
        let device = Device::at(&place.image)?;
        let node = device.node.clone();
        match engine.below() {
            // There are no tools in a machine: who started it has made one.
            Below::FileSystem if guest::is_one() => Ok(()),
            Below::FileSystem => make_file_system(&node),
            Below::Device => {
                let links = Memory::at(&place.mount_point)?;
                symlink(&node, links.point.join(BARE)).context("link to the device")?;
                engine.clear(&links.point.join(STORE), settings)
            }
            Below::Both => {
                let [meta, data] = divide(&node, META_BYTES)?;
                make_file_system(&meta)?;
                let meta = Mounted::new(device, &meta, place).map_err(anyhow::Error::msg)?;
                let data = Stable::new(&data, &place.image)?;
                symlink(&data.path, meta.point.join(BARE)).context("link to the device")?;
                engine.clear(&meta.point.join(STORE), settings)?;
                meta.unmount()
            }
        }
    }

    /// Mounts what is a file system. What is wrong with it is a result, with a word in capitals.
    pub fn enter(place: &Place, below: Below) -> Result<Result<Ground, String>> {
        let device = Device::at(&place.image)?;
        let node = device.node.clone();
        Ok(match below {
            Below::FileSystem => Mounted::new(device, &node, place).map(Ground::Files),
            Below::Device => Ok(Ground::Bare(device)),
            Below::Both => {
                let [meta, data] = divide(&node, META_BYTES)?;
                let data = Stable::new(&data, &place.image)?;
                Mounted::new(device, &meta, place).map(|meta| Ground::Both { meta, data })
            }
        })
    }

    /// The store's path.
    pub fn store(&self) -> PathBuf {
        match self {
            Ground::Files(mounted) | Ground::Both { meta: mounted, .. } => mounted.point.join(STORE),
            Ground::Bare(device) => device.node.clone(),
        }
    }

    /// Whether the file system has found nothing wrong with itself.
    pub fn sound(&self) -> Result<(), String> {
        match self {
            Ground::Files(mounted) | Ground::Both { meta: mounted, .. } => mounted.sound(),
            Ground::Bare(_) => Ok(()),
        }
    }

    /// Unmounts it, and with `looks` checks it as a whole, the store being closed: what is wrong is a result.
    pub fn leave(self, looks: bool) -> Result<Result<(), String>> {
        let checks = |mounted: &Mounted| match looks && !guest::is_one() {
            true => check_file_system(&mounted.node),
            false => Ok(Ok(())),
        };
        let slots = |node: &Path| if looks { check_slots(node) } else { Ok(()) };
        match &self {
            Ground::Files(mounted) => mounted.unmount().and_then(|()| checks(mounted)),
            Ground::Bare(device) => Ok(slots(&device.node)),
            Ground::Both { meta, data } => {
                if let Err(found) = slots(&data.path) {
                    return Ok(Err(found));
                }
                meta.unmount().and_then(|()| checks(meta))
            }
        }
    }
}

/// A file system in memory, unmounted when dropped.
struct Memory {
    point: PathBuf,
}

impl Memory {
    fn at(point: &Path) -> Result<Memory> {
        let done = mount(Some("none"), point, Some("tmpfs"), MsFlags::empty(), None::<&str>);
        done.with_context(|| format!("mount a file system in memory at {}", point.display()))?;
        Ok(Memory { point: point.into() })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH);
    }
}

/// A device under a name that is the same for all workers: see [`STABLE`].
pub struct Stable {
    path: PathBuf,
    _around: Memory,
}

impl Stable {
    /// Another name of `node`, where that hides nothing of `image`.
    fn new(node: &Path, image: &Path) -> Result<Stable> {
        if image.starts_with(STABLE) {
            bail!("{}: {STABLE} is wanted for something else; --work DIR names another place", image.display());
        }
        let (around, path) = (Memory::at(Path::new(STABLE))?, Path::new(STABLE).join(BARE));
        File::create(&path).with_context(|| format!("make {}", path.display()))?;
        mount(Some(node), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .with_context(|| format!("give {} the name {}", node.display(), path.display()))?;
        Ok(Stable { path, _around: around })
    }
}

impl Drop for Stable {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

/// Whether no slot of the device at `node` is lost or has two owners, and its files are what its journal says.
fn check_slots(node: &Path) -> Result<(), String> {
    let device =
        raw::open(node, OpenMode::ReadOnly, &StorageConfig::default()).map_err(|error| format!("SLOTS: {error}"))?;
    match device.problems() {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(format!("SLOTS: {}", found.join("; "))),
        Err(error) => Err(format!("SLOTS: {error}")),
    }
}

/// A block device; if it is the loop device of a file, that goes with it.
pub struct Device {
    node: PathBuf,
    _loop: Option<Loop>,
}

impl Device {
    fn at(image: &Path) -> Result<Device> {
        let kind = fs::metadata(image).with_context(|| format!("look at {}", image.display()))?.file_type();
        if kind.is_block_device() {
            return Ok(Device { node: image.into(), _loop: None });
        }
        let attached = serve::attach(image, true)?;
        Ok(Device { node: attached.node.clone(), _loop: Some(attached) })
    }
}

/// A mounted file system.
pub struct Mounted {
    point: PathBuf,
    node: PathBuf,
    _device: Device,
}

impl Mounted {
    /// Mounts `node`, the device or a part of it.
    fn new(device: Device, node: &Path, place: &Place) -> Result<Mounted, String> {
        let options = Some(place.options.as_str());
        mount(Some(node), &place.mount_point, Some("ext4"), MsFlags::MS_NOATIME, options)
            .map_err(|errno| format!("MOUNT: ext4 on the device is refused: {errno}"))?;
        Ok(Mounted { point: place.mount_point.clone(), node: node.into(), _device: device })
    }

    /// Whether the file system has found nothing wrong with itself.
    fn sound(&self) -> Result<(), String> {
        let name = self.node.file_name().unwrap_or_default().display();
        let errors = fs::read_to_string(format!("/sys/fs/ext4/{name}/errors_count"));
        match errors.as_deref().map(str::trim) {
            Ok("0") => Ok(()),
            Ok(count) => Err(format!("EXT4: the file system found {count} errors in itself")),
            Err(error) => Err(format!("EXT4: its count of errors cannot be read: {error}")),
        }
    }

    fn unmount(&self) -> Result<()> {
        umount2(&self.point, MntFlags::empty()).with_context(|| format!("unmount {}", self.point.display()))
    }
}

impl Drop for Mounted {
    /// After an error nothing may be left on the mount point: the next state is mounted there.
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH);
    }
}

/// Everything is initialised now, so that the kernel writes nothing of its own later.
pub(super) fn make_file_system(device: &Path) -> Result<()> {
    let mkfs = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let made = Command::new("mkfs.ext4").args(mkfs).arg(device).output().context("run mkfs.ext4")?;
    if !made.status.success() {
        bail!("mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(())
}

/// Whether e2fsck finds nothing wrong with what is not mounted. It counts links, inodes and blocks anew, as no mount does.
fn check_file_system(device: &Path) -> Result<Result<(), String>> {
    let run = Command::new("e2fsck").args(["-f", "-n"]).arg(device).output().context("run e2fsck")?;
    let said = String::from_utf8_lossy(&run.stdout);
    Ok(if run.status.success() { Ok(()) } else { Err(format!("FSCK: {}: {}", run.status, said.trim())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_peers::require;

    /// `debugfs` changes what nothing reads when it is mounted.
    #[test]
    fn a_link_that_nobody_has_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = require("mkfs", make_file_system(&image).map_err(|error| format!("{error:#}")));
        let Some(()) = made else { return };
        assert_eq!(check_file_system(&image).unwrap(), Ok(()));
        let change = ["-w", "-R", "set_inode_field <2> links_count 9"];
        let changed = Command::new("debugfs").args(change).arg(&image).output().unwrap();
        assert!(changed.status.success(), "{changed:?}");
        let found = check_file_system(&image).unwrap().expect_err("UNSEEN");
        assert!(found.starts_with("FSCK") && found.contains("ref count"), "{found}");
    }

    #[test]
    fn what_is_wrong_with_the_slots_of_a_device_is_found() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        assert!(check_slots(&image).expect_err("UNSEEN").starts_with("SLOTS: "), "there is no store");
        raw::prepare(&image, |bytes| Ok::<_, terrace_storage::Error>(raw::Sizes::of(bytes)), false).unwrap();
        assert_eq!(check_slots(&image), Ok(()));
        File::options().write(true).open(&image).unwrap().write_all_at(&[1; 64], 64 << 10).unwrap();
        let found = check_slots(&image).expect_err("UNSEEN");
        assert!(found.starts_with("SLOTS: ") && found.contains("superblock"), "{found}");
    }
}
