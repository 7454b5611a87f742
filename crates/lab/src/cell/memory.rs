//! Limits the memory of a cell (one engine in one round) while it reads. The process of the cell
//! gets its own control group (cgroup). In this cgroup, the kernel also counts the page cache,
//! inodes and directory entries of the files that the process reads.
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

/// Prefix of cgroup names. The process id follows.
const PREFIX: &str = "terrace-lab-";
/// Maximum time in which the kernel must reclaim the memory that exceeds a new limit.
const PATIENCE: Duration = Duration::from_secs(10);

/// The cgroup of this process. Dropping this value moves the process back to its previous cgroup.
pub struct MemoryGroup {
    path: PathBuf,
    /// Previous cgroup of the process.
    before: PathBuf,
    limit: u64,
    files: CgroupFiles,
}

/// The names of the cgroup's files, and the text for "no limit", in one version of cgroups.
struct CgroupFiles {
    file: &'static str,
    no_limit: &'static str,
}

const V1: CgroupFiles = CgroupFiles { file: "memory.limit_in_bytes", no_limit: "-1" };
const V2: CgroupFiles = CgroupFiles { file: "memory.max", no_limit: "max" };

/// Checks that a memory limit can be set on this machine. The error gives the reason why it
/// cannot.
pub fn check() -> Result<()> {
    let probe = parent()?.0.join(format!("{PREFIX}check-{}", process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).context("memory: make a control group")
}

impl MemoryGroup {
    /// Creates a cgroup without a limit and moves this process into it.
    pub fn enter(limit: u64) -> Result<MemoryGroup> {
        let (parent, before, files) = parent()?;
        remove_leftovers(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path).with_context(|| format!("make control group {}", path.display()))?;
        let group = MemoryGroup { path, before, limit, files };
        group.join(&group.path)?;
        Ok(group)
    }

    /// Sets the limit of the cgroup, or removes it if `is` is false. The kernel reclaims memory
    /// above a new limit immediately. If the kernel cannot reclaim enough, the function returns an
    /// error. Under cgroup v2, the kernel then also ends the process.
    pub fn limited(&self, is: bool) -> Result<()> {
        let file = self.path.join(self.files.file);
        let limit = if is { self.limit.to_string() } else { self.files.no_limit.into() };
        let begin = Instant::now();
        loop {
            match fs::write(&file, &limit) {
                // The kernel reclaims the memory of a file system in parts and gives up after a few
                // attempts. If it gives up, the loop sets the limit again.
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
        drop((left, removed)); // the next cell removes leftovers
    }
}

/// Removes the cgroups below `parent` of processes that have been killed.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            drop(fs::remove_dir(entry.path())); // another cell may have removed it
        }
    }
}

/// Returns the directory for new cgroups, the process's own cgroup, and the names of a cgroup's
/// files. Under cgroup v1, a new cgroup is a child of the process's own cgroup, so the limits of
/// that cgroup remain in effect. Under v2, a cgroup with processes has no children, so the new
/// cgroup is a child of the root.
fn parent() -> Result<(PathBuf, PathBuf, CgroupFiles)> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
    let (mounts, groups) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    let Some((top, own, version)) = find(&mounts, &groups) else { bail!("memory: no control groups are mounted") };
    let own = top.join(own);
    // In a container, the container's own cgroup may be mounted as the root.
    let own = if own.is_dir() { own } else { top.clone() };
    if version == 1 {
        return Ok((own.clone(), own, V1));
    }
    let file = top.join("cgroup.subtree_control");
    fs::write(&file, "+memory").with_context(|| format!("write to {}", file.display()))?;
    Ok((top, own, V2))
}

/// Returns the mount point of the memory controller, and the process's cgroup below this mount
/// point. cgroup v1 is preferred to v2.
fn find(mounts: &str, groups: &str) -> Option<(PathBuf, String, usize)> {
    // Example of a line in the list of mounts: `30 23 0:26 / /sys/fs/cgroup/memory rw,relatime -
    // cgroup cgroup rw,memory`
    let mount = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (mount, about) = line.split_once(" - ")?;
            let mut about = about.split(' ');
            let is_it = about.next() == Some(kind)
                && option.is_none_or(|option| about.nth(1).is_some_and(|all| all.split(',').any(|one| one == option)));
            is_it.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
        })
    };
    // Examples of lines in the list of the process's cgroups: `4:memory:/a/group` under v1,
    // `0::/a/group` under v2
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
