//! What a real drive tells of its flash, asked before and after through the tools that know it
//! ([`terrace_device::smart`]). It counts in units, for all who write to it, and so is believed only where it saw what the
//! store's device did, of enough units.
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_device::smart::{self, Reading};

/// The drive may have seen a hundredth more or less than the device, beside two of its units.
const MAY_DIFFER: u64 = 100;
/// So many units, of what it was given and of what it programmed, make what is left out of one a hundredth.
const UNITS_MIN: u64 = 100;

/// A drive that can be asked.
pub struct Flash {
    node: PathBuf,
}

impl Flash {
    /// The drive that block device `name` is, or is a partition of; `None` of a loop device, below which is no drive of its own.
    /// The error, of one that does not tell, is for people.
    pub fn below(name: &str) -> Result<Option<Flash>, String> {
        let Some(drive) = drive_of(Path::new("/sys/class/block"), name)? else { return Ok(None) };
        let flash = Flash { node: Path::new("/dev").join(drive) };
        flash.read()?.nand.map_err(|why| flash.unknown(&why))?;
        Ok(Some(flash))
    }

    /// What it tells now.
    pub fn read(&self) -> Result<Reading, String> {
        let told = smart::ask(&self.node).map_err(|error| self.unknown(&error))?;
        Reading::of(&told).map_err(|why| self.unknown(&why))
    }

    fn unknown(&self, why: &dyn std::fmt::Display) -> String {
        format!("the flash of {} is not counted: {why}", self.node.display())
    }
}

/// The name of the whole drive, if there is one behind it: `nvme0n1` for `nvme0n1p2`. One that is made of others is refused.
fn drive_of(block: &Path, name: &str) -> Result<Option<String>, String> {
    let Ok(device) = fs::canonicalize(block.join(name)) else { return Ok(None) };
    let parent = device.parent().filter(|_| device.join("partition").exists());
    let whole = parent.unwrap_or(&device);
    if fs::read_dir(whole.join("slaves")).is_ok_and(|mut below| below.next().is_some()) {
        return Err(format!("the flash below {name} is not counted: it is made of other devices"));
    }
    let named = whole.file_name().and_then(|name| name.to_str());
    Ok(named.filter(|_| whole.join("device").exists()).map(str::to_owned))
}

/// Bytes programmed between two readings of one drive, while the kernel gave `device` bytes to the store's device; or why
/// that cannot be told.
pub fn programmed(now: &Reading, then: &Reading, device: u64) -> Result<u64, String> {
    let (Ok(nand), Ok(before)) = (&now.nand, &then.nand) else {
        return Err("the drive did not tell both times".into());
    };
    let (Some(host), Some(host_before)) = (&now.host, &then.host) else {
        return Err("the drive does not tell what it was given, so it cannot be seen whether others wrote to it".into());
    };
    let fell = || "the drive counts less than before".to_owned();
    if nand.is_average {
        return Err("the drive's count follows from an average over its life".into());
    }
    if device < UNITS_MIN.saturating_mul(host.unit_bytes) {
        let unit = host.unit_bytes;
        return Err(format!(
            "the drive counts what it is given in units of {unit} B, and {device} B are too few of them"
        ));
    }
    let given = host.bytes.checked_sub(host_before.bytes).ok_or_else(fell)?;
    if given.abs_diff(device) > device / MAY_DIFFER + 2 * host.unit_bytes {
        return Err(format!("the drive was given {given} B by its own count, the store's device {device} B"));
    }
    let programmed = nand.bytes.checked_sub(before.bytes).ok_or_else(fell)?;
    if programmed < UNITS_MIN.saturating_mul(nand.unit_bytes) {
        let unit = nand.unit_bytes;
        return Err(format!("the drive counts flash in units of {unit} B, and {programmed} B are too few of them"));
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
        let told = |bytes| Told { bytes, unit_bytes: MIB, from: "a test".into(), is_average: false };
        Reading { model: "model".into(), serial: None, host: host.map(told), nand: Ok(told(nand)) }
    }

    #[test]
    fn a_drive_is_believed_where_it_saw_what_the_device_did() {
        let then = reading(Some(1000 * MIB), 3000 * MIB);
        let at = |host, nand, device| programmed(&reading(Some(host * MIB), nand * MIB), &then, device * MIB);
        assert_eq!(at(1200, 3300, 200), Ok(300 * MIB));
        let mut average = reading(Some(1200 * MIB), 3300 * MIB);
        average.nand = average.nand.map(|told| Told { is_average: true, ..told });
        let average = programmed(&average, &then, 200 * MIB);
        assert_eq!(at(1200, 3300, 204), Ok(300 * MIB), "2 units and a hundredth");
        for (refused, why) in [
            (at(1200, 3300, 205), "by its own count"), // as with a partition, beside which others write
            (at(1200, 3300, 196), "by its own count"),
            (at(1200, 3099, 200), "units of 1048576 B, and 103809024 B are too few"),
            (at(1099, 3300, 99), "is given in units of 1048576 B"),
            (average, "average over its life"),
            (at(1200, 2999, 200), "less than before"),
            (at(900, 3300, 200), "less than before"),
            (programmed(&reading(None, 4000 * MIB), &then, 200 * MIB), "whether others wrote"),
            (programmed(&Reading { nand: Err("no".into()), ..then.clone() }, &then, 200 * MIB), "both times"),
        ] {
            assert!(refused.as_ref().is_err_and(|error| error.contains(why)), "{refused:?}, not {why}");
        }
    }

    #[test]
    fn a_partition_is_of_its_drive_a_loop_device_of_none_and_a_stack_is_refused() {
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
