//! What differs between systems, for Unix.
use nix::{
    libc,
    sys::resource::{Resource, getrlimit},
    sys::statvfs::statvfs,
};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
};
use terrace_device::Descriptor;

/// Whether an extension of a file allocates space. Here it makes a hole.
pub const SET_LEN_ALLOCATES: bool = false;

/// Whether an open lock file cannot be removed.
pub const OPEN_LOCK_FILE_STAYS: bool = false;

/// Whether a lock of LevelDB in this process outlives the close of another handle of the file.
pub const LOCKS_STAY: bool = false;

/// Returns whether another program prevents that the file is opened. No program can do that here.
pub fn is_in_use(_: &io::Error) -> bool {
    false
}

/// Calls `change` once. Here an open file hinders no rename and no removal.
pub fn patiently<T>(mut change: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    change()
}

/// Returns how to open a file to sync it.
pub fn to_sync() -> OpenOptions {
    let mut how = OpenOptions::new();
    how.read(true);
    how
}

/// Returns whether the file has a second name.
pub fn has_second_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 1)
}

/// Drops the cached pages of the file that are not dirty, as
/// [`forget_cached`](crate::ReadFile::forget_cached) requires.
pub fn forget_cached(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::fcntl::posix_fadvise(file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    let _ = file; // macOS has no such call
    Ok(())
}

/// Opens a file. A symbolic link is not followed, and the open of a FIFO does not wait.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Changes nothing: a file that is open can always be removed. [`is_at`] notices that.
pub fn kept_in_place(how: &mut OpenOptions) -> &mut OpenOptions {
    how
}

/// Locks the whole file. Here `flock` and LevelDB's `fcntl` locks exclude each other.
#[cfg(not(target_os = "linux"))]
pub fn try_lock(file: &File, exclusive: bool) -> Result<(), TryLockError> {
    if exclusive { file.try_lock() } else { file.try_lock_shared() }
}

#[cfg(not(target_os = "linux"))]
pub fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

/// Locks the whole file. On Linux, LevelDB's `fcntl` lock does not exclude `flock`, so this is a
/// lock of the same kind that belongs to the open file.
#[cfg(target_os = "linux")]
pub fn try_lock(file: &File, exclusive: bool) -> Result<(), TryLockError> {
    match set_lock(file, if exclusive { libc::F_WRLCK } else { libc::F_RDLCK }) {
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Err(TryLockError::WouldBlock),
        set => set.map_err(|error| TryLockError::Error(error.into())),
    }
}

#[cfg(target_os = "linux")]
pub fn unlock(file: &File) -> io::Result<()> {
    Ok(set_lock(file, libc::F_UNLCK)?)
}

#[cfg(target_os = "linux")]
fn set_lock(file: &File, kind: libc::c_int) -> nix::Result<()> {
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    let whole_file = libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_OFD_SETLK(&whole_file)).map(drop)
}

/// Returns the numbers of the device and of the file, by which the file is recognized.
pub fn identity(file: &File) -> io::Result<Option<(u64, u64)>> {
    let found = file.metadata()?;
    Ok(Some((found.dev(), found.ino())))
}

/// Returns whether `file` is the file at `path`.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = path.symlink_metadata()?;
    Ok(identity(file)? == Some((there.dev(), there.ino())))
}

/// Returns whether the error of a listed name means that the file was removed since.
pub fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

pub fn descriptor(file: &File) -> Descriptor<'_> {
    file.as_fd()
}

/// Fills `buf` from `offset` of `file`. Returns `UnexpectedEof` if the file ends earlier.
pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

/// Makes the names in a directory durable. On macOS the standard library uses `F_FULLFSYNC`, which
/// also flushes the cache of the drive. The weaker `F_BARRIERFSYNC` would only order the writes: a
/// write that was acknowledged as durable could be lost.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns the number of free bytes; `None` if it is unknown.
#[allow(clippy::unnecessary_cast, reason = "the types of the numbers differ between systems")]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok().filter(|found| found.blocks() > 0)?;
    Some((found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64))
}

/// Returns the number of files that this process may have open at the same time.
#[allow(clippy::useless_conversion, reason = "the type of the number differs between systems")]
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(now, _)| now.into())
}
