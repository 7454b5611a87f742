//! How fast a block device is, kept by the kernel (blk-throttle): bytes wait until it is their time, and pass through no process that
//! would take a processor for it. Reads and writes have the rate each; zeroing ranges counts as writing them, discards as next to nothing.
//!
//! Only cgroups of version 1 have limits for all of a machine, those of the root of `blkio`; processes of other groups would not be
//! bound by them. The kernel knows a limit by the device's number, so it outlives a loop device that is detached.
use crate::{Error, Result, loops::number_of};
use std::{
    fs::{self, File},
    io,
    num::NonZeroU64,
    path::Path,
};

const LISTS: [&str; 2] =
    ["/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"];
/// Only the true root of a hierarchy has it, not what a container sees as its root.
const ROOT: &str = "/sys/fs/cgroup/blkio/release_agent";
const GROUPS: &str = "/proc/self/cgroup";

/// Whether the kernel can limit what this process and its children move to and from a device, and what it writes for them; else why not.
///
/// # Errors
/// Without that kind of limits or the right to set them, or in a group that has its own.
pub fn available() -> std::result::Result<(), String> {
    let failed = |file| move |error: io::Error| format!("{file}: {error}");
    fs::metadata(ROOT).map_err(failed(ROOT))?;
    LISTS.iter().try_for_each(|list| File::options().write(true).open(list).map(drop).map_err(failed(list)))?;
    match fs::read_to_string(GROUPS).map_err(failed(GROUPS))?.lines().any(|line| line.ends_with(":blkio:/")) {
        true => Ok(()),
        false => Err(format!("{GROUPS}: this process is in a group of its own, not at the root of blkio")),
    }
}

/// From now on the block device at `node` reads at most so many bytes in a second, and writes as many.
pub fn set(node: &Path, bytes_per_s: NonZeroU64) -> Result<()> {
    let unknown = || Error::Impossible { field: "rate", why: format!("{} is no block device", node.display()) };
    let number = number_of(node)?.ok_or_else(unknown)?;
    LISTS.iter().try_for_each(|list| write(list, &number, bytes_per_s.get()))
}

/// Lifts what [`set`] has set for it, or for who had its number before, if anything.
pub fn lift(node: &Path) -> Result<()> {
    let Some(number) = &number_of(node)? else { return Ok(()) };
    let lifted = LISTS.map(|list| if has(list, number)? { write(list, number, 0) } else { Ok(()) });
    lifted.into_iter().collect()
}

/// Any number of bytes if 0.
fn write(list: &str, number: &str, bytes_per_s: u64) -> Result<()> {
    let failed = |source| Error::Io { what: format!("limit {number} by {list}"), source };
    fs::write(list, format!("{number} {bytes_per_s}")).map_err(failed)
}

fn has(list: &str, number: &str) -> Result<bool> {
    match fs::read_to_string(list) {
        Ok(text) => Ok(text.lines().any(|line| line.split_whitespace().next() == Some(number))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::Io { what: format!("read {list}"), source }),
    }
}
