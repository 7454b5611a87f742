//! Flash counters of a real drive ([`terrace_device::smart`]). The ledger reads them before and
//! after a stage of a workload. A drive counts in coarse units, and it counts the writes of all
//! programs. The ledger therefore uses the drive's counters only if they agree with the kernel's
//! counter of the store's device, and only if they have grown by enough units.
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_device::smart::{self, Reading};

/// Maximum difference, as 1/n of the kernel's count, between the drive's count of host writes and
/// the kernel's count of the same writes. Two of the drive's units are allowed in addition.
const MAY_DIFFER: u64 = 100;
/// Minimum number of units by which a counter must grow, for host writes and for flash writes.
/// With fewer units, the rounding error would exceed 1/100.
const UNITS_MIN: u64 = 100;

/// A real drive with flash counters.
pub struct Flash {
    node: PathBuf,
}

impl Flash {
    /// Returns the drive to which the block device `name` belongs as a whole or as a partition.
    /// Returns `None` for a device without a real drive, such as a loop device. If the drive has no
    /// flash counters, the error is a message for users.
    pub fn below(name: &str) -> Result<Option<Flash>, String> {
        let Some(drive) = drive_of(Path::new("/sys/class/block"), name)? else { return Ok(None) };
        let flash = Flash { node: Path::new("/dev").join(drive) };
        flash.read()?.nand.map_err(|why| flash.unknown(&why))?;
        Ok(Some(flash))
    }

    /// Reads the counters.
    pub fn read(&self) -> Result<Reading, String> {
        let report = smart::ask(&self.node).map_err(|error| self.unknown(&error))?;
        Reading::of(&report).map_err(|why| self.unknown(&why))
    }

    fn unknown(&self, why: &dyn std::fmt::Display) -> String {
        format!("the flash of {} is not counted: {why}", self.node.display())
    }
}

/// Returns the name of the whole drive, such as `nvme0n1` for the partition `nvme0n1p2`. Returns
/// `None` if there is no drive. A device that is composed of other devices is an error.
fn drive_of(block: &Path, name: &str) -> Result<Option<String>, String> {
    let Ok(device) = fs::canonicalize(block.join(name)) else { return Ok(None) };
    let parent = device.parent().filter(|_| device.join("partition").exists());
    let whole = parent.unwrap_or(&device);
    if fs::read_dir(whole.join("slaves")).is_ok_and(|mut below| below.next().is_some()) {
        return Err(format!("the flash below {name} is not counted: the device is composed of other devices"));
    }
    let named = whole.file_name().and_then(|name| name.to_str());
    Ok(named.filter(|_| whole.join("device").exists()).map(str::to_owned))
}

/// Returns the number of bytes that a drive programmed into flash between the readings `then` and
/// `now`. `device` is the number of bytes that the kernel wrote to the store's device in the same
/// time. The error gives the reason why the drive's counters cannot be used.
pub fn programmed(now: &Reading, then: &Reading, device: u64) -> Result<u64, String> {
    let (Ok(nand), Ok(before)) = (&now.nand, &then.nand) else {
        return Err("the drive did not report its counters at both ends".into());
    };
    let (Some(host), Some(host_before)) = (&now.host, &then.host) else {
        return Err("the drive does not report its host writes, so other writers cannot be excluded".into());
    };
    let fell = || "the drive's counters decreased".to_owned();
    if nand.is_average {
        return Err("the drive's counter is derived from a lifetime average".into());
    }
    if device < UNITS_MIN.saturating_mul(host.unit_bytes) {
        let unit = host.unit_bytes;
        return Err(format!("the drive counts host writes in units of {unit} B, and {device} B are too few units"));
    }
    let given = host.bytes.checked_sub(host_before.bytes).ok_or_else(fell)?;
    if given.abs_diff(device) > device / MAY_DIFFER + 2 * host.unit_bytes {
        return Err(format!("the drive received {given} B by its own count, the store's device {device} B"));
    }
    let programmed = nand.bytes.checked_sub(before.bytes).ok_or_else(fell)?;
    if programmed < UNITS_MIN.saturating_mul(nand.unit_bytes) {
        let unit = nand.unit_bytes;
        return Err(format!(
            "the drive counts flash writes in units of {unit} B, and {programmed} B are too few units"
        ));
    }
    Ok(programmed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use terrace_device::smart::Told;

    const MIB: u64 = 1 << 20;

    fn reading(host: Option<u64>, nand: u64) -> Reading {
        let report = |bytes| Told { bytes, unit_bytes: MIB, from: "a test".into(), is_average: false };
        Reading { model: "model".into(), serial: None, host: host.map(report), nand: Ok(report(nand)) }
    }

    #[test]
    fn a_drive_is_trusted_if_it_agrees_with_the_device() {
        let then = reading(Some(1000 * MIB), 3000 * MIB);
        let at = |host, nand, device| programmed(&reading(Some(host * MIB), nand * MIB), &then, device * MIB);
        assert_eq!(at(1200, 3300, 200), Ok(300 * MIB));
        let mut average = reading(Some(1200 * MIB), 3300 * MIB);
        average.nand = average.nand.map(|report| Told { is_average: true, ..report });
        let average = programmed(&average, &then, 200 * MIB);
        assert_eq!(at(1200, 3300, 204), Ok(300 * MIB), "2 units and 1/100");
        for (refused, why) in [
            // In this case, the store's device is one partition of the drive, and other programs
            // write to another partition.
            (at(1200, 3300, 205), "by its own count"),
            (at(1200, 3300, 196), "by its own count"),
            (at(1200, 3099, 200), "units of 1048576 B, and 103809024 B are too few"),
            (at(1099, 3300, 99), "host writes in units of 1048576 B"),
            (average, "lifetime average"),
            (at(1200, 2999, 200), "counters decreased"),
            (at(900, 3300, 200), "counters decreased"),
            (programmed(&reading(None, 4000 * MIB), &then, 200 * MIB), "other writers cannot"),
            (programmed(&Reading { nand: Err("no".into()), ..then.clone() }, &then, 200 * MIB), "at both ends"),
        ] {
            assert!(refused.as_ref().is_err_and(|error| error.contains(why)), "{refused:?}, not {why}");
        }
    }

    #[test]
    fn a_partition_maps_to_its_drive_and_a_stacked_device_is_refused() {
        let sys = tempfile::tempdir().expect("a directory");
        let block = sys.path().join("class");
        fs::create_dir(&block).expect("made");
        for (path, files) in [
            ("devices/nvme0n1", &["device"][..]),
            ("devices/nvme0n1/nvme0n1p2", &["partition"]),
            ("devices/loop0", &[]),
            ("devices/dm-0", &[]),
        ] {
            let path = sys.path().join(path);
            fs::create_dir_all(&path).expect("made");
            files.iter().for_each(|file| fs::write(path.join(file), "").expect("written"));
            symlink(&path, block.join(path.file_name().expect("its name"))).expect("linked");
        }
        let drive = |name| drive_of(&block, name);
        let nvme = || Ok(Some("nvme0n1".to_owned()));
        assert_eq!(["nvme0n1", "nvme0n1p2"].map(drive), [nvme(), nvme()]);
        assert_eq!(["loop0", "sdz", "dm-0"].map(drive), [Ok(None), Ok(None), Ok(None)]);
        fs::create_dir_all(sys.path().join("devices/dm-0/slaves/sda1")).expect("made");
        assert!(drive("dm-0").is_err_and(|why| why.contains("dm-0")));
    }
}
