//! Calls of the Linux kernel that have no safe wrapper: mapping a part of a growing file (a
//! window), writeback without a journal commit, an exchange of names, and batch scheduling. The
//! other `unsafe` code of this crate is in `mapping/`, `pages.rs`, `bpf/kernel.rs`,
//! `process/child.rs` and `portable/system/windows.rs`.
use crate::mapping::{Registration, WINDOWS, watch};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
    libc::{self, off_t},
    sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap},
};
use std::{
    ffi::{CStr, CString, OsString, c_void},
    fs::File,
    io,
    num::{NonZeroU64, NonZeroUsize},
    ops::Range,
    os::{
        fd::{AsRawFd, IntoRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
    ptr::{self, NonNull},
};

/// The scheduler slice of a background thread in nanoseconds. Other threads have slices of 3 ms or
/// less. Because this slice is longer, the scheduler lets other threads preempt the background
/// thread.
const TURN_NS: u64 = 20_000_000;

/// A mapped range of a file that is being written. Bytes that are copied into it are immediately
/// in the page cache and survive the end of the process.
///
/// # When the device fails
/// If a page cannot be read back, the process ends (`SIGBUS`) with a message that names the file.
/// This happens if the file was truncated, or if the kernel had evicted a page under memory
/// pressure and the device failed to return it. The effect is that of a kill, which loses no
/// acknowledged write. A full disk does not end the process, because the range is allocated before
/// it is mapped.
pub(crate) struct Window {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
    /// Lets the handler of SIGBUS name the file; removed before the range is unmapped.
    registration: Option<Registration>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and it is written only through
// `&mut self`.
unsafe impl Send for Window {}
// SAFETY: the mapping belongs to the process, not to a thread, and only `&mut self` writes it.
// `touch` takes a shared reference, but it changes no byte.
unsafe impl Sync for Window {}

impl Window {
    /// Allocates `bytes` bytes of `file` from `offset`, a multiple of the page size, and maps them.
    pub fn map(file: &File, offset: u64, bytes: NonZeroUsize) -> io::Result<Window> {
        watch();
        let from = off_t::try_from(offset).map_err(|_| io::Error::from(Errno::EFBIG))?;
        let length = off_t::try_from(bytes.get()).map_err(|_| io::Error::from(Errno::EFBIG))?;
        fallocate(file, FallocateFlags::empty(), from, length)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced. The range lies
        // within the file, which was just extended to the end of the range. `self` unmaps the
        // range, and no function returns a pointer into it.
        let start = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, from) }?;
        let registration = WINDOWS.register(start.as_ptr() as usize, bytes.get());
        Ok(Window { start, bytes, registration })
    }

    /// Returns the number of mapped bytes.
    pub fn bytes(&self) -> NonZeroUsize {
        self.bytes
    }

    /// Copies `bytes` to offset `at` and returns the number of bytes that fit.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.bytes.get().saturating_sub(at));
        if count > 0 {
            // SAFETY: `at + count` is at most `self.bytes`, all of which is mapped and writable
            // until `self` is dropped. `bytes` is memory that Rust owns, so it does not overlap
            // this mapping. `&mut self` excludes other writers, and no reference into the mapping
            // exists.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().cast::<u8>().add(at), count) };
        }
        count
    }

    /// Populates the pages of `range`, which begins at a page boundary, and marks them for writing.
    /// The call only improves speed, so a refusal by the kernel is no error.
    pub fn touch(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes.get(), "within the window");
        // SAFETY: the range lies within this mapping; the advice reads and changes no byte of it.
        let _ = unsafe { madvise(self.start.byte_add(range.start), range.len(), MmapAdvise::MADV_POPULATE_WRITE) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.registration = None;
        // SAFETY: `map` mapped exactly this range, and no pointer into the range outlives `self`.
        // The call fails only for ranges that were never mapped.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

/// Allocates space for the first `bytes` bytes of `file`.
pub(crate) fn allocate(file: &File, bytes: NonZeroU64) -> io::Result<()> {
    let bytes = off_t::try_from(bytes.get()).map_err(|_| io::Error::from(Errno::EFBIG))?;
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Deallocates `range` of `file` if the file system supports that. The range then reads as zeros.
pub(crate) fn punch(file: &File, range: Range<u64>) -> io::Result<()> {
    let number = |number: u64| off_t::try_from(number).map_err(|_| io::Error::from(Errno::EFBIG));
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(file, how, number(range.start)?, number(range.end - range.start)?) {
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        punched => Ok(punched?),
    }
}

/// Starts writeback of all bytes written to `file` and waits until it is done. The bytes are then
/// on the device, perhaps in its cache, and the file system has allocated their blocks. The
/// journal of the file system is not committed. The kernel reports a writeback error once for each
/// descriptor, so `file` must be the descriptor of the writer.
pub(crate) fn write_back(file: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    loop {
        // SAFETY: the call takes an open descriptor and numbers. It accesses no memory of this
        // process.
        let outcome = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) };
        match Errno::result(outcome) {
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

/// Exchanges the names of two files or directories. The exchange is atomic even in a crash. Returns
/// `Unsupported` if the file system cannot do that.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
    let (one, other, here) = (name(one)?, name(other)?, libc::AT_FDCWD);
    // SAFETY: the kernel reads two names that end in zero and live until the call returns. The C
    // library has no function for this call everywhere.
    let outcome =
        unsafe { libc::syscall(libc::SYS_renameat2, here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    match Errno::result(outcome) {
        Err(Errno::EINVAL | Errno::ENOSYS) => Err(io::ErrorKind::Unsupported.into()),
        outcome => Ok(outcome.map(drop)?),
    }
}

/// Makes the calling thread, and the threads that it starts later, background threads. When a
/// background thread wakes up, it does not preempt the running thread; it waits for a free
/// processor or for the end of the running thread's slice. The other direction depends on the
/// kernel. On Linux 6.12 and later, which supports long slices, a foreground thread that wakes up
/// preempts a background thread immediately. On older kernels the foreground thread waits some
/// milliseconds until the background thread's slice ends. This scheduling only improves speed, so
/// errors of the system calls are ignored.
pub fn run_in_background() {
    /// The size of the kernel's `sched_attr` in its first version, which has all fields that
    /// Terrace sets.
    const BYTES: u32 = size_of::<libc::sched_attr>() as u32;
    // SAFETY: all fields are numbers, for which zero is a value. Their number depends on the C
    // library.
    let priority: libc::sched_param = unsafe { std::mem::zeroed() };
    let mut how = libc::sched_attr {
        size: BYTES,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: thread id 0 is the calling thread. The kernel reads one number from `priority`. It
    // writes at most `BYTES` bytes into `how`, and later reads `BYTES` bytes from `how`. Both
    // variables live until the calls return.
    unsafe {
        // If the process has chosen another scheduling class, such as real time or idle, the thread
        // keeps that class.
        if libc::sched_getscheduler(0) != libc::SCHED_OTHER {
            return;
        }
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority);
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut how, BYTES, 0) == 0 {
            how.sched_runtime = TURN_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const how, 0);
        }
    }
}

/// Lists the names in the open directory `folder`, without `.` and `..`, in any order. The
/// iterator of the standard library is not used, because it panics if closing the directory
/// returns an error, as network file systems may do.
pub(crate) fn entries(folder: OwnedFd) -> io::Result<Vec<OsString>> {
    let (descriptor, mut found) = (folder.into_raw_fd(), Vec::new());
    // SAFETY: the descriptor is open. From now on the directory stream owns and closes it. If
    // `fdopendir` fails, this function still owns the descriptor and closes it below.
    let list = unsafe { libc::fdopendir(descriptor) };
    if list.is_null() {
        let failed = io::Error::last_os_error();
        // SAFETY: nothing else owns the descriptor.
        unsafe { libc::close(descriptor) };
        return Err(failed);
    }
    let outcome = loop {
        Errno::clear();
        // SAFETY: the list is open, and no other thread uses it.
        let entry = unsafe { libc::readdir64(list) };
        if entry.is_null() {
            break match Errno::last() {
                Errno::UnknownErrno => Ok(()), // 0: the end
                error => Err(error.into()),
            };
        }
        // SAFETY: the name of an entry ends in zero and is valid until the next read of the list.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) }.to_bytes();
        if !matches!(name, b"." | b"..") {
            found.push(OsString::from_vec(name.to_owned()));
        }
    };
    // SAFETY: the list is open and not used any more. A failure says nothing about the entries
    // read.
    unsafe { libc::closedir(list) };
    outcome.map(|()| found)
}
