//! Real ext4 file systems on loop devices, for tests that observe a device. They need root.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const IMAGE: &str = "image";
const IMAGE_BYTES: u64 = 512 << 20;

/// A new ext4 file system on a loop device, whose contents are in a sparse file. Dropping the
/// value unmounts the file system, detaches the device and removes the file.
pub struct LoopFs {
    pub mount: PathBuf,
    pub directory: TempDir,
    device: String,
}

impl LoopFs {
    pub fn new() -> Result<LoopFs, String> {
        LoopFs::with(&[], "defaults")
    }

    /// Makes a small file system that a test can fill.
    pub fn of_bytes(bytes: u64) -> Result<LoopFs, String> {
        LoopFs::made(bytes, &["-m", "0"], "defaults")
    }

    /// Makes a file system. `features` are options of `mkfs.ext4`, and `options` are mount options.
    pub fn with(features: &[&str], options: &str) -> Result<LoopFs, String> {
        LoopFs::made(IMAGE_BYTES, features, options)
    }

    fn made(bytes: u64, features: &[&str], options: &str) -> Result<LoopFs, String> {
        let file_system = LoopFs::attach(|image| LoopFs::make_image(image, bytes))?;
        // The file system is initialised completely here. Otherwise the kernel would initialise the
        // rest in the background, and tests would count that as writes of the store.
        let all = [&["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], features, &[&file_system.device]].concat();
        run("mkfs.ext4", &all)?;
        file_system.mounted(options)
    }

    /// Makes a file system whose journal is on a second device. The caller must drop the second
    /// device last.
    pub fn with_journal_elsewhere() -> Result<(LoopFs, LoopFs), String> {
        let journal = LoopFs::attach(|image| LoopFs::make_image(image, IMAGE_BYTES))?;
        run("mkfs.ext4", &["-q", "-b", "4096", "-O", "journal_dev", &journal.device])?;
        let there = format!("device={}", journal.device);
        LoopFs::with(&["-b", "4096", "-J", &there], "defaults").map(|file_system| (file_system, journal))
    }

    /// Makes a second file system from the present contents of the device, as after a power cut of
    /// a device that loses no completed write. No process may write to the file system during the
    /// call.
    pub fn after_power_cut(&self) -> Result<LoopFs, String> {
        let own = self.directory.path().join(IMAGE).display().to_string();
        let copy = |image: &Path| run("cp", &["--sparse=always", &own, &image.display().to_string()]).map(drop);
        LoopFs::attach(copy)?.mounted("defaults")
    }

    fn make_image(image: &Path, bytes: u64) -> Result<(), String> {
        fs::File::create(image).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())
    }

    fn attach(make_image: impl FnOnce(&Path) -> Result<(), String>) -> Result<LoopFs, String> {
        let directory = TempDir::new().map_err(|e| e.to_string())?;
        let (image, mount) = (directory.path().join(IMAGE), directory.path().join("mount"));
        make_image(&image)?;
        fs::create_dir(&mount).map_err(|e| e.to_string())?;
        let device = run("losetup", &["-f", "--show", &image.display().to_string()])?.trim().to_string();
        Ok(LoopFs { mount, device, directory }) // from here on, a drop cleans up
    }

    fn mounted(self, options: &str) -> Result<LoopFs, String> {
        run("mount", &["-o", options, &self.device, &self.mount.display().to_string()])?;
        Ok(self)
    }

    /// Checks whether a power cut now would leave a damaged file system. The function checks a
    /// copy, because the original may still be mounted in the mount namespaces of other processes.
    /// No process may write to the file system during the call.
    pub fn check(&self) -> Result<(), String> {
        run("sync", &["-f", &self.mount.display().to_string()])?;
        let [own, copy] = [IMAGE, "copy"].map(|name| self.directory.path().join(name).display().to_string());
        run("cp", &["--sparse=always", &own, &copy])?;
        // `e2fsck` treats the replay of the journal as a repair, so its exit status is then 1.
        run("sh", &["-c", "e2fsck -fy -E journal_only \"$1\" || [ $? -eq 1 ]", "sh", &copy])?;
        run("e2fsck", &["-fn", &copy]).map(drop)
    }

    /// Returns the number of journal commits since the file system was mounted.
    pub fn commits(&self) -> u64 {
        let device = self.device.trim_start_matches("/dev/");
        let entries = fs::read_dir("/proc/fs/jbd2").expect("the kernel's list of journals").flatten();
        let name = |path: PathBuf| path.file_name()?.to_str()?.starts_with(&format!("{device}-")).then_some(path);
        let journal = entries.filter_map(|entry| name(entry.path())).next().expect("an internal journal");
        let info = fs::read_to_string(journal.join("info")).expect("the journal's counters");
        info.split_whitespace().next().expect("a first word").parse().expect("a number of transactions")
    }

    /// Writes all dirty data, then returns the number of bytes written to the device so far.
    pub fn bytes_written(&self) -> u64 {
        run("sync", &["-f", &self.mount.display().to_string()]).expect("sync");
        let name = self.device.trim_start_matches("/dev/");
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("the device's counters");
        let sectors = stat.split_whitespace().nth(6).expect("the seventh field is sectors written");
        sectors.parse::<u64>().expect("a number") * 512
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        // A device that was never mounted is not unmounted. If the cleanup fails, a message is
        // printed.
        if self.is_mounted() {
            run("umount", &[&self.mount.display().to_string()]).map(drop).unwrap_or_else(|e| eprintln!("{e}"));
        }
        run("losetup", &["-d", &self.device]).map(drop).unwrap_or_else(|e| eprintln!("{e}"));
    }
}

/// Returns the number of the device that contains `path`.
#[cfg(unix)]
fn device_of(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|found| std::os::unix::fs::MetadataExt::dev(&found)).ok()
}

#[cfg(not(unix))]
fn device_of(_: &Path) -> Option<u64> {
    None
}

impl LoopFs {
    fn is_mounted(&self) -> bool {
        device_of(&self.mount) != device_of(self.directory.path())
    }
}

/// Runs a program and returns its standard output. The error describes the failure.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn is_root() -> Result<(), &'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status.lines().any(|line| line.starts_with("Uid:\t0\t")) {
        Ok(())
    } else {
        Err("mounting a file system takes root")
    }
}
