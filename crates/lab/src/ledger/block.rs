//! Counters of the block device on which a store is, and of the file system and the journal on
//! this device.
use super::flash::Flash;
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_device::ssd::Cause;

/// The unit of the kernel's device counters in bytes. It does not depend on the device's sector
/// size.
const SECTOR_BYTES: u64 = 512;

/// A block device whose counters can be read.
pub struct BlockDevice {
    /// The kernel's name, such as `loop0` or `sda1`.
    name: String,
    stat: PathBuf,
    /// For a virtual SSD, the file with the SSD's own counters.
    drive: Option<PathBuf>,
}

/// Counters of a block device and of its file system. The device's counters start at boot, the
/// file system's at the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockCounters {
    /// Bytes of completed reads.
    pub read_bytes: u64,
    /// Bytes of completed writes.
    pub write_bytes: u64,
    /// Completed cache flushes. Kernels before 5.5 and partitions do not have this counter.
    pub flushes: Option<u64>,
    /// Number of transactions that ext4's journal has committed since the mount; `None` without a
    /// journal.
    pub journal_commits: Option<u64>,
    /// Bytes that ext4 has written to the device since the mount, rounded down to KiB.
    pub session_write_bytes: Option<u64>,
    /// A virtual SSD's own counters.
    pub drive: Option<DriveCounters>,
}

/// A virtual SSD's own counters since it was new.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriveCounters {
    /// Bytes of the write commands that the SSD received.
    pub write_bytes: u64,
    /// Bytes programmed into flash.
    pub nand_bytes: u64,
    /// `nand_bytes` by cause, in the order of [`Cause::ALL`].
    pub nand_by_cause: [u64; Cause::ALL.len()],
}

impl BlockDevice {
    /// Opens the device of a node such as `/dev/loop0`, or of a link to such a node. The error is a
    /// message for users.
    pub fn open(node: &Path) -> Result<BlockDevice, String> {
        let why = |problem: String| format!("bytes of {} are not counted: {problem}", node.display());
        let path = fs::canonicalize(node).map_err(|error| why(error.to_string()))?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| why("it has no name".into()))?;
        let stat = Path::new("/sys/class/block").join(name).join("stat");
        let device = BlockDevice { name: name.to_owned(), stat, drive: drive_below(name) };
        device.read().map(|_| device)
    }

    /// Returns the physical drive to which the block device or partition belongs. Returns `None` if
    /// there is no drive, as for a loop device.
    ///
    /// # Errors
    /// The drive does not report its flash writes, or the device is composed of other devices. The
    /// error is a message for users.
    pub fn flash(&self) -> Result<Option<Flash>, String> {
        Flash::below(&self.name)
    }

    /// Reads the counters.
    pub fn read(&self) -> Result<BlockCounters, String> {
        let text = fs::read_to_string(&self.stat).map_err(|error| format!("{}: {error}", self.stat.display()))?;
        let counters = parse_stat(&text).ok_or_else(|| format!("{}: unexpected format", self.stat.display()))?;
        let session = fs::read_to_string(format!("/sys/fs/ext4/{}/session_write_kbytes", self.name));
        let info = fs::read_to_string(format!("/proc/fs/jbd2/{}-8/info", self.name));
        Ok(BlockCounters {
            drive: self.drive.as_deref().map(drive_counts).transpose()?,
            session_write_bytes: session.ok().and_then(|text| Some(text.trim().parse::<u64>().ok()? * 1024)),
            journal_commits: info.ok().and_then(|text| text.split_whitespace().next()?.parse().ok()),
            ..counters
        })
    }
}

/// Returns the path of the counter file, if the device `name` is a virtual SSD. `terrace ssd
/// serve` makes the SSD the backing file of a loop device, and puts the counter file into the same
/// directory as the backing file.
fn drive_below(name: &str) -> Option<PathBuf> {
    let file = fs::read_to_string(format!("/sys/class/block/{name}/loop/backing_file")).ok()?;
    let stats = Path::new(file.trim_end()).with_file_name("stats");
    drive_counts(&stats).is_ok().then_some(stats)
}

fn drive_counts(stats: &Path) -> Result<DriveCounters, String> {
    let text = fs::read(stats).map_err(|error| format!("{}: {error}", stats.display()))?;
    let stats_json: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", stats.display()))?;
    let stats_json = &stats_json["device"]["ssd"]["terrace"];
    let count =
        |of: &serde_json::Value, name: &str| of[name].as_u64().ok_or_else(|| format!("{}: no {name}", stats.display()));
    let mut drive = DriveCounters {
        write_bytes: count(stats_json, "host_bytes")?,
        nand_bytes: count(stats_json, "nand_bytes")?,
        ..DriveCounters::default()
    };
    for (bytes, cause) in drive.nand_by_cause.iter_mut().zip(Cause::ALL) {
        *bytes = count(&stats_json["nand_bytes_by_cause"], cause.name())?;
    }
    Ok(drive)
}

/// Parses the `stat` file of a block device (see the kernel's Documentation/block/stat.rst).
/// Fields 3 and 7 are the counts of sectors read and written. Field 16 is the count of flushes.
fn parse_stat(text: &str) -> Option<BlockCounters> {
    let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    Some(BlockCounters {
        read_bytes: fields.get(2)? * SECTOR_BYTES,
        write_bytes: fields.get(6)? * SECTOR_BYTES,
        flushes: fields.get(15).copied(),
        ..BlockCounters::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_kernels_documentation() {
        let new = parse_stat("1 2 30 4 5 6 70 8 9 10 11 12 13 14 15 16 17").expect("17 fields");
        assert_eq!((new.read_bytes, new.write_bytes, new.flushes), (30 * 512, 70 * 512, Some(16)));
        let old = parse_stat("1 2 30 4 5 6 70 8 9 10 11").expect("11 fields");
        assert_eq!((old.write_bytes, old.flushes), (70 * 512, None));
        assert_eq!(parse_stat("1 2 x"), None);
    }

    #[test]
    fn a_missing_device_is_named() {
        let problem = BlockDevice::open(Path::new("/dev/no-such-device")).err().expect("it does not exist");
        assert!(problem.contains("/dev/no-such-device"), "{problem}");
    }
}
