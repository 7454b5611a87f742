//! How much memory a cell may hold while it reads: a control group of its own, in which the kernel also counts what it caches of the
//! files that are read, their inodes and their names.
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

/// Names of groups, before the process.
const PREFIX: &str = "terrace-lab-";
/// How long the kernel may need to take back what is beyond the limit.
const PATIENCE: Duration = Duration::from_secs(10);
/// No limit, in both versions of control groups.
const NONE: [&str; 2] = ["-1", "max"];

/// The group of this process until it is dropped.
pub struct MemoryGroup {
    path: PathBuf,
    /// Where the process was before.
    before: PathBuf,
    limit: u64,
    version: usize,
}

impl MemoryGroup {
    /// Makes one and moves this process into it. It has no limit yet.
    pub fn enter(limit: u64) -> Result<MemoryGroup> {
        let (top, own, version) = place()?;
        remove_left(&top);
        let path = top.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path).with_context(|| format!("make control group {}", path.display()))?;
        let group = MemoryGroup { path, before: own, limit, version };
        group.join(&group.path)?;
        Ok(group)
    }

    /// Lets the process hold no more than the limit, or as much as it wants. What it holds beyond is given back at once.
    pub fn limited(&self, is: bool) -> Result<()> {
        let file = self.path.join(["memory.limit_in_bytes", "memory.max"][self.version - 1]);
        let limit = if is { self.limit.to_string() } else { NONE[self.version - 1].into() };
        let begin = Instant::now();
        loop {
            match fs::write(&file, &limit) {
                // The kernel tries a few times to take back what is too much, and gives up: of a file system's own it takes some at a time.
                Err(error) if error.kind() == ErrorKind::ResourceBusy && begin.elapsed() < PATIENCE => {
                    thread::sleep(PATIENCE / 100);
                }
                done => return done.with_context(|| format!("write {limit} to {}", file.display())),
            }
        }
    }

    fn join(&self, group: &Path) -> Result<()> {
        let file = group.join("cgroup.procs");
        fs::write(&file, process::id().to_string()).with_context(|| format!("write to {}", file.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let left = self.join(&self.before);
        let removed = fs::remove_dir(&self.path);
        drop((left, removed)); // the next cell removes what is left and empty
    }
}

/// Of processes that were killed. One with a process in it is not removed.
fn remove_left(top: &Path) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _in_use = fs::remove_dir(entry.path());
        }
    }
}

/// Where control groups of memory are, this process's own, and their version, 1 or 2.
fn place() -> Result<(PathBuf, PathBuf, usize)> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
    let (mounts, groups) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    let Some((top, own, version)) = find(&mounts, &groups) else { bail!("memory: no control groups are mounted") };
    if version == 2 {
        let file = top.join("cgroup.subtree_control");
        fs::write(&file, "+memory").with_context(|| format!("write to {}", file.display()))?;
    }
    Ok((top.clone(), top.join(own), version))
}

/// The mount of the first version that counts memory, else the second's; and below it the process's own group.
fn find(mounts: &str, groups: &str) -> Option<(PathBuf, String, usize)> {
    // `30 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`
    let mount = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (mount, about) = line.split_once(" - ")?;
            let mut about = about.split(' ');
            let is_it = about.next() == Some(kind)
                && option.is_none_or(|option| about.nth(1).is_some_and(|all| all.split(',').any(|one| one == option)));
            is_it.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
        })
    };
    // `4:memory:/a/group`, and of the second version `0::/a/group`
    let own = |controller: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let is_it = parts.next()?.split(',').any(|one| one == controller);
            is_it.then(|| parts.next().map(|path| path.trim_start_matches('/').to_owned()))?
        })
    };
    let first = mount("cgroup", Some("memory")).zip(own("memory")).map(|(top, own)| (top, own, 1));
    first.or_else(|| mount("cgroup2", None).zip(own("")).map(|(top, own)| (top, own, 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let second = "29 23 0:25 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let first = format!("{second}30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        let groups = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c\n";
        let found =
            |mounts: &str| find(mounts, groups).map(|(top, own, version)| (top.display().to_string(), own, version));
        assert_eq!(found(&first), Some(("/sys/fs/cgroup/memory".into(), "a/b".into(), 1)));
        assert_eq!(found(second), Some(("/sys/fs/cgroup/unified".into(), "c".into(), 2)));
        assert_eq!(found("25 1 0:4 / /proc rw - proc proc rw\n"), None);
    }
}
