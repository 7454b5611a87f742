//! A tracefs instance: a private trace of the kernel. Its buffer and its enabled events are
//! separate from all other tracing on the machine.
//!
//! The kernel keeps an instance after the process that created it has ended. The name of an
//! instance therefore identifies its process (see [`process::identity`]), and the instances of
//! dead processes are removed before a new one is created.
use super::process;
use nix::fcntl::OFlag;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Mount points of tracefs that are tried. The first is that of newer kernels.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "terrace-lab-";

/// A tracefs instance, which is removed on drop.
pub struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Creates an instance with a buffer of `buffer_kib` KiB per processor. The error names the
    /// missing feature of the kernel.
    pub fn create(buffer_kib: u32) -> Result<Instance, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let instances = instances()?;
        remove_stale();
        let me = process::identity(std::process::id()).ok_or("/proc is not mounted")?;
        let path = instances.join(format!("{PREFIX}{me}-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let instance = Instance { path };
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        Ok(instance)
    }

    /// Writes `text` to a file of the instance. Such a file is an option, a filter, or a switch.
    pub fn set(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Enables a tracepoint for one device. `device` is the device number in the format of user
    /// space.
    pub fn watch(&self, system: &str, event: &str, device: u64) -> Result<(), String> {
        self.set(&format!("events/{system}/{event}/filter"), &format!("dev == {}", kernel_device(device)))?;
        self.set(&format!("events/{system}/{event}/enable"), "1")
    }

    /// Opens the pipe from which the lines of the trace are read, oldest first. A read fails with
    /// `WouldBlock` if the buffer is empty.
    pub fn pipe(&self) -> Result<File, String> {
        let path = self.path.join("trace_pipe");
        let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path);
        opened.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the number of events that the kernel dropped because they were not read in time.
    pub fn lost(&self) -> io::Result<u64> {
        let mut lost = 0;
        for cpu in fs::read_dir(self.path.join("per_cpu"))? {
            lost += lost_in(&fs::read_to_string(cpu?.path().join("stats"))?);
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If the instance cannot be removed now, the next run removes it at its start.
        remove(&self.path).ok();
    }
}

/// Converts a device number from the format of user space to that of the kernel, which trace
/// filters use. In the kernel's format, the 20 bits of the minor number are adjacent. In the
/// format of user space, they are split.
fn kernel_device(device: u64) -> u64 {
    (nix::sys::stat::major(device) << 20) | nix::sys::stat::minor(device)
}

fn remove(path: &Path) -> io::Result<()> {
    fs::write(path.join("events/enable"), "0")?;
    fs::remove_dir(path)
}

/// Returns the sum of the counters of lost events in the text of a `per_cpu/cpuN/stats` file.
fn lost_in(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    let lost = lines.filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name));
    lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

fn instances() -> Result<PathBuf, String> {
    let found = ROOTS.iter().map(|root| Path::new(root).join("instances")).find(|path| path.is_dir());
    found.ok_or_else(|| "no usable tracefs (as root: mount -t tracefs none /sys/kernel/tracing)".into())
}

/// Removes the instances of processes that were killed. Returns the number of removed instances.
pub fn remove_stale() -> usize {
    let Ok(entries) = instances().and_then(|path| fs::read_dir(path).map_err(|error| error.to_string())) else {
        return 0;
    };
    let is_stale = |name: &str| {
        let identity = name.strip_prefix(PREFIX).and_then(|name| name.rsplit_once('-'));
        identity.is_some_and(|(identity, _)| !process::is_alive(identity))
    };
    let stale = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_stale));
    stale.filter(|entry| remove(&entry.path()).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_the_kernels() {
        assert_eq!(kernel_device(nix::sys::stat::makedev(7, 300)), (7 << 20) | 300);
    }

    #[test]
    fn every_way_to_lose_an_event_counts() {
        let stats = "entries: 5\noverrun: 2\ncommit overrun: 1\nbytes: 60\ndropped events: 4\nread events: 9\n";
        assert_eq!(lost_in(stats), 7);
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_of_the_living_kept() {
        let Ok(mine) = Instance::create(64) else { return println!("skipped: no tracefs") };
        let stale = mine.path.with_file_name(format!("{PREFIX}999999999-1-0"));
        fs::create_dir(&stale).expect("made");
        remove_stale();
        assert!(!stale.exists() && mine.path.exists());
        let path = mine.path.clone();
        drop(mine);
        assert!(!path.exists());
    }
}
