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

/// The group of this process until it is dropped.
pub struct MemoryGroup {
    path: PathBuf,
    /// Where the process was before.
    before: PathBuf,
    limit: u64,
    words: Words,
}

/// How a version of control groups is spoken to.
struct Words {
    file: &'static str,
    no_limit: &'static str,
}

const FIRST: Words = Words { file: "memory.limit_in_bytes", no_limit: "-1" };
const SECOND: Words = Words { file: "memory.max", no_limit: "max" };

/// Refuses where no limit can be set.
pub fn check() -> Result<()> {
    let probe = parent()?.0.join(format!("{PREFIX}check-{}", process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).context("memory: make a control group")
}

impl MemoryGroup {
    /// Makes one and moves this process into it. It has no limit yet.
    pub fn enter(limit: u64) -> Result<MemoryGroup> {
        let (parent, before, words) = parent()?;
        remove_left(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path).with_context(|| format!("make control group {}", path.display()))?;
        let group = MemoryGroup { path, before, limit, words };
        group.join(&group.path)?;
        Ok(group)
    }

    /// Lets the process hold no more than the limit, or as much as it wants. What it holds beyond is given back at once; what it cannot
    /// give back is an error, and in the second version of control groups its end.
    pub fn limited(&self, is: bool) -> Result<()> {
        let file = self.path.join(self.words.file);
        let limit = if is { self.limit.to_string() } else { self.words.no_limit.into() };
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
        drop((left, removed)); // the next cell removes what is left
    }
}

/// Of processes that were killed.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            drop(fs::remove_dir(entry.path())); // another cell may have
        }
    }
}

/// Where a group can be made, the process's own, and how it is spoken to. In the first version a new one is below the process's own, whose
/// limits stay; in the second, where a group with processes has none below, it is beside the topmost.
fn parent() -> Result<(PathBuf, PathBuf, Words)> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
    let (mounts, groups) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    let Some((top, own, version)) = find(&mounts, &groups) else { bail!("memory: no control groups are mounted") };
    let own = top.join(own);
    // A container may have its own group mounted as the topmost.
    let own = if own.is_dir() { own } else { top.clone() };
    if version == 1 {
        return Ok((own.clone(), own, FIRST));
    }
    let file = top.join("cgroup.subtree_control");
    fs::write(&file, "+memory").with_context(|| format!("write to {}", file.display()))?;
    Ok((top, own, SECOND))
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
