//! Formatting: a device becomes an empty store's.
use super::{error::io, found, journal};
use std::io::{Error, ErrorKind, Result};
use terrace_device::BlockDevice;
use terrace_format::raw::{PAGE, Sizes, Superblock, superblock::PLACES};

/// Divides a device into slots and forgets what was on it, also what others would recognise. Durable at return; a power cut before
/// leaves what was there, or no store at all.
pub fn format(device: &dyn BlockDevice, sizes: Sizes, id: u64) -> Result<Superblock> {
    let superblock =
        Superblock::new(device.len_bytes(), sizes, id).map_err(|why| Error::new(ErrorKind::InvalidInput, why))?;
    // First nothing, so that no list of files is ever read by another's layout.
    PLACES.iter().try_for_each(|place| device.write_zeroes(*place, PAGE as u64)).map_err(io)?;
    device.flush().map_err(io)?;
    found::forget(device)?;
    journal::format(device, &superblock)?;
    let page = superblock.encode();
    PLACES.iter().try_for_each(|place| device.write_at(*place, &page, terrace_device::Stream(0))).map_err(io)?;
    device.flush().map_err(io)?;
    Ok(superblock)
}
