//! A file system that is created for one cell and removed after it.
//!
//! All its parts belong to one directory, whose name identifies the owning process:
//! ```text
//! WORK/terrace-lab-PID-START-N/
//!     image   backing file of the loop device (absent on a real device; alone: a kept image)
//!     mnt/    mount point of the file system
//! ```
//! The existing parts are determined from the kernel (mounts, backing files) and never remembered,
//! so [`remove_stale`] finds the leftovers of a run killed between any two steps.
use super::{
    drive::DriveSpec,
    drive_options::NO_JOURNAL,
    images::{self, Images},
};
use crate::{
    ledger::process,
    target::{BARE, StoreMedium},
};
use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde::Deserialize;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use terrace_device::loops;

const PREFIX: &str = "terrace-lab-";
/// Maximum time an unmount waits for open files.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);
/// Bytes at the start of a device that show whether it is empty; every supported device is larger.
const START_BYTES: u64 = 1 << 20;

/// Size of the file system on a divided device, in bytes.
const META_BYTES: u64 = 64 << 20;

/// Kind of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The default.
    #[default]
    Ext4,
    /// ext4 without a journal, to measure the cost of the journal. After a power cut it may not be
    /// mountable.
    #[serde(rename = "ext4-nojournal")]
    Ext4NoJournal,
    /// For comparison.
    Xfs,
}

impl FileSystem {
    /// Suffix of the `mkfs` command.
    fn maker(self) -> &'static str {
        if self == FileSystem::Xfs { "xfs" } else { "ext4" }
    }

    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4NoJournal => "ext4 without a journal",
            FileSystem::Xfs => "xfs",
        }
    }

    /// Suffix of a device name.
    pub fn suffix(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "",
            FileSystem::Ext4NoJournal => NO_JOURNAL,
            FileSystem::Xfs => ":xfs",
        }
    }

    fn mount_options(self) -> &'static str {
        if self == FileSystem::Ext4 { "data=ordered" } else { "" }
    }

    /// Minimum device size in bytes: for ext4, or for an XFS with the defaults of its tool.
    pub fn bytes_min(self) -> u64 {
        if self == FileSystem::Xfs { 300 << 20 } else { 16 << 20 }
    }

    fn make(self) -> Command {
        let mut make = Command::new(format!("mkfs.{}", self.maker()));
        match self {
            FileSystem::Xfs => make.args(["-q", "-f", "-K"]),
            _ => make.args(["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]),
        };
        make.args((self == FileSystem::Ext4NoJournal).then_some(["-O", "^has_journal"]).into_iter().flatten());
        make
    }
}

/// A file system that no other process uses, or a device without one; removed on drop.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    node: PathBuf,
    /// Whether `node` is a real device, on which no file system may remain.
    is_block: bool,
    /// The pool that takes the image back after use.
    images: Option<Arc<Images>>,
}

impl Scratch {
    /// Creates it on a file of `bytes` below `work`: a new sparse file, or one of `images`, which
    /// is returned there afterwards. Engines on a device without a file system get a new file,
    /// since they find its contents.
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

    /// Creates it on the block device `node`, whose content is lost. The caller has checked that
    /// this is permitted.
    pub fn on_block(work: &Path, node: &Path, below: StoreMedium) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        scratch.is_block = true;
        let _ = run(Command::new("blkdiscard").arg(node)); // optional: a drive may not support it
        scratch.prepare_medium(below, FileSystem::Ext4, "data=ordered")?;
        Ok(scratch)
    }

    /// Creates it on the drive `node`. With `discards`, deleted blocks are discarded; otherwise
    /// never.
    pub fn on_drive(work: &Path, node: &Path, spec: &DriveSpec, below: StoreMedium) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        let kind = if spec.drive_options.no_journal { FileSystem::Ext4NoJournal } else { FileSystem::Ext4 };
        let discard = if spec.drive_options.discards { "discard" } else { "nodiscard" };
        let options = [kind.mount_options(), discard].into_iter().filter(|option| !option.is_empty());
        scratch.prepare_medium(below, kind, &options.collect::<Vec<_>>().join(","))?;
        Ok(scratch)
    }

    /// Prepares the device for the engine: a file system, none, or a small one in a partition
    /// before the rest. Previous contents are not discarded, so a used drive remains a used one.
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

    /// Returns the block device.
    pub fn node(&self) -> PathBuf {
        self.node.clone()
    }

    /// Unmounts and removes it.
    pub fn remove(mut self) -> Result<()> {
        self.clear()
    }

    fn new(work: &Path) -> Result<Scratch> {
        let dir = new_dir(work)?;
        fs::create_dir(dir.join("mnt"))?;
        Ok(Scratch { dir, node: PathBuf::new(), is_block: false, images: None })
    }

    /// Initialises all of the file system now, so that the kernel has nothing to initialise in the
    /// background later.
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
            // there may be no partitions
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

/// Returns whether the first bytes of `node` are zero. Data in an unknown format (an encrypted
/// volume, a database of its own) usually starts there.
pub fn begins_with_zeros(node: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(node)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start.iter().all(|&byte| byte == 0))
}

/// Zeroes the first bytes of `node`, so that the next run finds it empty.
fn clear_start(node: &Path) -> io::Result<()> {
    let mut device = File::options().write(true).open(node)?;
    device.write_all(&vec![0; START_BYTES as usize])?;
    device.sync_all()
}

/// Removes leftovers of killed runs below `work`. Returns the failures.
pub fn remove_stale(work: &Path) -> Vec<String> {
    let Ok(work) = fs::canonicalize(work) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(work) else { return Vec::new() };
    let is_stale = |name: &str| {
        let identity = name.strip_prefix(PREFIX).and_then(|name| name.rsplit_once('-'));
        identity.is_some_and(|(identity, _)| !process::is_alive(identity))
    };
    let stale = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_stale));
    stale.filter_map(|entry| dismantle(&entry.path()).err()).map(|error| format!("{error:#}")).collect()
}

/// Divides a device into a partition of `meta_bytes` and the rest. Only the kernel's partition
/// table in memory changes.
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

/// Removes the links and the directory that [`Scratch::prepare_medium`] and an engine created
/// without a file system.
fn unlink(mount_point: &Path) -> Result<()> {
    let store = mount_point.join("store");
    for link in [store.join("store"), store.join(BARE)] {
        if fs::symlink_metadata(&link).is_ok_and(|found| found.is_symlink()) {
            fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
        }
    }
    match fs::remove_dir(&store) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", store.display()))
        }
        _ => Ok(()),
    }
}

/// Creates a directory of this process below `work`.
pub(super) fn new_dir(work: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(work).with_context(|| format!("make {}", work.display()))?;
    let work = fs::canonicalize(work)?;
    let me = process::identity(std::process::id()).context("/proc is not mounted")?;
    let dir = work.join(format!("{PREFIX}{me}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
    Ok(dir)
}

/// Unmounts the file system of `dir` and detaches its image.
fn unmount_and_detach(dir: &Path) -> Result<()> {
    let mount_point = dir.join("mnt");
    while is_mounted(&mount_point)? {
        unmount(&mount_point)?;
    }
    unlink(&mount_point)?;
    for node in loops_on(&dir.join("image"))? {
        run(Command::new("losetup").arg("-d").arg(&node))?;
    }
    Ok(())
}

/// Removes everything that belongs to `dir`, innermost first. Removes only the parts that
/// [`Scratch`] and [`Images`] create, never a whole tree.
pub(super) fn dismantle(dir: &Path) -> Result<()> {
    unmount_and_detach(dir)?;
    remove_files(dir)
}

/// Removes `dir` after it was unmounted and detached.
fn remove_files(dir: &Path) -> Result<()> {
    let (mount_point, image) = (dir.join("mnt"), dir.join("image"));
    if image.exists() {
        fs::remove_file(&image).with_context(|| format!("remove {}", image.display()))?;
    }
    if mount_point.exists() {
        fs::remove_dir(&mount_point).with_context(|| format!("remove {}", mount_point.display()))?;
    }
    fs::remove_dir(dir).with_context(|| format!("remove {}", dir.display()))
}

fn unmount(mount_point: &Path) -> Result<()> {
    let start = Instant::now();
    while let Err(error) = umount2(mount_point, MntFlags::empty()) {
        if start.elapsed() > UNMOUNT_WAIT {
            return Err(error).with_context(|| format!("unmount {}", mount_point.display()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Returns whether `mount_point` is a mount point. The kernel's list escapes a space as `\040`, so
/// the path is compared in that form.
fn is_mounted(mount_point: &Path) -> Result<bool> {
    let text = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let sought = mount_point.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    Ok(text.lines().filter_map(|line| line.split(' ').nth(1)).any(|found| found == sought))
}

/// Attaches `image` to a free loop device. `losetup` finds and takes one in two steps, so another
/// process may take it first.
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

/// Returns the loop devices backed by `image`.
fn loops_on(image: &Path) -> Result<Vec<PathBuf>> {
    loops::over_files(|file| file == image).context("/sys/block")
}

/// Runs a command. Returns its output, or an error with its error output.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
