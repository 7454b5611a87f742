//! What the kernel offers and no safe library does: a mapped window of a file that is being written, writeback of a file
//! without a journal commit, threads that give way, and a word in every forked child. The crate's other `unsafe` is in `mapped_read.rs`,
//! `pages.rs` and `bpf/kernel.rs`.
use crate::mapped_read::watch;
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
    libc::{self, off_t},
    sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap},
};
use std::{
    ffi::{CStr, OsString, c_void},
    fs::File,
    io,
    num::{NonZeroU64, NonZeroUsize},
    ops::Range,
    os::{
        fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    ptr::{self, NonNull},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

/// The turn that a thread with background work asks for, in nanoseconds: well above the 3 ms or less that others get, so that these come first.
const TURN_NS: u64 = 20_000_000;

/// A range of a file in memory: what is copied there is in the page cache at once and survives the end of the process.
///
/// # When the device fails
/// A page that cannot be had any more ends the process (`SIGBUS`) with a message that names the file: somebody has truncated it, or
/// the device failed to give back a page that memory pressure had taken. That is as a kill, which loses nothing acknowledged. A full
/// disk is none of these causes: the range is allocated first.
pub(crate) struct Window {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is written through `&mut self` only.
unsafe impl Send for Window {}
// SAFETY: as above; what a shared reference allows (`touch`) leaves every byte as it is.
unsafe impl Sync for Window {}

impl Window {
    /// Allocates `bytes` of `file` from `offset`, a multiple of the page size, and maps them.
    pub fn map(file: &File, offset: u64, bytes: NonZeroUsize) -> io::Result<Window> {
        watch();
        let from = off_t::try_from(offset).map_err(|_| io::Error::from(Errno::EFBIG))?;
        let length = off_t::try_from(bytes.get()).map_err(|_| io::Error::from(Errno::EFBIG))?;
        fallocate(file, FallocateFlags::empty(), from, length)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced. The range lies within the file, which
        // was just made that long, and `self` unmaps it when nobody can hold a pointer into it: none is handed out.
        let start = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, from) }?;
        Ok(Window { start, bytes })
    }

    /// How many bytes of the file it shows.
    pub fn bytes(&self) -> NonZeroUsize {
        self.bytes
    }

    /// Copies `bytes` to `at`, and returns how many had room.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.bytes.get().saturating_sub(at));
        if count > 0 {
            // SAFETY: `at + count` is at most `self.bytes`, all of which is mapped and writable until `self` is dropped.
            // `bytes` is memory that Rust knows, which this mapping is not, so the two do not overlap. `&mut self` keeps
            // other writers out; no reference into the mapping exists.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().cast::<u8>().add(at), count) };
        }
        count
    }

    /// Has every page of `range`, which begins at one, there and about to be written back. For speed only, so a kernel that
    /// cannot is no failure.
    pub fn touch(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes.get(), "within the window");
        // SAFETY: the range lies within this mapping; the advice reads and changes no byte of it.
        let _ = unsafe { madvise(self.start.byte_add(range.start), range.len(), MmapAdvise::MADV_POPULATE_WRITE) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, mapped by `map` and by nobody else, and no pointer into it outlives `self`.
        let _ = unsafe { munmap(self.start, self.bytes.get()) }; // fails only for ranges that were never mapped
    }
}

/// Allocates the first `bytes` of `file`.
pub(crate) fn allocate(file: &File, bytes: NonZeroU64) -> io::Result<()> {
    let bytes = off_t::try_from(bytes.get()).map_err(|_| io::Error::from(Errno::EFBIG))?;
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Gives back the space of `range` of `file`, where that can be done. What was there reads as zeros.
pub(crate) fn punch(file: &File, range: Range<u64>) -> io::Result<()> {
    let number = |number: u64| off_t::try_from(number).map_err(|_| io::Error::from(Errno::EFBIG));
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(file, how, number(range.start)?, number(range.end - range.start)?) {
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        punched => Ok(punched?),
    }
}

/// Starts writeback of everything written to `file` and waits for it: the bytes are on the device, perhaps in its cache, and
/// the file system knows where. Its journal is not committed. Errors are told once per descriptor, so use the writer's.
pub(crate) fn write_back(file: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    loop {
        // SAFETY: takes a descriptor, which is open as long as `file` lives, and numbers; touches no memory of ours.
        let outcome = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) };
        match Errno::result(outcome) {
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

/// The calling thread, and those that it starts, do background work. When one of them wakes up it waits for a processor that is
/// free, or for its turn, where it would else take the one of the thread that woke it. And its turns are long, where the kernel takes such
/// a wish (Linux 6.12 and later; others ignore it): a thread with shorter ones that wakes up then takes the processor of this one at once,
/// where it would else wait for the end of a turn, milliseconds. For speed only.
pub fn give_way() {
    /// As long as the kernel knew them first, which is all that is asked for here.
    const BYTES: u32 = size_of::<libc::sched_attr>() as u32;
    let priority = libc::sched_param { sched_priority: 0 };
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
    // SAFETY: 0 is the calling thread. The kernel reads the one number behind `priority`, writes at most `BYTES` into `how`, and
    // reads as many from there; both live until the calls return.
    unsafe {
        // Whoever has chosen otherwise, for a real-time process or an idle one, has chosen for these threads too.
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

/// Has every child that `fork` makes from now on run `handler` before it does anything else. The handler may do what a
/// signal handler may: other threads of the parent, which the child has not got, may have held any lock.
pub(crate) fn at_fork(handler: extern "C" fn()) {
    let handler: unsafe extern "C" fn() = handler;
    // SAFETY: registers a function that lives as long as this library, and is removed with it. Fails only for want of
    // memory; then children are not told apart, as in any program without such a handler.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}

/// What takes the place of descriptors in a forked child; opened before one is forked, which may have no descriptor left.
static USELESS: AtomicI32 = AtomicI32::new(-1);

/// To be called before the first [`replace_in_child`].
pub(crate) fn prepare_to_replace() {
    if USELESS.load(Relaxed) < 0 {
        // SAFETY: a plain system call on a path that ends in zero.
        let useless = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if useless >= 0 && USELESS.compare_exchange(-1, useless, Relaxed, Relaxed).is_err() {
            // SAFETY: another thread was first, so nothing knows of this one.
            unsafe { libc::close(useless) };
        }
    }
}

/// Puts something useless in the place of `descriptor`, so that this process, a child that was just forked, holds
/// nothing by it, and its number names nothing else later. Calls only what a signal handler may.
pub(crate) fn replace_in_child(descriptor: RawFd) {
    let useless = USELESS.load(Relaxed);
    if useless >= 0 && useless != descriptor {
        // SAFETY: a plain system call on descriptors. The number `descriptor` stays open, now for a directory that can
        // neither be read nor written (`O_PATH`); its owner closes that.
        unsafe { libc::dup3(useless, descriptor, libc::O_CLOEXEC) };
    }
}

/// The names in the directory that `folder` is open for, but `.` and `..`, in no order. The standard library's list panics
/// where the kernel answers a close with an error, as file systems over a network may.
pub(crate) fn entries(folder: OwnedFd) -> io::Result<Vec<OsString>> {
    let (descriptor, mut found) = (folder.into_raw_fd(), Vec::new());
    // SAFETY: the descriptor is open and now the list's, which closes it; if there is no list it is closed here.
    let list = unsafe { libc::fdopendir(descriptor) };
    if list.is_null() {
        let failed = io::Error::last_os_error();
        // SAFETY: nothing else owns the descriptor.
        unsafe { libc::close(descriptor) };
        return Err(failed);
    }
    let outcome = loop {
        Errno::clear();
        // SAFETY: the list is open, and no other thread knows of it.
        let entry = unsafe { libc::readdir64(list) };
        if entry.is_null() {
            break match Errno::last() {
                Errno::UnknownErrno => Ok(()), // 0: the end
                error => Err(error.into()),
            };
        }
        // SAFETY: an entry's name ends in zero, and stays until the list is read on.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) }.to_bytes();
        if !matches!(name, b"." | b"..") {
            found.push(OsString::from_vec(name.to_owned()));
        }
    };
    // SAFETY: it is open, and not used any more. A failure tells of nothing that was read.
    unsafe { libc::closedir(list) };
    outcome.map(|()| found)
}
