//! Loop devices: the kernel's block devices over files.
use super::{
    kernel::{self, LoopForm},
    limits,
};
use crate::{Error, Result, loops};
use nix::{errno::Errno, fcntl::OFlag};
use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

const CONTROL: &str = "/dev/loop-control";
/// Maximum number of attempts to attach a file. Another process may take a free loop device first.
const ATTEMPTS: u32 = 50;
/// Maximum size of a request of the block layer, in KiB. A request of this size fits one FUSE
/// request, so the served device receives every write of the kernel undivided. A torn write in a
/// crash state is therefore a part of a single write of the kernel.
const REQUEST_KIB_MAX: &str = "1024";

/// A loop device over a file. Dropping this value does not detach the device, unless it was
/// attached with `autoclear`; see [`attach`].
#[derive(Debug)]
pub struct Loop {
    /// The block device.
    pub node: PathBuf,
    /// An open descriptor of the loop device. It keeps a device with `autoclear` attached until the
    /// device is mounted.
    file: File,
}

/// Attaches `image` to a free loop device, in blocks of 4096 bytes and with direct I/O. With
/// `autoclear` the device is detached after its last use.
///
/// # Errors
/// If the process is not root, if the machine has no loop devices, or if no loop device is free.
pub fn attach(image: &Path, autoclear: bool) -> Result<Loop> {
    attach_as(image, LoopForm { autoclear, direct: true })
}

/// Attaches `image` as [`attach`] does, with the options in `form`.
pub(super) fn attach_as(image: &Path, form: LoopForm) -> Result<Loop> {
    let failed = |what: String| move |source: io::Error| Error::Io { what, source };
    let control = open(Path::new(CONTROL)).map_err(failed(format!("open {CONTROL}")))?;
    let file = open(image).map_err(failed(format!("open {}", image.display())))?;
    let mut last = Errno::EBUSY;
    for attempt in 0..ATTEMPTS {
        let number = kernel::free_loop(&control).map_err(|e| failed("find a free loop device".into())(e.into()))?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        let device = open(&node).map_err(failed(format!("open {}", node.display())))?;
        match kernel::configure_loop(&device, file.as_raw_fd(), form) {
            Ok(()) => {
                let limit = format!("/sys/block/loop{number}/queue/max_sectors_kb");
                fs::write(&limit, REQUEST_KIB_MAX).map_err(failed(format!("write {limit}")))?;
                limits::lift(&node)?; // left over from an earlier device with this number
                return Ok(Loop { node, file: device });
            }
            Err(Errno::EBUSY) => thread::sleep(Duration::from_millis(attempt.min(10).into())),
            Err(errno) => last = errno,
        }
        if last != Errno::EBUSY {
            break;
        }
    }
    Err(failed(format!("attach a loop device to {}", image.display()))(last.into()))
}

impl Loop {
    /// Detaches the device. If the device has users, it is detached when the last one closes it.
    pub fn detach(self) -> Result<()> {
        let what = format!("detach {}", self.node.display());
        kernel::clear_loop(&self.file).map_err(|errno| Error::Io { what, source: errno.into() })
    }
}

/// Returns the loop devices over files below `dir`.
pub fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let found = loops::over_files(|file| file.starts_with(dir));
    found.map_err(|source| Error::Io { what: "list /sys/block".into(), source })
}

/// Returns the partitions of a loop device that the kernel knows.
pub fn partitions(node: &Path) -> Result<Vec<PathBuf>> {
    let name = node.file_name().unwrap_or_default().display();
    let dir = format!("/sys/block/{name}");
    let entries = fs::read_dir(&dir).map_err(|source| Error::Io { what: format!("list {dir}"), source })?;
    let parts = entries.flatten().filter(|entry| entry.path().join("partition").exists());
    Ok(parts.map(|entry| Path::new("/dev").join(entry.file_name())).collect())
}

/// Returns an error with the reason if this process cannot use loop devices.
pub fn available() -> std::result::Result<(), String> {
    open(Path::new(CONTROL)).map(drop).map_err(|error| format!("{CONTROL}: {error}"))
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(OFlag::O_CLOEXEC.bits()).open(path)
}
