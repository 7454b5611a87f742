//! Describes the machine on which a cell (one engine in one round) ran. Readers of a report need
//! this description to interpret the figures.
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

/// The machine and the file system. An unknown value is an empty text or `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Number of processors that this process may use.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: String,
    /// Whether the kernel reclaims idle memory even if other memory is free. Reads that would
    /// otherwise hit the page cache may then reach the device.
    #[serde(default)]
    pub reclaims_idle: bool,
    /// Type and options of the store's file system.
    pub file_system: String,
}

impl Machine {
    /// Returns the description of this machine and of the file system of `dir`.
    pub fn here(dir: &Path) -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mounts = text("/proc/self/mountinfo");
        Machine {
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: thread::available_parallelism().map_or(0, |cores| cores.get()),
            memory_bytes: field(&text("/proc/meminfo"), "MemTotal").and_then(|kib| kibibytes(&kib)),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            reclaims_idle: reclaims_idle(Path::new("/sys")),
            file_system: dir.canonicalize().ok().and_then(|dir| file_system(&mounts, &dir)).unwrap_or_default(),
        }
    }
}

/// Returns the one-minute load average of the machine.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Returns whether DAMON, a part of the Linux kernel, reclaims idle memory. It does so through its
/// own module or through a configured scheme (Linux, admin-guide/mm/damon). `sys` is the root of
/// the sysfs tree.
fn reclaims_idle(sys: &Path) -> bool {
    let word = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let running = below(sys.join("kernel/mm/damon/admin/kdamonds")).filter(|thread| word(thread.join("state")) == "on");
    let mut schemes =
        running.flat_map(|thread| below(thread.join("contexts"))).flat_map(|context| below(context.join("schemes")));
    let module = word(sys.join("module/damon_reclaim/parameters/enabled"));
    module == "Y" || schemes.any(|scheme| word(scheme.join("action")) == "pageout")
}

/// Returns the value of the line `name : value` in the text of a file in /proc.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns `type options` of the mount that contains `dir`. `mounts` is the text of
/// /proc/self/mountinfo, see proc(5). Of the mounts whose mount point is a prefix of `dir`, the
/// one with the longest mount point contains `dir`. If several mounts have the same mount point,
/// the last one contains it.
fn file_system(mounts: &str, dir: &Path) -> Option<String> {
    let parsed = mounts.lines().filter_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let point = front.split(' ').nth(4)?;
        let mut back = back.split(' ');
        let (kind, _source, options) = (back.next()?, back.next()?, back.next()?);
        dir.starts_with(point).then(|| (point.len(), format!("{kind} {options}")))
    });
    parsed.max_by_key(|(length, _)| *length).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw,relatime\n\
                      2 1 7:0 / /mnt rw shared:1 - tmpfs none rw,size=1k\n\
                      3 1 7:0 / /mnt/x rw - ext4 /dev/loop0 rw,data=ordered\n";
        let at = |dir: &str| file_system(mounts, Path::new(dir)).unwrap();
        assert_eq!(at("/mnt/x/store"), "ext4 rw,data=ordered");
        assert_eq!(at("/mnt/xy"), "tmpfs rw,size=1k");
        assert_eq!(at("/home"), "ext4 rw,relatime");
    }

    #[test]
    fn a_kernel_that_reclaims_idle_memory_is_detected() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            reclaims_idle(sys.path())
        };
        let thread = "kernel/mm/damon/admin/kdamonds/0";
        assert!(!write(&format!("{thread}/state"), "on\n"));
        assert!(!write(&format!("{thread}/contexts/0/schemes/0/action"), "stat\n"));
        assert!(write(&format!("{thread}/contexts/0/schemes/1/action"), "pageout\n"));
        assert!(!write(&format!("{thread}/state"), "off\n"));
        assert!(write("module/damon_reclaim/parameters/enabled", "Y\n"));
    }

    #[test]
    fn fields_of_proc() {
        let text = "model name\t: A Processor\ncpu MHz\t: 1\nMemTotal:       16 kB\n";
        assert_eq!(field(text, "model name").unwrap(), "A Processor");
        assert_eq!(field(text, "MemTotal").and_then(|kib| kibibytes(&kib)), Some(16384));
        assert_eq!(field(text, "model"), None);
    }
}
