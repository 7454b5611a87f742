//! The two superblocks of a device. Each is a copy of the device's geometry.
use super::error::{invalid, io};
use std::io::{Error, Result};
use terrace_device::BlockDevice;
use terrace_format::raw::{PAGE, Superblock, superblock::PLACES};

/// Reads the superblock of a device; `None` if the device has no superblock.
pub fn find(device: &dyn BlockDevice) -> Result<Option<Superblock>> {
    let mut damaged: Option<Error> = None;
    for place in PLACES.into_iter().filter(|place| place + PAGE as u64 <= device.len_bytes()) {
        let mut page = vec![0; PAGE];
        if let Err(error) = device.read_at(place, &mut page) {
            damaged = Some(io(error));
            continue;
        }
        match Superblock::decode(&page) {
            Ok(found) if found.device_bytes() <= device.len_bytes() => return Ok(Some(found)),
            Ok(found) => {
                let (was, is) = (found.device_bytes(), device.len_bytes());
                return Err(invalid(format!("it was formatted as a device of {was} bytes, and has {is}")));
            }
            Err(found) if Superblock::is_claimed(&page) => {
                damaged = Some(invalid(format!("superblock at {place}: {}", found.detail)));
            }
            Err(_) => {}
        }
    }
    damaged.map_or(Ok(None), Err)
}

/// Describes corrupt superblocks. At least one copy must be intact. A superblock of zeros is not
/// corrupt: a power cut during formatting leaves zeros.
pub(super) fn damaged_superblocks(device: &dyn BlockDevice) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for place in PLACES {
        let mut page = vec![0; PAGE];
        device.read_at(place, &mut page).map_err(io)?;
        if let Err(why) = Superblock::decode(&page)
            && page.iter().any(|byte| *byte != 0)
        {
            found.push(format!("superblock at {place}: {}", why.detail));
        }
    }
    Ok(found)
}
