//! Finds the mounted file system that contains a directory.
use super::Finding;
use anyhow::{Context, Result};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// The file-system type, such as `ext4`.
    pub kind: String,
    /// Options of the mount and of the file system, comma-separated.
    pub options: String,
    /// The kernel's name of its block device, such as `sda1`; `None` if it has none.
    pub device: Option<String>,
}

/// Returns the file system of `directory`, an absolute path without links.
pub fn of(directory: &Path) -> Result<Mount> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    let mut mount = find(&table, directory).context("it is on no mounted file system")?;
    let device = fs::metadata(directory)?.dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
    mount.device = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    Ok(mount)
}

/// Returns the mount with the longest mount point above `directory`. If several mounts have this
/// mount point, returns the last of them, because later mounts hide earlier ones.
fn find(table: &str, directory: &Path) -> Option<Mount> {
    let mounts = table.lines().filter_map(parse);
    mounts.filter(|mount| directory.starts_with(&mount.point)).max_by_key(|mount| mount.point.as_os_str().len())
}

/// Parses a line of the mount table: id, parent, device, root, point, options, optional fields,
/// `-`, type, source, options of the file system.
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let (mut left, mut right) = (left.split(' ').skip(4), right.split(' '));
    let (point, mount_options) = (left.next()?, left.next()?);
    let (kind, own_options) = (right.next()?, right.nth(1).unwrap_or(""));
    let point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    Some(Mount {
        point: point.into(),
        kind: kind.into(),
        options: format!("{mount_options},{own_options}"),
        device: None,
    })
}

impl Mount {
    /// Reports the file-system type and the mount point.
    pub fn finding(&self) -> Finding {
        let device = self.device.as_deref().unwrap_or("no block device of its own");
        let value = format!("{} on {}, {device} ({})", self.kind, self.point.display(), self.options);
        let finding = Finding::new("file_system", value);
        match self.kind.as_str() {
            "tmpfs" | "ramfs" => finding.advise("this is memory: nothing here survives a reboot"),
            "overlay" => {
                finding.advise("stacked: syncs reach the file system below, which cannot be examined from here")
            }
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" => {
                finding.advise("a network file system: locks and syncs are only as good as its server's")
            }
            _ => finding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        30 27 0:25 / /mnt/a\\040b rw shared:1 master:2 - tmpfs none rw,size=4k\n\
        31 30 8:1 / /mnt/a\\040b ro - xfs /dev/sda1 ro\n";

    #[test]
    fn the_last_longest_mount_holds_a_path() {
        let mount = find(TABLE, Path::new("/mnt/a b/c")).unwrap();
        assert_eq!((mount.kind.as_str(), mount.options.as_str()), ("xfs", "ro,ro"));
        assert_eq!(find(TABLE, Path::new("/mnt/a")).unwrap().kind, "ext4");
    }
}
