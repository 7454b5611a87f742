//! The directory of a file system that is created for one cell (one engine in one round).
//!
//! All parts of the file system belong to one directory, whose name identifies the owning process:
//! ```text
//! WORK/terrace-lab-PID-START-N/
//!     image   backing file of the loop device (absent on a real device; alone: a kept image)
//!     mnt/    mount point of the file system
//! ```
//! The lab keeps no list of the parts of a file system. The kernel's lists of mounts and backing
//! files show which parts exist. [`remove_stale`] can therefore remove the parts that a run left,
//! even if the run was killed between any two steps.
use super::command::run;
use crate::{ledger::process, target::BARE};
use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};
use terrace_device::loops;

const PREFIX: &str = "terrace-lab-";
/// Maximum time that an unmount waits for open files.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);

/// Removes the directories of killed runs below `work`. Returns the failures.
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

/// Creates a directory below `work` whose name identifies this process.
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
pub(super) fn unmount_and_detach(dir: &Path) -> Result<()> {
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

/// Removes everything that belongs to `dir`: first the mount, then the loop device, then the
/// files. The function removes only the parts that `Scratch` and `Images` create, never a whole
/// directory tree.
pub(super) fn dismantle(dir: &Path) -> Result<()> {
    unmount_and_detach(dir)?;
    remove_files(dir)
}

/// Removes `dir` and its files. The file system must be unmounted and the image detached.
pub(super) fn remove_files(dir: &Path) -> Result<()> {
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

/// Returns whether `mount_point` is a mount point. The kernel's list of mounts contains `\040`
/// instead of a space, so the path is converted to this form before the comparison.
fn is_mounted(mount_point: &Path) -> Result<bool> {
    let text = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let sought = mount_point.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    Ok(text.lines().filter_map(|line| line.split(' ').nth(1)).any(|found| found == sought))
}

/// Removes the links and the directory of a store on a device without a file system.
/// `Scratch::prepare_medium` and the engine have created them.
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

/// Returns the loop devices backed by `image`.
pub(super) fn loops_on(image: &Path) -> Result<Vec<PathBuf>> {
    loops::over_files(|file| file == image).context("/sys/block")
}
