//! What differs between systems, for Windows.
#![allow(unsafe_code, reason = "the free space of a volume and the number of links have no safe wrapper")]
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    iter,
    os::windows::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, OpenOptionsExt},
        io::{AsHandle, AsRawHandle},
    },
    path::Path,
    ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use terrace_device::Descriptor;
use windows_sys::Win32::{
    Foundation::{
        ERROR_ACCESS_DENIED, ERROR_DELETE_PENDING, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE, ERROR_NOT_SUPPORTED,
        ERROR_SHARING_VIOLATION, GENERIC_WRITE,
    },
    Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, DELETE, FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS,
        FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, FILE_SHARE_WRITE,
        GetDiskFreeSpaceExW, GetFileInformationByHandle,
    },
};

/// Whether an extension of a file allocates space. NTFS does that, unless the file is sparse.
pub const SET_LEN_ALLOCATES: bool = true;

/// Whether an open lock file cannot be removed; see [`kept_in_place`].
pub const OPEN_LOCK_FILE_STAYS: bool = true;

/// Whether a lock of LevelDB in this process outlives the close of another handle of the file.
/// Locks belong to their handles here.
pub const LOCKS_STAY: bool = true;

/// How long a rename or a removal is repeated.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns whether another program prevents that the file is opened. LevelDB opens its lock file in
/// this way.
pub fn is_in_use(error: &io::Error) -> bool {
    code(error) == Some(ERROR_SHARING_VIOLATION)
}

/// Calls `change`, which renames or removes a name. Repeats it for a second while another program
/// has the file open: scanners and indexers open new files for a moment.
pub fn patiently<T>(mut change: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match change() {
            Err(e) if is_transient(&e) && begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
            changed => return changed,
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(code(error), Some(ERROR_SHARING_VIOLATION | ERROR_ACCESS_DENIED | ERROR_DELETE_PENDING))
}

fn code(error: &io::Error) -> Option<u32> {
    error.raw_os_error().and_then(|code| u32::try_from(code).ok())
}

/// Returns how to open a file to sync it: with write access, without which Windows refuses a sync.
pub fn to_sync() -> OpenOptions {
    let mut how = OpenOptions::new();
    how.read(true).write(true);
    how
}

/// Returns whether the file has a second name.
pub fn has_second_name(file: &File) -> io::Result<bool> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the call writes only into `found`, which lives until it
    // returns.
    let outcome = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut found) };
    if outcome == 0 { Err(io::Error::last_os_error()) } else { Ok(found.nNumberOfLinks > 1) }
}

/// Does nothing: there is no such call. After a failed sync, reads may return bytes that the drive
/// has never received.
pub fn forget_cached(_: &File) -> io::Result<()> {
    Ok(())
}

/// Opens a file. A symbolic link is opened itself, and the caller refuses it. A file that another
/// part of the system stores elsewhere, such as a deduplicated one, is opened a second time so that
/// this part supplies the contents. The standard library lets other handles read, write, rename and
/// remove the open file.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
    let found = file.metadata()?;
    if found.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT == 0 || found.is_symlink() {
        return Ok(file);
    }
    how.custom_flags(0).open(path)
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

/// Returns `None`: files are not recognized here.
pub fn identity(_: &File) -> io::Result<Option<(u64, u64)>> {
    Ok(None)
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
    let refusals = [ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE, ERROR_NOT_SUPPORTED];
    code(error).is_some_and(|code| refusals.contains(&code))
}

/// Creates a file with a name of its own in the directory, syncs it, and removes it. The name is
/// that of a temporary file of a store, so the next open of a store removes a file that a power cut
/// has left in its directory.
fn sync_a_file_in(path: &Path) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}{:06}.dbtmp", std::process::id(), NUMBER.fetch_add(1, Relaxed) % 1_000_000);
    let mut how = OpenOptions::new();
    how.access_mode(GENERIC_WRITE | DELETE).create_new(true).write(true).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    how.open(path.join(name))?.sync_all()
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
