//! Rate limits of block devices. The kernel enforces them (blk-throttle), so the data passes
//! through no further process. Reads and writes have separate limits. Zeroed ranges count as
//! writes. Discards use almost nothing of the limit for writes.
//!
//! Only cgroup version 1 has machine-wide limits. They are set in the root group of `blkio`,
//! because a limit of any other group would not apply to processes outside that group. The kernel
//! stores a limit by device number, so a limit remains after its loop device is detached.
use crate::{Error, Result, loops::number_of};
use std::{
    fs::{self, File},
    io,
    num::NonZeroU64,
    path::Path,
};

const LISTS: [&str; 2] =
    ["/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"];
/// A file that exists only in the true root group of the cgroup hierarchy, not in the root group
/// of a container.
const ROOT: &str = "/sys/fs/cgroup/blkio/release_agent";
const GROUPS: &str = "/proc/self/cgroup";

/// Checks whether the kernel can limit the I/O of this process and its children, and the
/// write-back of their dirty pages.
///
/// # Errors
/// If the kernel has no such limits, if this process may not set them, or if this process is not
/// in the root group.
pub fn available() -> std::result::Result<(), String> {
    let failed = |file| move |error: io::Error| format!("{file}: {error}");
    fs::metadata(ROOT).map_err(failed(ROOT))?;
    LISTS.iter().try_for_each(|list| File::options().write(true).open(list).map(drop).map_err(failed(list)))?;
    match fs::read_to_string(GROUPS).map_err(failed(GROUPS))?.lines().any(|line| line.ends_with(":blkio:/")) {
        true => Ok(()),
        false => Err(format!("{GROUPS}: this process is in a group of its own, not at the root of blkio")),
    }
}

/// Limits reads and writes of the block device at `node` to `bytes_per_s` each.
pub fn set(node: &Path, bytes_per_s: NonZeroU64) -> Result<()> {
    let unknown = || Error::Impossible { field: "rate", why: format!("{} is no block device", node.display()) };
    let number = number_of(node)?.ok_or_else(unknown)?;
    LISTS.iter().try_for_each(|list| write(list, &number, bytes_per_s.get()))
}

/// Removes the limit set by [`set`] for this device number, if any.
pub fn lift(node: &Path) -> Result<()> {
    let Some(number) = &number_of(node)? else { return Ok(()) };
    let lifted = LISTS.map(|list| if has(list, number)? { write(list, number, 0) } else { Ok(()) });
    lifted.into_iter().collect()
}

/// Writes a limit for device `number` to the kernel's list `list`; 0 removes the limit.
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
