//! A file system that is made for one cell and removed after it.
//!
//! All of it hangs on one directory, whose name says whose it is:
//! ```text
//! WORK/terrace-lab-PID-START-N/image   what the loop device is backed by (absent on a real device; alone: one that is kept)
//!                              mnt/    where ext4 is mounted
//! ```
//! What exists of it is asked of the kernel (mounts, backing files), never remembered, so that a run that is killed
//! between any two steps leaves nothing that [`remove_stale`] does not find.
use super::{
    drive::DriveSpec,
    habits::NO_JOURNAL,
    images::{self, Images},
};
use crate::{
    ledger::process,
    target::{BARE, Below},
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
/// How long an unmount waits for those who still look at a file.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);
/// Bytes from the start of a device that tell whether it is empty; every device here has more.
const START_BYTES: u64 = 1 << 20;

/// Of a device for both, as much is for the file system.
const META_BYTES: u64 = 64 << 20;

/// Which file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The usual one.
    #[default]
    Ext4,
    /// The same without a journal: what that costs is the difference. A power cut may leave nothing that can be mounted.
    #[serde(rename = "ext4-nojournal")]
    Ext4NoJournal,
    /// Beside it.
    Xfs,
}

impl FileSystem {
    /// As `mkfs` calls it.
    fn maker(self) -> &'static str {
        if self == FileSystem::Xfs { "xfs" } else { "ext4" }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4NoJournal => "ext4 without a journal",
            FileSystem::Xfs => "xfs",
        }
    }

    /// Behind the name of a device.
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

    /// The smallest device for one: an ext4, an XFS as its tool makes one.
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

/// A file system that nobody else uses, or a device without one; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    node: PathBuf,
    /// Whether `node` is a real device, on which no file system shall remain.
    is_block: bool,
    /// Where the image goes that this one does not need any more.
    images: Option<Arc<Images>>,
}

impl Scratch {
    /// On a file of `bytes` below `work`: a new sparse one, or one of `images`, where it goes afterwards. Engines that find a device as it is
    /// have a new one.
    pub fn on_loop(
        work: &Path,
        bytes: u64,
        kind: FileSystem,
        below: Below,
        images: Option<&Arc<Images>>,
    ) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        let image = scratch.dir.join("image");
        scratch.images = images.filter(|_| below == Below::FileSystem).cloned();
        match &scratch.images {
            Some(images) => images.take(&image, bytes)?,
            None => images::make(&image, bytes)?,
        }
        scratch.node = attach(&image)?;
        scratch.lay(below, kind, kind.mount_options())?;
        Ok(scratch)
    }

    /// On the block device `node`, whose content is lost. The caller has asked whether it may be.
    pub fn on_block(work: &Path, node: &Path, below: Below) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        scratch.is_block = true;
        let _ = run(Command::new("blkdiscard").arg(node)); // a hint: a drive may not know it
        scratch.lay(below, FileSystem::Ext4, "data=ordered")?;
        Ok(scratch)
    }

    /// On the drive `node`. With `discards` it is told what is deleted; without, nobody can tell it.
    pub fn on_drive(work: &Path, node: &Path, spec: &DriveSpec, below: Below) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        let kind = if spec.habits.no_journal { FileSystem::Ext4NoJournal } else { FileSystem::Ext4 };
        let discard = if spec.habits.discards { "discard" } else { "nodiscard" };
        let options = [kind.mount_options(), discard].into_iter().filter(|option| !option.is_empty());
        scratch.lay(below, kind, &options.collect::<Vec<_>>().join(","))?;
        Ok(scratch)
    }

    /// Makes what the engine wants: a file system, none, or a small one in a partition before the rest. What the device holds is not discarded:
    /// a drive that has been in use stays one.
    fn lay(&self, below: Below, kind: FileSystem, options: &str) -> Result<()> {
        let node = self.node.clone();
        if below == Below::FileSystem {
            return self.make_file_system(kind, &node, options);
        }
        let mut bare = node;
        if below == Below::Both {
            let [meta, data] = divide(&self.node, META_BYTES)?;
            let small = if kind == FileSystem::Xfs { FileSystem::Ext4 } else { kind };
            self.make_file_system(small, &meta, options)?;
            bare = data;
        }
        let store = self.mount_point().join("store");
        fs::create_dir(&store).with_context(|| format!("make {}", store.display()))?;
        symlink(&bare, store.join(BARE)).with_context(|| format!("link to {}", bare.display()))
    }

    /// Where the file system is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// The block device.
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

    /// Everything is initialised now, so that the kernel writes nothing of its own later.
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
        let_go(&self.dir)?;
        let image = self.dir.join("image");
        if let (Some(images), Some(work)) = (self.images.take(), self.dir.parent().filter(|_| image.exists())) {
            images.keep(work, &image)?;
        }
        clear_away(&self.dir)?;
        if self.is_block {
            let _ = run(Command::new("partx").arg("-d").arg(&self.node)); // there may be none
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

/// Whether the device `node` begins with nothing. Who keeps data in no format that is known (an encrypted volume, a
/// database of its own) keeps some of it there.
pub fn begins_with_zeros(node: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(node)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start.iter().all(|&byte| byte == 0))
}

/// Makes the device `node` begin with nothing, so that the next run finds it empty.
fn clear_start(node: &Path) -> io::Result<()> {
    let mut device = File::options().write(true).open(node)?;
    device.write_all(&vec![0; START_BYTES as usize])?;
    device.sync_all()
}

/// Removes what killed runs left below `work`; tells what could not be removed.
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

/// Divides a device, in the kernel's mind alone, into a partition of `meta_bytes` and the rest.
pub(crate) fn divide(node: &Path, meta_bytes: u64) -> Result<[PathBuf; 2]> {
    let meta_sectors = meta_bytes / 512;
    let sectors = run(Command::new("blockdev").arg("--getsz").arg(node))?;
    let sectors: u64 = sectors.trim().parse().with_context(|| format!("length of {}", node.display()))?;
    if sectors < 2 * meta_sectors {
        bail!("{} is too small for a partition of {meta_bytes} bytes and as much behind it", node.display());
    }
    let name = node.display().to_string();
    let parts = [(1, 0, meta_sectors), (2, meta_sectors, sectors - meta_sectors)];
    let infix = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    for (number, start, len) in parts {
        run(Command::new("addpart").arg(node).args([number, start, len].map(|number| number.to_string())))?;
    }
    Ok([1, 2].map(|number| format!("{name}{infix}{number}").into()))
}

/// Takes the links and the directory away that [`Scratch::lay`] and an engine have made without a file system.
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

/// A new directory below `work`, of this process.
pub(super) fn new_dir(work: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(work).with_context(|| format!("make {}", work.display()))?;
    let work = fs::canonicalize(work)?;
    let me = process::identity(std::process::id()).context("/proc is not mounted")?;
    let dir = work.join(format!("{PREFIX}{me}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
    Ok(dir)
}

/// Unmounts what is mounted on `dir`, and detaches its image.
fn let_go(dir: &Path) -> Result<()> {
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

/// Takes down what hangs on `dir`, innermost first. Removes only what [`Scratch`] and [`Images`] make: never a tree.
pub(super) fn dismantle(dir: &Path) -> Result<()> {
    let_go(dir)?;
    clear_away(dir)
}

/// Removes `dir`, on which nothing hangs any more.
fn clear_away(dir: &Path) -> Result<()> {
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

/// A mount point with a blank in it stands in this file with `\040`; such a `work` is compared in that form.
fn is_mounted(mount_point: &Path) -> Result<bool> {
    let text = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let sought = mount_point.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    Ok(text.lines().filter_map(|line| line.split(' ').nth(1)).any(|found| found == sought))
}

/// Backs a free loop device with `image`. `losetup` finds and takes one in two steps, so that others may be faster.
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

/// The loop devices that `image` backs.
fn loops_on(image: &Path) -> Result<Vec<PathBuf>> {
    loops::over_files(|file| file == image).context("/sys/block")
}

/// Runs a command; its output, or an error with what it said.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
