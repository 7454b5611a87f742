//! Where a cell ran: the facts that a reader needs to judge its figures.
use serde::{Deserialize, Serialize};
use std::{fs, path::Path, thread};

/// The machine and the file system. Empty text and `None` where the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: String,
    /// Type and options of the file system that holds the store.
    pub file_system: String,
}

impl Machine {
    /// The facts, with the file system of `dir`.
    pub fn here(dir: &Path) -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mounts = text("/proc/self/mountinfo");
        Machine {
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: thread::available_parallelism().map_or(0, |cores| cores.get()),
            memory_bytes: field(&text("/proc/meminfo"), "MemTotal").and_then(|kib| kibibytes(&kib)),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            file_system: dir.canonicalize().ok().and_then(|dir| file_system(&mounts, &dir)).unwrap_or_default(),
        }
    }
}

/// The one-minute load average.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The value behind `name :` in the files of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// `type options` of the mount that holds `dir`, from the text of /proc/self/mountinfo (proc(5)): the longest mount
/// point that `dir` begins with, the last one of equals.
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
    fn fields_of_proc() {
        let text = "model name\t: A Processor\ncpu MHz\t: 1\nMemTotal:       16 kB\n";
        assert_eq!(field(text, "model name").unwrap(), "A Processor");
        assert_eq!(field(text, "MemTotal").and_then(|kib| kibibytes(&kib)), Some(16384));
        assert_eq!(field(text, "model"), None);
    }
}
