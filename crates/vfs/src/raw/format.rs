//! Formats a device for an empty store.
use super::{error::io, found, journal};
use std::io::{Error, ErrorKind, Result};
use terrace_device::BlockDevice;
use terrace_format::raw::{PAGE, Sizes, Superblock, superblock::PLACES};

/// Formats a device: divides it into slots, and erases all data that could be recognized as a
/// store or another format. The formatted device is durable at return. A power cut during the call
/// leaves the previous contents or no store.
pub fn format(device: &dyn BlockDevice, sizes: Sizes, id: u64) -> Result<Superblock> {
    let superblock =
        Superblock::new(device.len_bytes(), sizes, id).map_err(|why| Error::new(ErrorKind::InvalidInput, why))?;
    // The superblocks are erased before the journal is written, so that a new journal is never read
    // with the geometry of an old superblock.
    PLACES.iter().try_for_each(|place| device.write_zeroes(*place, PAGE as u64)).map_err(io)?;
    device.flush().map_err(io)?;
    found::forget(device)?;
    journal::format(device, &superblock)?;
    let page = superblock.encode();
    PLACES.iter().try_for_each(|place| device.write_at(*place, &page, terrace_device::Stream(0))).map_err(io)?;
    device.flush().map_err(io)?;
    Ok(superblock)
}
