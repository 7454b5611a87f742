//! Serves a [`BlockDevice`] as a block device of the machine, so that `mkfs`, `mount` and any
//! database can use it.
//!
//! ```text
//! file system ─ /dev/loopN ─ file `disk` of a FUSE mount ─ one thread ─ BlockDevice
//! ```
//! - `fuse`: the device as a file
//! - `wire`: encoding of the kernel's FUSE requests
//! - `tally`: request counters
//! - `loops`: the file as a block device
//! - `limits`: rate limits enforced by the kernel
//! - `mounts`: mounts of the device, and their removal
//! - `kernel`: system calls without a safe wrapper
//!
//! Each flush, discard and zeroed range of the file system becomes one request to the device. A
//! FUA write (a write that must be durable when it completes) becomes a write and a flush.
//! Requires root.
//!
//! The serving process must not wait for its own device. It must not access a file on the device,
//! call `sync`, or unmount the device. A process that waits for a device that one of its own
//! threads serves cannot even be killed.
mod fuse;
mod kernel;
pub mod limits;
mod loops;
mod mounts;
mod tally;
mod wire;

use fuse::Serving;
use kernel::LoopForm;
use loops::attach_as;
pub use loops::{Loop, attach};
pub use mounts::{Cleaned, cleanup, let_go_of_others, new_directory};

use crate::{BlockDevice, Error, Result};
use nix::sys::mman::{MlockAllFlags, mlockall};
use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
};

/// Statistics and commands of a served device.
pub trait Desk: Send + Sync {
    /// Returns the device's statistics as a JSON value.
    fn stats(&self) -> String {
        "null".into()
    }

    /// Executes a command. The error is a message for users.
    fn order(&self, order: &str) -> std::result::Result<(), String> {
        Err(format!("'{order}': this device accepts no commands"))
    }
}

/// A device without statistics and commands.
pub struct NoDesk;

impl Desk for NoDesk {}

/// A way to expose a device to the machine.
pub trait FrontEnd {
    /// Returns the name of the front end.
    fn name(&self) -> &'static str;

    /// Returns an error if this machine does not support this front end. The error states the
    /// reason and what the user can do.
    fn available(&self) -> std::result::Result<(), String>;

    /// Exposes `device`.
    ///
    /// # Errors
    /// If the machine lacks a feature or refuses the device. After an error no mount, loop device
    /// or directory of this call is left.
    fn serve(&self, device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>) -> Result<Served>;
}

/// A loop device over a FUSE file. Works with any kernel that supports loop devices and FUSE.
pub struct FuseLoop {
    /// Parent directory of the FUSE mount.
    pub work: PathBuf,
    /// Whether to attach a loop device immediately. Otherwise only the file is served, so that
    /// another process can [`attach`] it.
    pub attached: bool,
}

/// Returns whether the machine has `ublk`, the kernel's interface for block devices in user space.
/// `ublk` needs neither a FUSE file nor a loop device.
pub fn ublk() -> &'static str {
    match Path::new("/dev/ublk-control").exists() {
        true => "this kernel has ublk; this build does not use it",
        false => "this kernel has no ublk (or its module is not loaded: modprobe ublk_drv)",
    }
}

impl FrontEnd for FuseLoop {
    fn name(&self) -> &'static str {
        "fuse+loop"
    }

    fn available(&self) -> std::result::Result<(), String> {
        fuse::available().and_then(|()| loops::available())
    }

    fn serve(&self, device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>) -> Result<Served> {
        let dir = mounts::new_directory(&self.work)?;
        // From here on, dropping `served` removes the directory, the mount and the loop device.
        let mut served = Served { node: dir.join("disk"), dir, thread: None };
        let has_file = device.backing().is_some();
        let Serving { thread, passes_on } = fuse::serve(device, desk, &served.dir, mounts::SOURCE)?;
        served.thread = Some(thread);
        if self.attached {
            let disk = served.dir.join("disk");
            // When the served file `disk` is opened, the server learns whether the kernel accesses
            // the backing file directly. If so, the loop device uses the page cache instead of
            // direct I/O, so dirty pages may wait in memory.
            let opened = has_file.then(|| fs::File::open(&disk));
            let direct = !passes_on.load(Ordering::SeqCst);
            drop(opened);
            served.node = attach_as(&disk, LoopForm { autoclear: false, direct })?.node;
        }
        Ok(served)
    }
}

/// A device that is exposed to the machine. Dropping this value removes the device and ignores
/// errors. [`stop`](Served::stop) removes the device too and returns errors.
#[derive(Debug)]
pub struct Served {
    dir: PathBuf,
    node: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Returns the path of the block device, or of the file if no loop device is attached.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Returns the path of the statistics, a JSON file. Only other processes may read it.
    pub fn stats(&self) -> PathBuf {
        self.dir.join("stats")
    }

    /// Returns the path of the control file: another process writes a command into it, and the
    /// [`Desk`] of this device executes the command. The process that serves the device must not
    /// write to the file.
    pub fn control(&self) -> PathBuf {
        self.dir.join("control")
    }

    /// Limits reads and writes to `bytes_per_s` each, until the device's removal begins.
    ///
    /// # Errors
    /// If the path is not a block device, or if the kernel [cannot limit it](limits::available).
    pub fn limit(&self, bytes_per_s: NonZeroU64) -> Result<()> {
        limits::set(&self.node, bytes_per_s)
    }

    /// Returns an empty directory to mount the device at.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Returns whether the device is being served. False after the device's removal and after a
    /// failure of its thread.
    pub fn is_served(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Unmounts all mounts of the device and removes it.
    ///
    /// # Errors
    /// If the device is in use. The device then stays, and the caller may call `stop` again. Also
    /// returns an error if the serving thread panicked, because [the device was not
    /// served](Served::is_served) until its end.
    pub fn stop(&mut self) -> Result<()> {
        if !self.dir.as_os_str().is_empty() {
            mounts::take_down(&self.dir)?;
            self.dir = PathBuf::new();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| Error::Io {
                what: "serve the device".into(),
                source: std::io::Error::other("its thread panicked"),
            })?;
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("not removed: {error}");
        }
    }
}

/// Prepares this process for serving a device: locks its memory and exempts it from the OOM
/// killer. Returns a text for each step that the system refused. Without these steps, serving
/// works only as long as there is enough memory.
pub fn ready_process() -> Vec<String> {
    /// Flag of `mlockall`: lock each page when it is first touched, and do not prefault pages.
    /// `nix` does not define the flag.
    const ON_FAULT: i32 = 4;
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | MlockAllFlags::from_bits_retain(ON_FAULT);
    let steps = [
        ("keep its memory from being swapped (mlockall)", mlockall(all).map_err(std::io::Error::from)),
        ("ask to be spared when memory is short (oom_score_adj)", fs::write("/proc/self/oom_score_adj", "-1000")),
        ("tell the kernel that it serves writes (PR_SET_IO_FLUSHER)", kernel::be_io_flusher().map_err(Into::into)),
    ];
    let refused = |(what, done): (&str, std::io::Result<()>)| done.err().map(|error| format!("{what}: {error}"));
    steps.into_iter().filter_map(refused).collect()
}

/// The id that is part of the name of the next directory that this process creates.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
