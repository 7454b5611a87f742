//! Block devices whose contents are in a regular file, and real block devices. A sparse file
//! occupies disk space only for the blocks that were written.
use std::fs::{self, TryLockError};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, PosixFadviseAdvice, fallocate, fcntl, posix_fadvise};
use nix::libc::{O_EXCL, O_NONBLOCK};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::check_range;
use crate::{BlockDevice, Error, Result, Stream, aligned::Aligned, flushers::Flushers, loops, node, reread, rewrite};

const BLOCK: u32 = 4096;
/// Maximum size in bytes of a folio (a group of pages in the kernel's page cache).
const FOLIO_BYTES: u64 = 2 << 20;

/// A block device in a regular file, or a real block device. The process that opens it locks it
/// against other processes.
///
/// In a regular file, a discard or a zeroing punches a hole. If the file system cannot punch
/// holes, the range is overwritten with zeros. On a real device, a discard fails if the device
/// does not support discards, and a discarded range may keep its contents.
pub struct File {
    /// The object that the caller attached to the descriptor with [`guarded`](File::guarded). It
    /// must be dropped before the descriptor is closed.
    guard: Option<Box<dyn Send + Sync>>,
    file: fs::File,
    path: PathBuf,
    len: u64,
    /// Whether this is a real block device.
    is_node: bool,
    /// Runs flushes. `None` if the device was opened read-only.
    flushers: Option<Flushers>,
    /// Whether discards are ignored, so that the file keeps all its allocated disk space.
    keeps: bool,
    /// Whether to bypass the page cache, which requires aligned memory.
    direct: bool,
    /// Whether this is an anonymous memory file.
    is_memory: bool,
}

impl File {
    /// Creates a device of `len` zero bytes.
    ///
    /// # Errors
    /// If `len` is not a multiple of 4096, or if the file exists or cannot be created.
    pub fn create(path: &Path, len: u64) -> Result<File> {
        check_len(len)?;
        let made = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = made.map_err(|source| failed("create", path, source))?;
        file.set_len(len).map_err(|source| failed("give its length to", path, source))?;
        File::locked(file, path, len)
    }

    /// Creates a device of `len` zero bytes in an anonymous memory file. Discarded memory is
    /// returned to the system.
    ///
    /// # Errors
    /// Same as for [`create`](File::create).
    pub fn in_memory(len: u64) -> Result<File> {
        const NAME: &str = "terrace-drive";
        check_len(len)?;
        let made = memfd_create(NAME, MFdFlags::MFD_CLOEXEC);
        let file = fs::File::from(made.map_err(|error| failed("make", Path::new(NAME), error.into()))?);
        file.set_len(len).map_err(|source| failed("give its length to", Path::new(NAME), source))?;
        let mut made = File::locked_as(file, Path::new(NAME), len, false)?;
        made.is_memory = true;
        Ok(made)
    }

    /// Opens an existing device. A real block device is opened exclusively: the kernel refuses to
    /// open it while it is mounted, used as swap, or part of another device. A partial block at the
    /// end of a real device is ignored.
    ///
    /// # Errors
    /// If the file is missing, if its length is not a multiple of 4096, or if another process uses
    /// it directly or through a loop device.
    pub fn open(path: &Path) -> Result<File> {
        let is_node = is_node(path);
        let flags = if is_node { O_EXCL } else { 0 };
        let mut file = open_device(fs::OpenOptions::new().read(true).write(true), flags, path)?;
        let len = length(&mut file, path)?;
        let device = File::locked(file, path, len)?;
        refuse_both(path, is_node)?; // a later open of the other path finds the lock
        Ok(device)
    }

    /// Opens an existing device for reading, concurrently with other readers. Writes fail.
    ///
    /// # Errors
    /// Same as for [`open`](File::open), but the file may be in use by a loop device.
    pub fn open_read_only(path: &Path) -> Result<File> {
        let mut file = open_device(fs::OpenOptions::new().read(true), 0, path)?;
        let len = length(&mut file, path)?;
        let is_node = is_node(path);
        let locked = patiently(is_node, || file.try_lock_shared());
        locked.map_err(|refused| failed("lock", path, refused.into()))?;
        Ok(File {
            guard: None,
            file,
            path: path.to_owned(),
            len,
            is_node,
            flushers: None,
            keeps: false,
            direct: false,
            is_memory: false,
        })
    }

    /// Keeps the space of a file allocated, so that no later write fails because the file system is
    /// full. Discards are ignored, and zeroed ranges are overwritten with zeros. A real device
    /// still discards.
    pub fn keeping(mut self) -> File {
        self.keeps = !self.is_node;
        self
    }

    /// Calls `guard` with the locked descriptor and keeps the returned object. The object is
    /// dropped before the descriptor is closed.
    pub fn guarded(mut self, guard: impl FnOnce(BorrowedFd<'_>) -> Box<dyn Send + Sync>) -> File {
        self.guard = Some(guard(self.file.as_fd()));
        self
    }

    /// Switches to direct I/O, which bypasses the page cache.
    ///
    /// # Errors
    /// If the file system does not support direct I/O.
    pub fn direct(mut self) -> Result<File> {
        let flags = fcntl(&self.file, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
        let set = flags.and_then(|flags| fcntl(&self.file, FcntlArg::F_SETFL(flags | OFlag::O_DIRECT)));
        set.map_err(|error| failed("read and write past the page cache of", &self.path, error.into()))?;
        self.direct = true;
        Ok(self)
    }

    /// Allocates all space of the file, so that no later write fails because the file system is
    /// full. No effect on a real device.
    ///
    /// # Errors
    /// If the file system is full or does not support allocation.
    pub fn allocate(&self) -> Result<()> {
        // The conversion loses no bits, because the length of a file always fits `i64`.
        let all = fallocate(self.file.as_fd(), FallocateFlags::empty(), 0, self.len as i64);
        if self.is_node { Ok(()) } else { all.map_err(|error| failed("allocate", &self.path, error.into())) }
    }

    fn locked(file: fs::File, path: &Path, len: u64) -> Result<File> {
        File::locked_as(file, path, len, is_node(path))
    }

    fn locked_as(file: fs::File, path: &Path, len: u64, is_node: bool) -> Result<File> {
        let locked = patiently(is_node, || file.try_lock());
        locked.map_err(|refused| failed("lock", path, refused.into()))?;
        let flushers = Flushers::new(&file, len, is_node).map_err(|source| failed("open again", path, source))?;
        let flushers = Some(flushers);
        let (path, guard) = (path.to_owned(), None);
        Ok(File { guard, file, path, len, is_node, flushers, keeps: false, direct: false, is_memory: false })
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        check_range(offset, len, BLOCK, self.len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // The conversions lose no bits, because no file is longer than `off_t` can express.
        match fallocate(self.file.as_fd(), flags, offset as i64, len as i64) {
            Err(nix::Error::EOPNOTSUPP) => self.zero(offset, len),
            done => done.map_err(|error| failed("punch", &self.path, error.into())),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        let zeros = [0; BLOCK as usize];
        let mut blocks = (offset..offset + len).step_by(zeros.len());
        blocks.try_for_each(|at| self.write_at(at, &zeros, Stream(0)))
    }
}

/// Unlocks the file explicitly, because closing the descriptor may not be enough. While another
/// thread forks a child process, the child has a copy of the descriptor. This copy keeps the lock
/// until the child calls exec.
impl Drop for File {
    fn drop(&mut self) {
        let _ = self.file.unlock(); // closing follows and unlocks as well
    }
}

impl BlockDevice for File {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn block_bytes(&self) -> u32 {
        BLOCK
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        let read = match self.direct {
            true => Aligned::new(into.len()).read(&self.file, offset, into),
            false => self.file.read_exact_at(into, offset),
        };
        read.map_err(|source| failed("read", &self.path, source))
    }

    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.direct {
            return reread(self, offset, into);
        }
        check_range(offset, into.len() as u64, 1, self.len)?;
        self.file.read_exact_at(into, offset).map_err(|source| failed("read", &self.path, source))
    }

    /// Starts kernel read-ahead. With direct I/O this has no effect, because the page cache is not
    /// used.
    fn expect(&self, offset: u64, len: u64) {
        let wanted = len > 0 && !self.direct; // length 0 would mean the rest of the file
        if let (true, Ok(offset), Ok(len)) = (wanted, offset.try_into(), len.try_into()) {
            let _ = posix_fadvise(&self.file, offset, len, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        let written = match self.direct {
            true => self.file.write_all_at(Aligned::new(bytes.len()).holding(bytes), offset),
            false => self.file.write_all_at(bytes, offset),
        };
        written.map_err(|source| failed("write", &self.path, source))
    }

    fn write_part(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        if self.direct {
            return rewrite(self, offset, bytes, stream);
        }
        check_range(offset, bytes.len() as u64, 1, self.len)?;
        self.file.write_all_at(bytes, offset).map_err(|source| failed("write", &self.path, source))
    }

    fn flush(&self) -> Result<()> {
        let flushed = self.flushers.as_ref().map_or(Ok(()), Flushers::flush);
        flushed.map_err(|source| failed("sync", &self.path, source))
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        ranges.iter().try_for_each(|range| self.check(range.start, range.end.saturating_sub(range.start)))?;
        let flushed = self.flushers.as_ref().map_or(Ok(()), |flushers| flushers.flush_ranges(ranges));
        flushed.map_err(|source| failed("sync", &self.path, source))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        if len == 0 || self.direct {
            return Ok(()); // length 0 would mean the rest of the file
        }
        // The kernel drops a folio (a group of cached pages) only as a whole, so the range is
        // widened to whole folios. The conversions to `off_t` lose no bits, because no file is
        // longer than `off_t` can express.
        let (from, to) = (offset - offset % FOLIO_BYTES, (offset + len).next_multiple_of(FOLIO_BYTES).min(self.len));
        posix_fadvise(&self.file, from as i64, (to - from) as i64, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|error| failed("drop cached pages of", &self.path, error.into()))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        if self.is_node {
            return node::discard(&self.file, offset, len).map_err(|source| failed("discard", &self.path, source));
        }
        if self.keeps { Ok(()) } else { self.punch(offset, len) }
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        if self.is_node || self.keeps { self.zero(offset, len) } else { self.punch(offset, len) }
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        (self.is_memory && !self.direct).then(|| self.file.as_fd())
    }
}

/// Takes a lock. On a block device, retries for a second if the lock is taken: when a device is
/// closed, udev locks it briefly to probe its contents.
fn patiently(
    is_node: bool,
    lock: impl Fn() -> std::result::Result<(), TryLockError>,
) -> std::result::Result<(), TryLockError> {
    for _ in 0..if is_node { 50 } else { 0 } {
        match lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    lock()
}

/// Returns an error if two users could access one file in different ways: `path` is a file that a
/// loop device uses, or a loop device whose backing file is already open as a [`File`].
fn refuse_both(path: &Path, is_node: bool) -> Result<()> {
    if is_node {
        let Some(Ok(below)) = loops::below(path).map(fs::File::open) else { return Ok(()) };
        let locked = patiently(is_node, || below.try_lock_shared());
        return locked.map_err(|refused| failed("lock the backing file", path, refused.into()));
    }
    let Some(node) = loops::over(path) else { return Ok(()) };
    let what = format!("open {}, which backs {}", path.display(), node.display());
    Err(Error::Io { what, source: ErrorKind::ResourceBusy.into() })
}

/// Opens a block device or a regular file. Any other kind of file is an error. The call never
/// blocks on a FIFO.
fn open_device(how: &mut fs::OpenOptions, flags: i32, path: &Path) -> Result<fs::File> {
    let opened = how.custom_flags(flags | O_NONBLOCK).open(path);
    let file = opened.map_err(|source| failed("open", path, source))?;
    let kind = file.metadata().map_err(|source| failed("look at", path, source))?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(file);
    }
    let source = std::io::Error::new(ErrorKind::InvalidInput, "it is neither a block device nor a regular file");
    Err(failed("open", path, source))
}

/// Returns whether the path is a block device.
fn is_node(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// Returns the size of a device, rounded down to whole blocks. The sectors of a real device may be
/// smaller than a block.
fn length(file: &mut fs::File, path: &Path) -> Result<u64> {
    let len = file.seek(SeekFrom::End(0)).map_err(|source| failed("look at", path, source))?;
    let len = if is_node(path) { len - len % u64::from(BLOCK) } else { len };
    check_len(len)?;
    Ok(len)
}

fn check_len(len: u64) -> Result<()> {
    if len == 0 || !len.is_multiple_of(BLOCK.into()) {
        let why = format!("{len} bytes: the size must be a positive multiple of {BLOCK}");
        return Err(Error::Impossible { field: "length", why });
    }
    Ok(())
}

fn failed(what: &str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    const MIB: usize = 1 << 20;

    #[test]
    fn only_written_blocks_occupy_space() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        let device = File::create(&path, 64 << 20).unwrap();
        device.write_at(MIB as u64, &vec![7; MIB], Stream(0)).unwrap();
        device.flush().unwrap();
        let full = fs::metadata(&path).unwrap().blocks();
        device.discard(MIB as u64, MIB as u64 / 2).unwrap();
        device.write_zeroes(2 * MIB as u64 - 4096, 4096).unwrap();
        assert!(full >= MIB as u64 / 512 && full < 2 * MIB as u64 / 512, "{full} sectors");
        let left = fs::metadata(&path).unwrap().blocks();
        assert!(left < full, "{left} of {full} sectors");
        drop(device);
        let device = File::open(&path).unwrap();
        let mut read = vec![1; MIB];
        device.read_at(MIB as u64, &mut read).unwrap();
        let kept = MIB / 2..MIB - 4096;
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == if kept.contains(&at) { 7 } else { 0 }));
        device.zero(MIB as u64, MIB as u64).unwrap();
        device.read_at(MIB as u64, &mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_preallocated_file_keeps_its_space_after_a_discard() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        let device = File::create(&path, 4 << 20).unwrap().keeping();
        device.allocate().unwrap();
        device.write_at(0, &vec![7; MIB], Stream(0)).unwrap();
        device.discard(0, MIB as u64).unwrap();
        device.write_zeroes(MIB as u64 / 2, 8192).unwrap();
        device.flush().unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() >= 4 * MIB as u64 / 512);
        assert!(device.discard(4 << 20, 4096).is_err());
    }

    #[test]
    fn existing_files_are_not_created_and_busy_ones_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive");
        let device = File::create(&path, 4096).unwrap();
        let name = path.to_str().unwrap();
        for refused in [File::create(&path, 4096), File::open(&path), File::open(&directory.path().join("drive.no"))] {
            let refused = refused.err().unwrap().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        drop(device);
        fs::write(&path, "short").unwrap();
        assert!(matches!(File::open(&path), Err(Error::Impossible { field: "length", .. })));
    }

    #[test]
    fn direct_and_unaligned_writes_give_the_same_contents() {
        let directory = tempfile::tempdir().unwrap();
        for direct in [false, true] {
            let path = directory.path().join(format!("{direct}"));
            let device = File::create(&path, MIB as u64).unwrap();
            let device = match if direct { device.direct() } else { Ok(device) } {
                Ok(device) => device,
                Err(why) => {
                    println!("skipped: {why}");
                    continue;
                }
            };
            device.write_at(8192, &[1; 12288], Stream(0)).unwrap();
            device.write_part(8190, &[2; 5000], Stream(0)).unwrap();
            device.write_zeroes(16384, 4096).unwrap();
            device.flush().unwrap();
            let mut read = vec![9; 16384];
            device.read_at(4096, &mut read).unwrap();
            let wanted = [&[0; 4094][..], &[2; 5000], &[1; 3194], &[0; 4096]].concat();
            assert!(read == wanted, "direct: {direct}");
            assert!(device.write_part(MIB as u64 - 1, &[1; 2], Stream(0)).is_err());
        }
    }
}
