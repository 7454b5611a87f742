//! A device of ours as a block device of the machine: `mkfs`, `mount` and any database work on it.
//!
//! ```text
//! file system ─ /dev/loopN ─ file `disk` of a FUSE mount ─ one thread ─ BlockDevice
//! ```
//! | file | question |
//! |---|---|
//! | `fuse` | how does a device become a file? |
//! | `wire` | what do the kernel's requests look like? |
//! | `tally` | what was asked so far? |
//! | `loops` | how does a file become a block device? |
//! | `limits` | how fast is it, where the kernel keeps that? |
//! | `mounts` | what stands on it, and how is it taken down? |
//! | `kernel` | the system calls that nobody wraps |
//!
//! Flushes, discards and zeroed ranges arrive one for one; a write that must be durable at once arrives as a write and a
//! flush. Root is needed.
//!
//! The process that serves must not wait for its own device: it must not look at a file on it, nor call `sync`, nor unmount
//! it. A process that hangs on a device whose server is a thread of its own cannot even be killed.
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

/// What stands beside a served device: a text that tells, and a place for orders.
pub trait Desk: Send + Sync {
    /// What the device tells of itself, as one JSON value.
    fn stats(&self) -> String {
        "null".into()
    }

    /// Takes an order; the error says what is wrong with it.
    fn order(&self, order: &str) -> std::result::Result<(), String> {
        Err(format!("'{order}': this device takes no orders"))
    }
}

/// A device that tells nothing and takes no orders.
pub struct NoDesk;

impl Desk for NoDesk {}

/// A way to show a device to the machine.
pub trait FrontEnd {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether this machine can do it; else why not, and what would help.
    fn available(&self) -> std::result::Result<(), String>;

    /// Shows `device`.
    ///
    /// # Errors
    /// The machine lacks something, or refuses; nothing is left behind.
    fn serve(&self, device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>) -> Result<Served>;
}

/// A FUSE file under a loop device: works with any kernel that has both.
pub struct FuseLoop {
    /// Where the FUSE file system gets its directory.
    pub work: PathBuf,
    /// Whether a loop device is made at once. Else only the file is served, for [`attach`] in another process.
    pub attached: bool,
}

/// What can be said of `ublk`, the kernel's own way for block devices in user space, which needs neither file nor loop.
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
        // From here on dropping it takes everything down.
        let mut served = Served { node: dir.join("disk"), dir, thread: None };
        let has_file = device.backing().is_some();
        let Serving { thread, passes_on } = fuse::serve(device, desk, &served.dir, mounts::SOURCE)?;
        served.thread = Some(thread);
        if self.attached {
            let disk = served.dir.join("disk");
            // Whether the kernel reads and writes the file itself is known once it was opened. Then its pages may wait in memory.
            let opened = has_file.then(|| fs::File::open(&disk));
            let direct = !passes_on.load(Ordering::SeqCst);
            drop(opened);
            served.node = attach_as(&disk, LoopForm { autoclear: false, direct })?.node;
        }
        Ok(served)
    }
}

/// A device that the machine sees. Dropping it takes it down; [`stop`](Served::stop) says whether that worked.
#[derive(Debug)]
pub struct Served {
    dir: PathBuf,
    node: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// The block device; the file, if none was attached.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// What was asked of it so far, as JSON. Only for other processes.
    pub fn stats(&self) -> PathBuf {
        self.dir.join("stats")
    }

    /// Takes orders for the [`Desk`]. Only for other processes.
    pub fn control(&self) -> PathBuf {
        self.dir.join("control")
    }

    /// Has the kernel let at most so many bytes pass in a second, each way, until taking it down begins.
    ///
    /// # Errors
    /// It is no block device, or the kernel [cannot](limits::available).
    pub fn limit(&self, bytes_per_s: NonZeroU64) -> Result<()> {
        limits::set(&self.node, bytes_per_s)
    }

    /// An empty directory, to mount it at.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Whether it is served: not if it was taken down, by us or by others, and not if serving it has failed.
    pub fn is_served(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Unmounts what is mounted on it and takes it down.
    ///
    /// # Errors
    /// Something still uses it. Then it goes on, and this may be called again. Or it is down, and
    /// [was not served](Served::is_served) to the end: its thread panicked.
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
            eprintln!("left behind: {error}");
        }
    }
}

/// Readies this process for serving: its memory stays, and the kernel spares it when memory is short. What was refused is
/// returned, one reason each; serving works without, as long as memory does not run out.
pub fn ready_process() -> Vec<String> {
    /// Pages are kept once they have been touched, not fetched ahead: `nix` does not name it.
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

/// Numbers the directories of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
