//! Reports the properties of the disk below a directory: free space, discard, direct I/O,
//! reflinks.
use super::{Finding, kernel_line, mount::Mount};
use crate::table::size;
use nix::{fcntl::OFlag, sys::statvfs::statvfs};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Free space below which `doctor` warns. A compaction needs space for its outputs before it can
/// free its inputs.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Returns the space available to this user.
pub fn free(directory: &Path) -> Finding {
    match statvfs(directory) {
        Ok(about) => {
            let bytes = about.blocks_available() * about.fragment_size();
            let finding = Finding::new("free_space", format!("{} ({bytes} B)", size(bytes)));
            if bytes >= FREE_BYTES_MIN {
                return finding;
            }
            finding.advise("little: a compaction needs room for its outputs before it can delete its inputs")
        }
        Err(error) => Finding::new("free_space", format!("unknown: {error}")),
    }
}

/// Returns whether the drive supports discard.
pub fn discard(mount: &Mount) -> Finding {
    let Some(device) = &mount.device else { return Finding::new("discard", "unknown: no block device of its own") };
    let queue = |of: &str| kernel_line(format!("/sys/class/block/{device}/{of}queue/discard_max_bytes"));
    match queue("").or_else(|_| queue("../")) {
        Ok(bytes) if bytes == "0" => Finding::new("discard", "not supported by the drive"),
        Ok(bytes) => {
            let mounted = mount.options.split(',').any(|option| option.starts_with("discard"));
            let how = if mounted { "at each removal" } else { "when `fstrim` runs" };
            Finding::new("discard", format!("supported, {how}, up to {bytes} B at once"))
        }
        Err(error) => Finding::new("discard", format!("unknown: {error}")),
    }
}

/// Tries direct I/O and reflinks in a temporary directory.
pub fn probe(directory: &Path) -> Vec<Finding> {
    let probe = match Probe::new(directory) {
        Ok(probe) => probe,
        Err(error) => {
            let untried = format!("not tried: cannot make a file in {}: {error}", directory.display());
            return vec![Finding::new("direct_io", untried.clone()), Finding::new("reflink", untried)];
        }
    };
    vec![probe.direct_io(), probe.reflink()]
}

/// A temporary directory, removed when dropped.
struct Probe(PathBuf);

impl Probe {
    fn new(directory: &Path) -> io::Result<Probe> {
        let path = directory.join(format!(".terrace-doctor-{}", std::process::id()));
        fs::create_dir(&path)?;
        let probe = Probe(path);
        fs::write(probe.0.join("a"), [0; 4096])?;
        Ok(probe)
    }

    fn direct_io(&self) -> Finding {
        match File::options().read(true).custom_flags(OFlag::O_DIRECT.bits()).open(self.0.join("a")) {
            Ok(_) => Finding::new("direct_io", "possible"),
            Err(error) => Finding::new("direct_io", format!("not possible here: {error}")),
        }
    }

    /// Tries to reflink a file of one block with `cp`, which makes the system call.
    fn reflink(&self) -> Finding {
        let mut copy = Command::new("cp");
        copy.arg("--reflink=always").arg(self.0.join("a")).arg(self.0.join("b")).stderr(Stdio::null());
        match copy.status() {
            Ok(status) if status.success() => Finding::new("reflink", "possible"),
            Ok(_) => Finding::new("reflink", "not possible here"),
            Err(error) => Finding::new("reflink", format!("not tried: cp: {error}")),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The removal may fail. At most 8 KiB stay, which this process created a moment ago.
        let _ = fs::remove_dir_all(&self.0);
    }
}
