//! A block device as a file: a FUSE file system of a few files, served by one thread, without any library.
//!
//! ```text
//! disk      the device: reads, writes, fsync (flush), punched holes (discard), zeroed ranges
//! stats     what was asked of it so far, and what the device tells of itself, as JSON
//! control   takes orders, one a write
//! mnt       an empty directory, to mount the device at
//! ```
//! One thread serves, so requests have one order, the one that a recorder writes down. The file is opened around the page
//! cache: nothing is held back, merged or reordered between the block layer and the device. Of a device with a file behind it the kernel
//! reads and writes that file itself, where it can, and asks for everything else.
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

/// The type under which such mounts stand in the kernel's list.
pub const FILE_SYSTEM: &str = "fuse.terrace-ssd";
const DEVICE: &str = "/dev/fuse";

const ROOT: u64 = 1;
const DISK: u64 = 2;
const STATS: u64 = 3;
const CONTROL: u64 = 4;
const MOUNT_POINT: u64 = 5;
/// The files, in the order in which they are listed.
const FILES: [(u64, &str); 4] = [(DISK, "disk"), (STATS, "stats"), (CONTROL, "control"), (MOUNT_POINT, "mnt")];

/// What [`serve`] has begun.
pub struct Serving {
    /// It ends when the file system is unmounted.
    pub thread: JoinHandle<()>,
    /// Whether the kernel reads and writes a file behind the device itself: known once `disk` was opened.
    pub passes_on: Arc<AtomicBool>,
}

/// Mounts `device` below the directory `at` and serves it on a thread of its own, until it is unmounted. `source` stands in
/// the list of mounts.
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
    /// Requests are read from it, replies written to it; the kernel ends the file system when it is closed.
    kernel: File,
    device: Arc<dyn BlockDevice>,
    desk: Arc<dyn Desk>,
    tally: Tally,
    /// By handle, what `stats` said when it was opened: read in parts it is still one text.
    texts: HashMap<u64, String>,
    /// Opens so far: the last handle.
    opened: u64,
    /// The number of the file behind the device, once the kernel knows it.
    behind: Option<i32>,
    /// See [`Serving`].
    passes_on: Arc<AtomicBool>,
    /// Where the data of a read is put together. The write path allocates nothing of its own, as memory may be short
    /// exactly because the kernel waits for this write.
    reply: Vec<u8>,
}

/// How a request ends: with a result, or an error number.
type Answer = std::result::Result<Vec<u8>, Errno>;

impl Server {
    /// Until the file system is unmounted.
    fn run(&mut self) {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            match self.kernel.read(&mut buffer) {
                Ok(length) => self.answer(&buffer[..length]),
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    // Interrupted, or a request taken back before it was read.
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

    /// A read of the disk: the reply is put together in place, as it may be long.
    fn read(&mut self, unique: u64, offset: u64, len: u32) {
        let left = self.device.len_bytes().saturating_sub(offset);
        let len = (len as usize).min(DATA_MAX).min(usize::try_from(left).unwrap_or(usize::MAX));
        let done = self.device.read_at(offset, &mut self.reply[REPLY_HEAD..REPLY_HEAD + len]);
        match self.tally.read(len, done) {
            Ok(()) => self.send(REPLY_HEAD + len, unique, 0),
            Err(errno) => self.send(REPLY_HEAD, unique, errno as i32),
        }
    }

    /// A reply that the kernel does not want any more is nobody's loss.
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

    /// What changes the device.
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
            // The kernel asks no more for what it once was told does not exist: extended attributes, seeks.
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

    /// The number of the file behind the device. A kernel that refuses reads and writes by way of this process.
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

/// Whether this machine can mount such a file system.
pub fn available() -> std::result::Result<(), String> {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{DEVICE} is missing: the kernel has no FUSE, or its module is not loaded (modprobe fuse)"))
        }
        Err(error) => Err(format!("{DEVICE}: {error}")),
    }
}
