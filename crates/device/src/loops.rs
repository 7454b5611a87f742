//! Loop devices: who writes to a file past the block device that it is meanwhile, or to both, destroys what is there.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The loop device that the file at `path` is behind, if any.
pub fn over(path: &Path) -> Option<PathBuf> {
    let file = fs::metadata(path).ok()?;
    let blocks = fs::read_dir("/sys/block").ok()?.flatten();
    let mut names = blocks.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with("loop"));
    let name = names.find(|name| {
        let behind = backing(&Path::new("/sys/block").join(name)).and_then(|path| fs::metadata(path).ok());
        behind.is_some_and(|behind| (behind.dev(), behind.ino()) == (file.dev(), file.ino()))
    })?;
    Some(Path::new("/dev").join(name))
}

/// The file behind the block device at `node`, if that is a loop device or a part of one.
pub fn below(node: &Path) -> Option<PathBuf> {
    let device = fs::metadata(node).ok()?.rdev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    backing(&block).or_else(|| backing(&block.join("..")))
}

/// What the kernel says of a block device in its folder.
fn backing(block: &Path) -> Option<PathBuf> {
    Some(fs::read_to_string(block.join("loop/backing_file")).ok()?.trim_end_matches('\n').into())
}
