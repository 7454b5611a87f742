//! A file system that is made for one cell and removed after it.
//!
//! All of it hangs on one directory, whose name says whose it is:
//! ```text
//! WORK/terrace-lab-PID-START-N/image   what the loop device is backed by (absent on a real device)
//!                              mnt/    where ext4 is mounted
//! ```
//! What exists of it is asked of the kernel (mounts, backing files), never remembered, so that a run that is killed
//! between any two steps leaves nothing that [`remove_stale`] does not find.
use crate::ledger::process;
use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

const PREFIX: &str = "terrace-lab-";
/// How long an unmount waits for those who still look at a file.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);
/// Bytes from the start of a device that tell whether it is empty; every device here has more.
const START_BYTES: u64 = 1 << 20;

/// An ext4 that nobody else uses; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    node: PathBuf,
    /// Whether `node` is a real device, on which no file system shall remain.
    is_block: bool,
}

impl Scratch {
    /// On a new sparse file of `bytes` below `work`.
    pub fn on_loop(work: &Path, bytes: u64) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        let image = scratch.dir.join("image");
        let sized = File::create_new(&image).and_then(|file| file.set_len(bytes));
        sized.with_context(|| format!("make {}", image.display()))?;
        scratch.node = attach(&image)?;
        scratch.make_file_system("", "data=ordered")?;
        Ok(scratch)
    }

    /// On the block device `node`, whose content is lost. The caller has asked whether it may be.
    pub fn on_block(work: &Path, node: &Path) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        scratch.is_block = true;
        scratch.make_file_system("", "data=ordered")?;
        Ok(scratch)
    }

    /// On the virtual SSD `node`. What `mkfs` would discard of one that is steady stays written: that is its state. With
    /// `discards` it is told what is deleted from then on.
    pub fn on_drive(work: &Path, node: &Path, is_steady: bool, discards: bool) -> Result<Scratch> {
        let mut scratch = Scratch::new(work)?;
        scratch.node = node.to_owned();
        let options = if discards { "data=ordered,discard" } else { "data=ordered" };
        scratch.make_file_system(if is_steady { ",nodiscard" } else { "" }, options)?;
        Ok(scratch)
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
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(work).with_context(|| format!("make {}", work.display()))?;
        let work = fs::canonicalize(work)?;
        let me = process::identity(std::process::id()).context("/proc is not mounted")?;
        let dir = work.join(format!("{PREFIX}{me}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&dir).and_then(|()| fs::create_dir(dir.join("mnt")))?;
        Ok(Scratch { dir, node: PathBuf::new(), is_block: false })
    }

    /// Everything is initialised now, so that the kernel writes nothing of its own later.
    fn make_file_system(&self, more: &str, options: &str) -> Result<()> {
        let extended = format!("lazy_itable_init=0,lazy_journal_init=0{more}");
        let features = ["-q", "-F", "-b", "4096", "-E", &extended];
        run(Command::new("mkfs.ext4").args(features).arg(&self.node))?;
        let mounted = mount(
            Some(&self.node),
            &self.mount_point(),
            Some("ext4"),
            MsFlags::MS_NODEV | MsFlags::MS_NOSUID,
            Some(options),
        );
        mounted.with_context(|| format!("mount {}", self.node.display()))?;
        nix::unistd::syncfs(File::open(self.mount_point())?).context("sync the new file system")
    }

    fn clear(&mut self) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        dismantle(&self.dir)?;
        if self.is_block {
            run(Command::new("wipefs").args(["-q", "-a"]).arg(&self.node))?;
            clear_start(&self.node).with_context(|| format!("clear {}", self.node.display()))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("left behind: {error:#}");
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

/// Takes down what hangs on `dir`, innermost first. Removes only what [`Scratch`] makes: never a tree.
fn dismantle(dir: &Path) -> Result<()> {
    let mount_point = dir.join("mnt");
    while is_mounted(&mount_point)? {
        unmount(&mount_point)?;
    }
    let image = dir.join("image");
    for node in loops_on(&image)? {
        run(Command::new("losetup").arg("-d").arg(&node))?;
    }
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
        result = run(Command::new("losetup").args(["--find", "--show"]).arg(image));
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
    let mut nodes = Vec::new();
    for entry in fs::read_dir("/sys/block").context("/sys/block")? {
        let name = entry?.file_name();
        let backing = Path::new("/sys/block").join(&name).join("loop/backing_file");
        if fs::read_to_string(backing).is_ok_and(|file| Path::new(file.trim_end_matches('\n')) == image) {
            nodes.push(Path::new("/dev").join(name));
        }
    }
    Ok(nodes)
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
