//! Exposes a block device as a file: a FUSE file system with a few files, served by one thread.
//!
//! ```text
//! disk      the device: reads, writes, fsync (flush), punched holes (discard), zeroed ranges
//! stats     request counters and the device's own statistics, as JSON
//! control   accepts commands, one per write
//! mnt       an empty directory, a mount point for the device
//! ```
//! A single thread serves the requests one after another. A recorder between the server and the
//! device therefore records the requests in this order. The file `disk` is opened with direct I/O,
//! so nothing is cached, merged or reordered between the block layer and the device. If the device
//! has a backing file, the kernel reads and writes that file directly where it can (FUSE
//! passthrough). The server receives all other requests.
use super::{
    Desk,
    kernel::open_backing,
    tally::Tally,
    wire::{Attributes, DATA_MAX, Op, REPLY_HEAD, REQUEST_MAX, Reply, Request, head},
};
use crate::{BlockDevice, Error, Result, Stream};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// The file-system type of the server's FUSE mounts in the kernel's mount table.
pub const FILE_SYSTEM: &str = "fuse.terrace-ssd";
const DEVICE: &str = "/dev/fuse";

const ROOT: u64 = 1;
const DISK: u64 = 2;
const STATS: u64 = 3;
const CONTROL: u64 = 4;
const MOUNT_POINT: u64 = 5;
/// The files of the file system, in directory order.
const FILES: [(u64, &str); 4] = [(DISK, "disk"), (STATS, "stats"), (CONTROL, "control"), (MOUNT_POINT, "mnt")];

/// A running server, the result of [`serve`].
pub struct Serving {
    /// The thread that serves the requests. It ends when the file system is unmounted.
    pub thread: JoinHandle<()>,
    /// Whether the kernel reads and writes the backing file directly. Valid only after `disk` was
    /// opened for the first time.
    pub passes_on: Arc<AtomicBool>,
}

/// Mounts `device` in the directory `at` and serves it on a new thread until it is unmounted.
/// `source` appears in the mount table.
pub fn serve(device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>, at: &Path, source: &str) -> Result<Serving> {
    let kernel = File::options().read(true).write(true).open(DEVICE);
    let kernel = kernel.map_err(|source| Error::Io { what: format!("open {DEVICE}"), source })?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", kernel.as_raw_fd());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOATIME;
    mount(Some(source), at, Some(FILE_SYSTEM), flags, Some(options.as_str()))
        .map_err(|errno| Error::Io { what: format!("mount {}", at.display()), source: errno.into() })?;
    let reply = vec![0; REPLY_HEAD + DATA_MAX];
    let (tally, texts, passes_on) = (Tally::default(), HashMap::new(), Arc::new(AtomicBool::new(false)));
    let told = passes_on.clone();
    let mut server = Server { kernel, device, desk, tally, texts, opened: 0, behind: None, passes_on: told, reply };
    let thread = thread::Builder::new().name("serve".into()).spawn(move || server.run());
    let thread = thread.map_err(|source| Error::Io { what: "start a thread".into(), source })?;
    Ok(Serving { thread, passes_on })
}

struct Server {
    /// The FUSE connection; closing it ends the file system.
    kernel: File,
    device: Arc<dyn BlockDevice>,
    desk: Arc<dyn Desk>,
    tally: Tally,
    /// The text of `stats` for each open file handle. The server makes the text when the file is
    /// opened, so that all reads through one handle return parts of the same text.
    texts: HashMap<u64, String>,
    /// Number of opens so far, which is also the last handle.
    opened: u64,
    /// The id under which the kernel knows the backing file of the device. `None` until the file is
    /// registered.
    behind: Option<i32>,
    /// Whether the kernel accesses the backing file directly; see [`Serving`].
    passes_on: Arc<AtomicBool>,
    /// Reply buffer for reads. Writes are served without any allocation, because the kernel may be
    /// unable to free memory until the write is done.
    reply: Vec<u8>,
}

/// The outcome of a request: the encoded result or an error number.
type Answer = std::result::Result<Vec<u8>, Errno>;

impl Server {
    /// Serves requests until the file system is unmounted.
    fn run(&mut self) {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            match self.kernel.read(&mut buffer) {
                Ok(length) => self.answer(&buffer[..length]),
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    // The read was interrupted, or the kernel withdrew the request before this
                    // thread read it.
                    Some(Errno::EINTR | Errno::ENOENT | Errno::EAGAIN) => {}
                    _ => return, // unmounted or aborted
                },
            }
        }
    }

    fn answer(&mut self, bytes: &[u8]) {
        let Some(request) = Request::read(bytes) else { return };
        let unique = request.unique;
        let answer = match request.op {
            Op::Forget => return,
            Op::Read { offset, len, .. } if request.node == DISK => return self.read(unique, offset, len),
            op => self.result(request.node, op),
        };
        let (error, result) = match &answer {
            Ok(result) => (0, &result[..]),
            Err(errno) => (*errno as i32, &[][..]),
        };
        let length = REPLY_HEAD + result.len();
        self.reply[REPLY_HEAD..length].copy_from_slice(result);
        self.send(length, unique, error);
    }

    /// Serves a read of the disk into the reply buffer.
    fn read(&mut self, unique: u64, offset: u64, len: u32) {
        let left = self.device.len_bytes().saturating_sub(offset);
        let len = (len as usize).min(DATA_MAX).min(usize::try_from(left).unwrap_or(usize::MAX));
        let done = self.device.read_at(offset, &mut self.reply[REPLY_HEAD..REPLY_HEAD + len]);
        match self.tally.read(len, done) {
            Ok(()) => self.send(REPLY_HEAD + len, unique, 0),
            Err(errno) => self.send(REPLY_HEAD, unique, errno as i32),
        }
    }

    /// Sends a reply. Ignores errors: the kernel may have abandoned the request.
    fn send(&mut self, length: usize, unique: u64, error: i32) {
        let reply = &mut self.reply[..length];
        head(reply, unique, error);
        let _ = self.kernel.write(reply);
    }

    fn result(&mut self, node: u64, op: Op<'_>) -> Answer {
        match op {
            Op::Init { major: 7, readahead } => Ok(Reply::init(readahead, self.device.backing().is_some())),
            Op::Init { .. } => Err(Errno::EPROTO),
            Op::Lookup(name) if node == ROOT => {
                let found = FILES.iter().find(|(_, known)| known.as_bytes() == name);
                found.map(|(node, _)| Reply::entry(self.file(*node))).ok_or(Errno::ENOENT)
            }
            Op::Attributes => Ok(Reply::attributes(self.file(node))),
            Op::Open => Ok(Reply::open(self.open(node), if node == DISK { self.behind() } else { None })),
            Op::Release { handle } => {
                self.texts.remove(&handle);
                Ok(Vec::new())
            }
            Op::Statistics => Ok(Reply::statistics(self.device.len_bytes(), self.device.block_bytes().max(4096))),
            Op::Lookup(_) => Err(Errno::ENOENT),
            Op::List { offset, len } if node == ROOT => Ok(Reply::list(&FILES, offset, len)),
            Op::List { .. } => Ok(Vec::new()),
            Op::Read { handle, offset, len } if node == STATS => Ok(self.stats(handle, offset, len)),
            Op::Read { .. } => Ok(Vec::new()),
            Op::Write { bytes, .. } if node == CONTROL => self.order(bytes),
            op if node == DISK => self.change(op),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Executes a request that changes the device.
    fn change(&mut self, op: Op<'_>) -> Answer {
        let device = &self.device;
        match op {
            Op::Write { offset, bytes } => {
                self.tally.write(bytes.len(), device.write_at(offset, bytes, Stream::default()))?;
                return Ok(Reply::written(bytes.len() as u32));
            }
            Op::Flush => self.tally.flush(device.flush())?,
            Op::Discard { offset, len } => self.tally.discard(len, device.discard(offset, len))?,
            Op::Zero { offset, len } => self.tally.zero(len, device.write_zeroes(offset, len))?,
            // After the reply ENOSYS the kernel sends no more requests of this kind. Examples are
            // extended attributes and seeks.
            _ => return Err(Errno::ENOSYS),
        }
        Ok(Vec::new())
    }

    fn order(&self, bytes: &[u8]) -> Answer {
        let order = std::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
        match self.desk.order(order.trim()) {
            Ok(()) => Ok(Reply::written(bytes.len() as u32)),
            Err(_) => Err(Errno::EINVAL),
        }
    }

    /// Registers the device's backing file with the kernel, which can then read and write the file
    /// directly. Returns the kernel's id of the file. If the kernel refuses, returns `None`, and
    /// this process serves the reads and writes.
    fn behind(&mut self) -> Option<i32> {
        self.behind = self.behind.or_else(|| open_backing(&self.kernel, self.device.backing()?).ok());
        self.passes_on.store(self.behind.is_some(), Ordering::SeqCst);
        self.behind
    }

    fn open(&mut self, node: u64) -> u64 {
        self.opened += 1;
        if node == STATS {
            let text = format!("{{\"requests\":{},\"device\":{}}}\n", self.tally, self.desk.stats());
            self.texts.insert(self.opened, text);
        }
        self.opened
    }

    fn stats(&self, handle: u64, offset: u64, len: u32) -> Vec<u8> {
        let text = self.texts.get(&handle).map_or(&[][..], |text| text.as_bytes());
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let len = (len as usize).min(DATA_MAX).min(text.len() - from);
        text[from..from + len].to_vec()
    }

    fn file(&self, node: u64) -> Attributes {
        let (bytes, mode) = match node {
            ROOT | MOUNT_POINT => (0, 0o040755),
            DISK => (self.device.len_bytes(), 0o100600),
            STATS => (0, 0o100444),
            _ => (0, 0o100200),
        };
        Attributes { node, bytes, mode }
    }
}

/// Returns an error with the reason if this machine cannot mount a FUSE file system.
pub fn available() -> std::result::Result<(), String> {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{DEVICE} is missing: the kernel has no FUSE, or its module is not loaded (modprobe fuse)"))
        }
        Err(error) => Err(format!("{DEVICE}: {error}")),
    }
}
