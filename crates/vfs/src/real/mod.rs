//! A directory of a real file system.
//!
//! The lock on a directory is an open-file-description lock on its file `LOCK`. This lock
//! conflicts with LevelDB's `fcntl` lock and with the locks of other handles, even within one
//! process. A lock of LevelDB's kind would be worse in two ways: it would not conflict with other
//! locks of the same process, and it would end when any code in the process closes any descriptor
//! of `LOCK`. On the other hand, child processes inherit an open-file-description lock.
//! `KeptFromChildren` therefore ends the lock with the process that took it.
use crate::{
    bpf::{CommitIterator, DEFAULT_PIN_PATH},
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    folders::Folders,
    fs::{DirEntry, DirectoryLock, FileSystem, FileUse, WalWriteMode},
    journal::JournalCommit,
    kernel,
    lock_held::check_in_place,
    parent,
    process::{KeptFromChildren, Process},
};
use file::{Reading, Writing};
use folder::Folder;
use holder::whole_file;
use journal::JournalProbe;
use mapped::MappedFile;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    sys::{
        resource::{Resource, getrlimit},
        stat::futimens,
        statvfs::fstatvfs,
        time::TimeSpec,
    },
};
use probe::Journal;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    ops::Range,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

mod ahead;
mod directory;
mod file;
mod folder;
mod folders;
mod holder;
mod journal;
mod mapped;
pub mod probe;
mod span;

pub use directory::OpenDirectory;
pub use file::read_exact_at;
pub use folder::{open_store_file, rename, sync_directory};

/// The folder for copies of files that are set aside.
const LOST: &str = "lost";
const LOCK: &str = "LOCK";

/// One directory of a real file system.
pub struct RealFs {
    folder: Arc<Folder>,
    probe_file: JournalProbe,
    /// The journal of the file system. It is searched at its first use in an existing directory.
    journal: OnceLock<Journal>,
    /// A descriptor of the directory that is open before the store creates its first folder. The
    /// kernel reports writeback errors to it; see [`RealFs::witness`].
    witness: OnceLock<File>,
    /// The BPF iterator that reports the journal states of files. It is opened at its first use.
    iterator: OnceLock<Result<CommitIterator, String>>,
}

impl RealFs {
    /// Makes the object for the directory at `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> RealFs {
        let (probe_file, journal, witness, iterator) = Default::default();
        RealFs { folder: Arc::new(Folder::new(root.into())), probe_file, journal, witness, iterator }
    }

    /// Takes over a finished file with the descriptor that wrote it.
    pub fn adopt(file: File) -> Box<dyn WriteFile> {
        Box::new(Writing(file))
    }

    /// Returns whether the name exists.
    pub fn has(&self, name: &str) -> bool {
        self.folder.look_at(name).is_ok()
    }

    /// Removes the lock file, and then releases the exclusive lock `held` of this directory.
    pub fn remove_lock(&self, held: Box<dyn DirectoryLock>) -> io::Result<()> {
        let removed = self.folder.remove(LOCK);
        drop(held);
        removed
    }

    /// Removes `lost/` and then the directory itself, each if it exists and is empty. If the path
    /// is a symbolic link, the link and its target stay.
    pub fn remove_empty(&self) -> io::Result<()> {
        let absent = |removed: io::Result<()>| match removed {
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Err(e),
            _ => Ok(()),
        };
        absent(self.folder.remove_folder(LOST))?;
        match absent(fs::remove_dir(self.folder.path())) {
            Err(e) if e.kind() == ErrorKind::NotADirectory && self.folder.path().is_symlink() => Ok(()),
            removed => removed,
        }
    }

    /// Opens a file in such a way that reads do not update its access time. With the mount option
    /// `relatime`, the first read since the file was written would update the access time. For this
    /// update the read would have to join the journal's running transaction and wait for the
    /// transaction that is being committed.
    fn unnoticed(&self, name: &str) -> io::Result<File> {
        match self.folder.open(name, OFlag::O_RDONLY | OFlag::O_NOATIME) {
            // The file belongs to another user, so the kernel does not allow `O_NOATIME`.
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => self.folder.open(name, OFlag::O_RDONLY),
            opened => opened,
        }
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let mut target = self.folder.create(to, OFlag::O_WRONLY)?;
        let source = self.folder.open(from, OFlag::O_RDONLY);
        let copied = source.and_then(|mut from| io::copy(&mut from, &mut target)).and_then(|_| target.sync_all());
        // After an error the incomplete copy is removed. An error of this removal is ignored,
        // because an incomplete copy does no harm.
        copied.inspect_err(|_| drop(self.folder.remove(to)))
    }

    fn iterator(&self) -> Result<&CommitIterator, String> {
        self.iterator.get_or_init(|| CommitIterator::open(Path::new(DEFAULT_PIN_PATH))).as_ref().map_err(String::clone)
    }

    /// Returns the journal of the file system that contains the directory, or that will contain it.
    /// The error is the reason why the journal cannot be relied on.
    fn find_journal(&self) -> Result<Journal, String> {
        let path = self.folder.path();
        let there = || path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
        let above = || OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(there()).map(Arc::new);
        let facts = self.folder.held().or_else(|_| above()).and_then(|folder| journal::facts(&folder));
        probe::judge(&facts.map_err(|e| format!("{} cannot be examined: {e}", path.display()))?)
    }
}

impl FileSystem for RealFs {
    fn name(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn make_directory(&self) -> io::Result<()> {
        let existed = self.exists()?;
        if existed {
            // The directory exists, but the process that created it may have ended before it synced
            // the parent. So the parent is synced here. If the parent is not readable, another
            // program created the directory, and the error is ignored.
            return match sync_directory(parent(self.folder.path())) {
                Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
                done => done,
            };
        }
        make(self.folder.path())
    }

    fn exists(&self) -> io::Result<bool> {
        self.folder.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let made = self.folder.create(name, OFlag::O_WRONLY);
        Ok(Box::new(Writing(made.map_err(|e| self.with_inodes(e))?)))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        if file_use != FileUse::Log(WalWriteMode::Map) {
            return self.create(name);
        }
        let file = self.folder.create(name, OFlag::O_RDWR)?;
        if MappedFile::fits(&file)? { Ok(Box::new(MappedFile::new(file))) } else { Ok(Box::new(Writing(file))) }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Reading(self.unnoticed(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let below = to.rsplit_once('/').map(|(folder, _)| folder);
        match below.map_or(Ok(()), |folder| self.folder.make_folder(folder)) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made?;
                if below.is_some() {
                    self.sync_directory()?;
                }
            }
        }
        match self.folder.link_within(from, to) {
            Err(e) if has_no_links(&e) => self.copy(from, to)?,
            done => done?,
        }
        // Links into `lost/` are rare, so this function makes the new name durable itself. Because
        // of this, `sync_directory` has to sync only the store's directory.
        below.map_or(Ok(()), |folder| self.folder.open_folder(folder)?.sync_all())
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn directory(&self) -> Option<OpenDirectory> {
        self.folder.held().ok().map(OpenDirectory)
    }

    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        let linked = from.directory().map(|folder| self.folder.link(&folder, name, to));
        match linked {
            Some(Err(e)) if !has_no_links(&e) => Err(e),
            Some(Ok(())) => Ok(true),
            _ => crate::fs::copy(from, name, self, to).map(|()| false),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.folder.list("")
    }

    fn list_lost(&self) -> io::Result<Vec<String>> {
        match self.folder.list(LOST) {
            Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.folder.held()?.sync_all()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        crate::mapping::checked(self.folder.open(name, OFlag::O_RDONLY)?.sync_data())
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let how = if exclusive { OFlag::O_RDWR | OFlag::O_CREAT } else { OFlag::O_RDONLY };
        let file = match self.folder.open(LOCK, how) {
            // The directory has no lock file, so no writer has opened the store. A reader therefore
            // needs no lock against a writer.
            Err(e) if !exclusive && e.kind() == ErrorKind::NotFound => return Ok(Box::new(())),
            opened => opened?,
        };
        let wanted = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        let kept = KeptFromChildren::new(&file);
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file(wanted))) {
            Ok(_) => {
                let (mut signed, mut inode) = (false, None);
                if exclusive {
                    signed = holder::sign(&file);
                    let found = file.metadata()?;
                    inode = Some((found.dev(), found.ino()));
                }
                let folder = self.folder.clone();
                Ok(Box::new(Locked { _kept: kept, process: Process::current(), signed, file, folder, inode }))
            }
            Err(Errno::EAGAIN | Errno::EACCES) => Err(io::Error::new(ErrorKind::WouldBlock, holder::of(&file, wanted))),
            Err(e) => Err(e.into()),
        }
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        Some(self)
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl JournalCommit for RealFs {
    fn commit(&self) -> io::Result<()> {
        self.probe_file.commit(&self.folder)
    }

    fn commit_interval(&self) -> Result<Duration, String> {
        self.find_journal().map(|journal| journal.interval)
    }

    fn commit_count(&self) -> io::Result<u64> {
        let journal = match self.journal.get() {
            Some(journal) => journal,
            None => {
                let found = self.find_journal().map_err(unsupported)?;
                self.journal.get_or_init(|| found)
            }
        };
        journal::commits(&journal.name)
    }

    fn join_transaction(&self) -> io::Result<()> {
        self.probe_file.join(&self.folder)
    }

    fn can_tell_transactions(&self) -> Result<(), String> {
        self.iterator().map(drop)
    }

    fn transaction_of(&self, file: &dyn WriteFile) -> io::Result<u32> {
        let file = file.descriptor().ok_or(ErrorKind::Unsupported)?;
        // The new modification time makes the inode part of the running transaction. Without it, a
        // write to blocks that are already allocated would not change the inode. The file would
        // then look committed although no device flush followed the write.
        futimens(file, &TimeSpec::UTIME_OMIT, &TimeSpec::UTIME_NOW)?;
        Ok(self.iterator().map_err(unsupported)?.transaction_state(file)?.transaction)
    }

    fn committed_transaction(&self) -> io::Result<u32> {
        self.probe_file.committed(&self.folder, self.iterator().map_err(unsupported)?)
    }
}

impl Capacity for RealFs {
    fn free_bytes(&self) -> Option<u64> {
        // Some file systems in user space report no blocks. Their free space is unknown.
        let found = fstatvfs(&*self.folder.held().ok()?).ok().filter(|found| found.blocks() > 0)?;
        Some(found.blocks_available().saturating_mul(found.fragment_size()))
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let release = || match self.remove(name) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        let Some(bytes) = std::num::NonZeroU64::new(bytes) else { return release() };
        let file = self.folder.open(name, OFlag::O_WRONLY | OFlag::O_CREAT)?;
        if file.metadata()?.nlink() > 1 {
            let message = "the reserve has a second name, so it may be in use; remove this name";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        match kernel::allocate(&file, bytes) {
            Ok(()) => file.set_len(bytes.get()),
            Err(e) => {
                release()?;
                if e.kind() == ErrorKind::Unsupported { Ok(()) } else { Err(e) }
            }
        }
    }

    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let file = self.folder.open(name, OFlag::O_WRONLY)?;
        if file.metadata()?.nlink() > 1 || range.is_empty() {
            return Ok(());
        }
        kernel::punch(&file, range)
    }

    fn open_files_max(&self) -> Option<u64> {
        getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(now, _)| now)
    }
}

/// A lock on the directory, as long as it is held. The drop of this value releases the lock by a
/// system call. Closing the descriptor would not be enough: if another thread forks at the same
/// time, the child has a copy of the descriptor, and with it the lock, until the child closes it.
struct Locked {
    /// Ensures that forked children do not keep the lock. This field must be dropped before `file`.
    _kept: KeptFromChildren,
    process: Process,
    signed: bool,
    file: File,
    folder: Arc<Folder>,
    /// The device number and inode number of the lock file; `None` for a shared lock.
    inode: Option<(u64, u64)>,
}

impl DirectoryLock for Locked {
    fn check(&self) -> io::Result<()> {
        let Some(locked) = self.inode else { return Ok(()) };
        check_in_place(self.folder.look_at(LOCK).map(|found| (found.st_dev, found.st_ino) == locked))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return; // the lock belongs to the parent
        }
        if self.signed {
            holder::unsign(&self.file);
        }
        // An error is ignored here, because the close of the file, which follows, releases the lock
        // too.
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
    }
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, why)
}

/// Creates `path` and its missing parents. At return, each of them is durable in its parent.
fn make(path: &Path) -> io::Result<()> {
    let parent = parent(path);
    if !parent.is_dir() {
        make(parent)?;
    }
    match fs::create_dir(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists || !path.is_dir() => return Err(e),
        _ => {}
    }
    sync_directory(parent)
}

/// Returns whether `link` failed because this file system or this file cannot have another link.
fn has_no_links(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EPERM | Errno::EOPNOTSUPP | Errno::EMLINK | Errno::EXDEV | Errno::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let fs_of_it = RealFs::new(folder.path());
        fs::write(&from, b"bytes").unwrap();
        fs_of_it.copy("a", "b").unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"bytes");
        fs::write(&to, b"other").unwrap();
        assert_eq!(fs_of_it.copy("a", "b").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).unwrap(), b"other");
    }

    #[test]
    fn makes_missing_parents_and_no_lock_for_readers() {
        let folder = tempfile::tempdir().unwrap();
        let fs = RealFs::new(folder.path().join("a/b/c"));
        assert!(!fs.exists().unwrap());
        fs.make_directory().unwrap();
        fs.make_directory().unwrap();
        assert!(fs.exists().unwrap());
        drop(fs.lock(false).unwrap());
        assert_eq!(fs.list().unwrap(), vec![]);
        let held = fs.lock(true).unwrap();
        assert_eq!(fs.lock(false).map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        let _shared = (fs.lock(false).unwrap(), fs.lock(false).unwrap());
        assert_eq!(fs.lock(true).map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
