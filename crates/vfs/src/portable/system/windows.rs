//! What differs between systems, for Windows.
#![allow(unsafe_code, reason = "the free space of a volume has no safe wrapper")]
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    iter,
    os::windows::{
        ffi::OsStrExt,
        fs::{FileExt, OpenOptionsExt},
        io::AsHandle,
    },
    path::Path,
    ptr,
};
use terrace_device::Descriptor;
use windows_sys::Win32::{
    Foundation::{ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE, GENERIC_WRITE},
    Storage::FileSystem::{
        FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, FILE_SHARE_WRITE,
        GetDiskFreeSpaceExW,
    },
};

/// Whether an extension of a file allocates space. NTFS does that, unless the file is sparse.
pub const SET_LEN_ALLOCATES: bool = true;

/// Whether an open lock file cannot be removed; see [`kept_in_place`].
pub const KEEPS_OPEN_FILES: bool = true;

/// Opens a file. A symbolic link is opened itself, and the caller refuses it. The standard library
/// lets other handles read, write, rename and remove the open file.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// Keeps the file from being removed, renamed or replaced while it is open.
pub fn kept_in_place(how: &mut OpenOptions) -> &mut OpenOptions {
    how.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE)
}

/// Locks the whole file as LevelDB does.
pub fn try_lock(file: &File, exclusive: bool) -> Result<(), TryLockError> {
    if exclusive { file.try_lock() } else { file.try_lock_shared() }
}

pub fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

/// Returns true: a file that is opened [in place](kept_in_place) stays there.
pub fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Returns whether the error of a listed name means that the file was removed since. A removed file
/// is listed until its last handle is closed, and cannot be opened.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

pub fn descriptor(file: &File) -> Descriptor<'_> {
    file.as_handle()
}

/// Fills `buf` from `offset` of `file`. Returns `UnexpectedEof` if the file ends earlier.
pub fn read_exact_at(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.seek_read(buf, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buf = &mut buf[read..];
                offset += read as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Makes the names in a directory durable: flushes the directory.
///
/// Not every file system can flush a directory. Then a new file is synced in it. NTFS writes all
/// changes of names into one log in the order in which they were made. The sync of a file writes
/// the log up to the changes of this file, and so the earlier changes of other names too.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = OpenOptions::new().access_mode(GENERIC_WRITE).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path);
    match directory.and_then(|directory| directory.sync_all()) {
        Err(e) if is_refusal(&e) => sync_a_file_in(path),
        synced => synced,
    }
}

fn is_refusal(error: &io::Error) -> bool {
    let code = error.raw_os_error().and_then(|code| u32::try_from(code).ok());
    matches!(code, Some(ERROR_ACCESS_DENIED | ERROR_INVALID_FUNCTION | ERROR_INVALID_HANDLE))
}

fn sync_a_file_in(path: &Path) -> io::Result<()> {
    let probe = path.join("SYNC.tmp");
    let synced = File::create(&probe).and_then(|file| file.sync_all());
    synced.and(fs::remove_file(&probe))
}

/// Returns the number of bytes that this user can still allocate; `None` if it is unknown.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let name: Vec<u16> = path.as_os_str().encode_wide().chain(iter::once(0)).collect();
    let mut free = 0;
    // SAFETY: `name` ends in zero, and the call writes one number into `free`. Both live until the
    // call returns. The two null pointers mean that other numbers are not wanted.
    let found = unsafe { GetDiskFreeSpaceExW(name.as_ptr(), &mut free, ptr::null_mut(), ptr::null_mut()) };
    (found != 0).then_some(free)
}

/// Returns `None`: the number of open handles has no limit that a store could reach.
pub fn open_files_max() -> Option<u64> {
    None
}
