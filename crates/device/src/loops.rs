//! Finds the loop device that uses a file, and the file that a loop device uses. A caller can thus
//! reject a second writer: two writers, one through the file and one through its loop device,
//! would destroy the contents.
use crate::{Error, Result};
use nix::errno::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the loop devices whose backing files satisfy `is_meant`.
///
/// # Errors
/// If the kernel lists no block devices.
pub fn over_files(is_meant: impl Fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
    let blocks = fs::read_dir("/sys/block")?.flatten();
    let meant = blocks.filter(|block| backing(&block.path()).is_some_and(|file| is_meant(&file)));
    Ok(meant.map(|block| Path::new("/dev").join(block.file_name())).collect())
}

/// Returns the loop device over the file at `path`, if any.
pub fn over(path: &Path) -> Option<PathBuf> {
    let of = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let wanted = of(path).ok()?;
    over_files(|file| of(file).is_ok_and(|found| found == wanted)).ok()?.pop()
}

/// Returns the backing file of the block device at `node`, if `node` is a loop device or a
/// partition of a loop device.
pub fn below(node: &Path) -> Option<PathBuf> {
    let device = fs::metadata(node).ok()?.rdev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    backing(&block).or_else(|| backing(&block.join("..")))
}

/// Returns the device number of a block device in the mount table's form (`MAJOR:MINOR`), or
/// `None` for a partition that was removed.
///
/// # Errors
/// If the kernel does not list the device.
pub fn number_of(node: &Path) -> Result<Option<String>> {
    let name = node.file_name().unwrap_or_default().display();
    let path = format!("/sys/class/block/{name}/dev");
    match fs::read_to_string(&path) {
        Ok(number) => Ok(Some(number.trim().into())),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV) => Ok(None),
            _ => Err(Error::Io { what: format!("read {path}"), source: error }),
        },
    }
}

/// Returns the path of a loop device's backing file. `block` is the folder of the loop device in
/// sysfs.
fn backing(block: &Path) -> Option<PathBuf> {
    Some(fs::read_to_string(block.join("loop/backing_file")).ok()?.trim_end_matches('\n').into())
}
