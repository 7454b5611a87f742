//! The storage medium of a store in a crash test. There are three kinds: a file system on the
//! device, the device itself, or both. In the third case a first partition has a small file
//! system, and the rest of the device has none.
use super::{guest, store_location::StoreLocation};
use crate::{
    device::divide,
    target::{BARE, Engine, Settings, StoreMedium},
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

/// Mount point under which every worker process finds its device. A store that uses both a file
/// system and a device records the path of the device, so this path must be the same for all
/// workers. Each worker has its own mount namespace.
const STABLE: &str = "/mnt";
/// Directory of the store on a file system.
const STORE: &str = "store";
/// Size in bytes of the first partition, for a device that is divided into a file system and a
/// part without one. An ext4 with a journal needs at least 16 MiB.
const META_BYTES: u64 = 32 << 20;

/// The medium of a store. It stays mounted until it is dropped.
pub enum MountedMedium {
    /// A file system.
    Files(Mounted),
    /// A device without a file system.
    Bare(Device),
    /// A file system for one part of the store, and a device with a name below [`STABLE`] for the
    /// other part.
    Both {
        /// The file system with the store's directory. This part of the store names the device.
        meta: Mounted,
        /// The device, with a path that is the same for all workers.
        data: StableName,
    },
}

impl MountedMedium {
    /// Formats the medium for the engine's stores; its previous contents are lost.
    pub fn make(place: &StoreLocation, engine: &dyn Engine, settings: &Settings) -> Result<()> {
        let device = Device::at(&place.image)?;
        let node = device.node.clone();
        match engine.below() {
            // The guest (an emulated machine) has no tools; its host has created the file system.
            StoreMedium::FileSystem if guest::is_guest_init() => Ok(()),
            StoreMedium::FileSystem => make_file_system(&node),
            StoreMedium::Device => {
                let links = TmpFs::at(&place.mount_point)?;
                symlink(&node, links.point.join(BARE)).context("link to the device")?;
                engine.clear(&links.point.join(STORE), settings)
            }
            StoreMedium::Both => {
                let [meta, data] = divide(&node, META_BYTES)?;
                make_file_system(&meta)?;
                let meta = Mounted::new(device, &meta, place).map_err(anyhow::Error::msg)?;
                let data = StableName::new(&data, &place.image)?;
                symlink(&data.path, meta.point.join(BARE)).context("link to the device")?;
                engine.clear(&meta.point.join(STORE), settings)?;
                meta.unmount()
            }
        }
    }

    /// Mounts the file system of the medium, if it has one. If the mount fails, the inner result is
    /// an error text that begins with a word in capitals.
    pub fn enter(place: &StoreLocation, below: StoreMedium) -> Result<Result<MountedMedium, String>> {
        let device = Device::at(&place.image)?;
        let node = device.node.clone();
        Ok(match below {
            StoreMedium::FileSystem => Mounted::new(device, &node, place).map(MountedMedium::Files),
            StoreMedium::Device => Ok(MountedMedium::Bare(device)),
            StoreMedium::Both => {
                let [meta, data] = divide(&node, META_BYTES)?;
                let data = StableName::new(&data, &place.image)?;
                Mounted::new(device, &meta, place).map(|meta| MountedMedium::Both { meta, data })
            }
        })
    }

    /// Returns the path of the store.
    pub fn store(&self) -> PathBuf {
        match self {
            MountedMedium::Files(mounted) | MountedMedium::Both { meta: mounted, .. } => mounted.point.join(STORE),
            MountedMedium::Bare(device) => device.node.clone(),
        }
    }

    /// Checks that the kernel has found no error in the file system.
    pub fn sound(&self) -> Result<(), String> {
        match self {
            MountedMedium::Files(mounted) | MountedMedium::Both { meta: mounted, .. } => mounted.sound(),
            MountedMedium::Bare(_) => Ok(()),
        }
    }

    /// Unmounts the medium. If `checks_all`, also checks all slots and the unmounted file system
    /// completely. The store must be closed. If a check fails, the inner result is the error text.
    pub fn leave(self, checks_all: bool) -> Result<Result<(), String>> {
        let checks = |mounted: &Mounted| match checks_all && !guest::is_guest_init() {
            true => check_file_system(&mounted.node),
            false => Ok(Ok(())),
        };
        let slots = |node: &Path| if checks_all { check_slots(node) } else { Ok(()) };
        match &self {
            MountedMedium::Files(mounted) => mounted.unmount().and_then(|()| checks(mounted)),
            MountedMedium::Bare(device) => Ok(slots(&device.node)),
            MountedMedium::Both { meta, data } => {
                if let Err(found) = slots(&data.path) {
                    return Ok(Err(found));
                }
                meta.unmount().and_then(|()| checks(meta))
            }
        }
    }
}

/// A tmpfs, unmounted on drop.
struct TmpFs {
    point: PathBuf,
}

impl TmpFs {
    fn at(point: &Path) -> Result<TmpFs> {
        let done = mount(Some("none"), point, Some("tmpfs"), MsFlags::empty(), None::<&str>);
        done.with_context(|| format!("mount a file system in memory at {}", point.display()))?;
        Ok(TmpFs { point: point.into() })
    }
}

impl Drop for TmpFs {
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH);
    }
}

/// A device that is mounted below the path [`STABLE`], so that its path is the same for all worker
/// processes.
pub struct StableName {
    path: PathBuf,
    _around: TmpFs,
}

impl StableName {
    /// Mounts the device `node` below [`STABLE`]. Returns an error if the mount would hide `image`.
    fn new(node: &Path, image: &Path) -> Result<StableName> {
        if image.starts_with(STABLE) {
            bail!("{}: {STABLE} is needed as a mount point; choose another directory with --work DIR", image.display());
        }
        let (around, path) = (TmpFs::at(Path::new(STABLE))?, Path::new(STABLE).join(BARE));
        File::create(&path).with_context(|| format!("make {}", path.display()))?;
        mount(Some(node), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .with_context(|| format!("give {} the name {}", node.display(), path.display()))?;
        Ok(StableName { path, _around: around })
    }
}

impl Drop for StableName {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

/// Checks the slots (the allocation units) of the device at `node`. No slot may be lost or have
/// two owners, and the files must match the slot journal.
fn check_slots(node: &Path) -> Result<(), String> {
    let device =
        raw::open(node, OpenMode::ReadOnly, &StorageConfig::default()).map_err(|error| format!("SLOTS: {error}"))?;
    match device.problems() {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(format!("SLOTS: {}", found.join("; "))),
        Err(error) => Err(format!("SLOTS: {error}")),
    }
}

/// A block device. If it is the loop device of a file, dropping it detaches the loop device.
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
    /// Mounts the file system on `node`, which is the device or a partition of it.
    fn new(device: Device, node: &Path, place: &StoreLocation) -> Result<Mounted, String> {
        let options = Some(place.options.as_str());
        mount(Some(node), &place.mount_point, Some("ext4"), MsFlags::MS_NOATIME, options)
            .map_err(|errno| format!("MOUNT: cannot mount ext4 on the device: {errno}"))?;
        Ok(Mounted { point: place.mount_point.clone(), node: node.into(), _device: device })
    }

    /// Checks that the kernel has found no error in the file system.
    fn sound(&self) -> Result<(), String> {
        let name = self.node.file_name().unwrap_or_default().display();
        let errors = fs::read_to_string(format!("/sys/fs/ext4/{name}/errors_count"));
        match errors.as_deref().map(str::trim) {
            Ok("0") => Ok(()),
            Ok(count) => Err(format!("EXT4: the kernel found {count} errors in the file system")),
            Err(error) => Err(format!("EXT4: the error count cannot be read: {error}")),
        }
    }

    fn unmount(&self) -> Result<()> {
        umount2(&self.point, MntFlags::empty()).with_context(|| format!("unmount {}", self.point.display()))
    }
}

impl Drop for Mounted {
    /// Unmounts the file system. Even after an error the mount point must become free, because the
    /// next crash state is mounted there.
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH);
    }
}

/// Creates an ext4 file system. mkfs initialises the whole file system immediately. Otherwise the
/// kernel would initialise parts of it in the background later.
pub(super) fn make_file_system(device: &Path) -> Result<()> {
    let mkfs = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let made = Command::new("mkfs.ext4").args(mkfs).arg(device).output().context("run mkfs.ext4")?;
    if !made.status.success() {
        bail!("mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(())
}

/// Checks an unmounted file system with e2fsck, which recounts links, inodes and blocks. The
/// kernel does not recount them when it mounts the file system.
fn check_file_system(device: &Path) -> Result<Result<(), String>> {
    let run = Command::new("e2fsck").args(["-f", "-n"]).arg(device).output().context("run e2fsck")?;
    let said = String::from_utf8_lossy(&run.stdout);
    Ok(if run.status.success() { Ok(()) } else { Err(format!("FSCK: {}: {}", run.status, said.trim())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_peers::require;

    /// Tests that a wrong link count is found. The test damages metadata with `debugfs`. The kernel
    /// does not check this metadata at a mount, so only e2fsck finds the damage.
    #[test]
    fn a_wrong_link_count_is_found() {
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
    fn wrong_slots_of_a_device_are_found() {
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
