//! A file system that is created for one cell (one engine in one round) and removed after it.
use super::{
    command::run,
    drive::DriveSpec,
    file_system::FileSystem,
    images::{self, Images},
    scratch_dir::{loops_on, new_dir, remove_files, unmount_and_detach},
};
use crate::target::{BARE, StoreMedium};
use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

/// Number of bytes at the start of a device that are checked to determine whether the device is
/// empty. Every supported device is larger.
const START_BYTES: u64 = 1 << 20;

/// Size in bytes of the first partition, for a device that is divided into a file system and a
/// part without one.
const META_BYTES: u64 = 64 << 20;

/// A file system that no other process uses, or a device without a file system. Dropping this
/// value removes it.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    node: PathBuf,
    /// Whether `node` is a real block device. The file system on such a device is erased after use.
    is_block: bool,
    /// The pool to which the image (the file of a loop device) returns after use.
    images: Option<Arc<Images>>,
}

impl Scratch {
    /// Creates a file system on an image, which is a backing file of `bytes` bytes below `work`.
    /// The image is taken from the pool `images` and returned there afterwards, or it is a new
    /// sparse file. If an engine needs a device without a file system, the image is always a new
    /// file, because the engine would find old contents in a used one.
    pub fn on_loop(
        work: &Path,
        bytes: u64,
        kind: FileSystem,
        below: StoreMedium,
        images: Option<&Arc<Images>>,
    ) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        let image = scratch.dir.join("image");
        scratch.images = images.filter(|_| below == StoreMedium::FileSystem).cloned();
        match &scratch.images {
            Some(images) => images.take(&image, bytes)?,
            None => images::make(&image, bytes)?,
        }
        scratch.node = attach(&image)?;
        scratch.prepare_medium(below, kind, kind.mount_options())?;
        Ok(scratch)
    }

    /// Creates a file system on the block device `node`. The previous content of the device is
    /// lost. The caller has checked that this is permitted.
    pub fn on_block(work: &Path, node: &Path, below: StoreMedium) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        scratch.is_block = true;
        let _ = run(Command::new("blkdiscard").arg(node)); // optional: a drive may not support it
        scratch.prepare_medium(below, FileSystem::Ext4, "data=ordered")?;
        Ok(scratch)
    }

    /// Creates a file system on the emulated drive `node`. If the drive's option `discards` is set,
    /// the file system discards deleted blocks. Otherwise it discards nothing.
    pub fn on_drive(work: &Path, node: &Path, spec: &DriveSpec, below: StoreMedium) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        let kind = if spec.drive_options.no_journal { FileSystem::Ext4NoJournal } else { FileSystem::Ext4 };
        let discard = if spec.drive_options.discards { "discard" } else { "nodiscard" };
        let options = [kind.mount_options(), discard].into_iter().filter(|option| !option.is_empty());
        scratch.prepare_medium(below, kind, &options.collect::<Vec<_>>().join(","))?;
        Ok(scratch)
    }

    /// Prepares the device for the medium that the engine needs: a file system, no file system, or
    /// a small file system in a first partition. Previous contents of the device are not discarded,
    /// so a used drive remains used.
    fn prepare_medium(&self, below: StoreMedium, kind: FileSystem, options: &str) -> Result<()> {
        let node = self.node.clone();
        if below == StoreMedium::FileSystem {
            return self.make_file_system(kind, &node, options);
        }
        let mut bare = node;
        if below == StoreMedium::Both {
            let [meta, data] = divide(&self.node, META_BYTES)?;
            let small = if kind == FileSystem::Xfs { FileSystem::Ext4 } else { kind };
            self.make_file_system(small, &meta, options)?;
            bare = data;
        }
        let store = self.mount_point().join("store");
        fs::create_dir(&store).with_context(|| format!("make {}", store.display()))?;
        symlink(&bare, store.join(BARE)).with_context(|| format!("link to {}", bare.display()))
    }

    /// Returns the mount point.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Returns the block device node.
    pub fn node(&self) -> PathBuf {
        self.node.clone()
    }

    /// Unmounts the file system and removes everything that was created.
    pub fn remove(mut self) -> Result<()> {
        self.clear()
    }

    fn new(work: &Path) -> Result<Scratch> {
        let dir = new_dir(work)?;
        fs::create_dir(dir.join("mnt"))?;
        Ok(Scratch { dir, node: PathBuf::new(), is_block: false, images: None })
    }

    /// Creates and mounts a file system. mkfs initialises the whole file system immediately.
    /// Otherwise the kernel would initialise parts of it in the background during the measurement.
    fn make_file_system(&self, kind: FileSystem, node: &Path, options: &str) -> Result<()> {
        run(kind.make().arg(node))?;
        let mounted = mount(
            Some(node),
            &self.mount_point(),
            Some(kind.maker()),
            MsFlags::MS_NODEV | MsFlags::MS_NOSUID,
            Some(options),
        );
        mounted.with_context(|| format!("mount {}", node.display()))?;
        nix::unistd::syncfs(File::open(self.mount_point())?).context("sync the new file system")
    }

    fn clear(&mut self) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        unmount_and_detach(&self.dir)?;
        let image = self.dir.join("image");
        if let (Some(images), Some(work)) = (self.images.take(), self.dir.parent().filter(|_| image.exists())) {
            images.keep(work, &image)?;
        }
        remove_files(&self.dir)?;
        if self.is_block {
            // The device may have no partitions, so an error is ignored.
            let _ = run(Command::new("partx").arg("-d").arg(&self.node));
            run(Command::new("wipefs").args(["-q", "-a"]).arg(&self.node))?;
            clear_start(&self.node).with_context(|| format!("clear {}", self.node.display()))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("not removed: {error:#}");
        }
    }
}

/// Returns whether the first bytes of `node` are zero. Data in a format that `blkid` does not
/// know, such as an encrypted volume or a database on the device, usually starts there.
pub fn begins_with_zeros(node: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(node)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start.iter().all(|&byte| byte == 0))
}

/// Overwrites the first bytes of `node` with zeros, so that the next run finds the device empty.
fn clear_start(node: &Path) -> io::Result<()> {
    let mut device = File::options().write(true).open(node)?;
    device.write_all(&vec![0; START_BYTES as usize])?;
    device.sync_all()
}

/// Divides a device into a first partition of `meta_bytes` and a second partition with the rest.
/// The function changes only the kernel's partition table in memory and writes nothing to the
/// device.
pub(crate) fn divide(node: &Path, meta_bytes: u64) -> Result<[PathBuf; 2]> {
    let meta_sectors = meta_bytes / 512;
    let sectors = run(Command::new("blockdev").arg("--getsz").arg(node))?;
    let sectors: u64 = sectors.trim().parse().with_context(|| format!("length of {}", node.display()))?;
    if sectors < 2 * meta_sectors {
        bail!(
            "{} is too small for a partition of {meta_bytes} bytes and at least as much space after it",
            node.display()
        );
    }
    let name = node.display().to_string();
    let parts = [(1, 0, meta_sectors), (2, meta_sectors, sectors - meta_sectors)];
    let infix = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    for (number, start, len) in parts {
        run(Command::new("addpart").arg(node).args([number, start, len].map(|number| number.to_string())))?;
    }
    Ok([1, 2].map(|number| format!("{name}{infix}{number}").into()))
}

/// Attaches `image` to a free loop device. `losetup` finds a free device and takes it in two
/// steps. Between the two steps, another process may take the same device, so the function makes
/// several attempts.
fn attach(image: &Path) -> Result<PathBuf> {
    let mut result = Ok(String::new());
    for attempt in 0..20 {
        result = run(Command::new("losetup").args(["--find", "--show", "--partscan"]).arg(image));
        if let Some(node) = loops_on(image)?.pop() {
            return Ok(node);
        }
        thread::sleep(Duration::from_millis(10 << attempt.min(4)));
    }
    result?;
    bail!("no loop device was given to {}", image.display())
}
