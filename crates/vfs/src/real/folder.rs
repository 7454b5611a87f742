//! An open directory and the names in it.
//!
//! Every name is looked up relative to the open directory, not by its path. An open store is
//! therefore not affected if the working directory changes, if the directory is renamed, or if
//! another directory takes its place.
//!
//! All names in the directory of a store belong to the store. No name is followed through a
//! symbolic link, because a link could lead a write into a foreign file. Opening a name never
//! blocks, although opening a FIFO usually does. Anything that is not a regular file is refused,
//! except a directory where a directory is expected. The path of the store's directory itself may
//! be a symbolic link.
use super::OpenDirectory;
use crate::{fs::DirEntry, kernel, parent};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, renameat},
    sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};
use parking_lot::RwLock;
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Flags for opening folders below the directory, and for another handle on the directory itself.
const FOLDER: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Flags for opening files: they refuse a symbolic link, and they keep the open of a FIFO from
/// blocking. For a regular file they change nothing.
const REGULAR: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// A directory. It is opened by its path at the first use and then stays open.
pub(super) struct Folder {
    path: PathBuf,
    /// The open directory; `None` before its first use. A thread that holds this lock takes no
    /// other lock. The directory is opened under this lock, so it is opened only once.
    held: RwLock<Option<Arc<File>>>,
}

impl Folder {
    /// Makes the object for the directory at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Folder {
        Folder { path, held: RwLock::default() }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open directory, for reading, syncing and kernel calls.
    pub fn held(&self) -> io::Result<Arc<File>> {
        if let Some(held) = &*self.held.read() {
            return Ok(held.clone());
        }
        let mut held = self.held.write();
        if let Some(held) = &*held {
            return Ok(held.clone()); // another thread was faster
        }
        let opened = fs::OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(&self.path)?;
        Ok(held.insert(Arc::new(opened)).clone())
    }

    /// Returns whether the directory exists. If the open directory was removed, looks up the path
    /// again.
    pub fn exists(&self) -> io::Result<bool> {
        let is_removed = |held: &Arc<File>| held.metadata().is_ok_and(|found| found.nlink() == 0);
        let mut held = self.held.write();
        held.take_if(|held| is_removed(held));
        drop(held);
        match self.held() {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            held => held.map(|_| true),
        }
    }

    /// Returns the folder that contains `name`, and the last part of the name.
    fn within<'n>(&self, name: &'n str) -> io::Result<(Arc<File>, &'n str)> {
        let (mut folder, mut last) = (self.held()?, name);
        while let Some((first, rest)) = last.split_once('/') {
            folder = Arc::new(open(&folder, first, FOLDER).map_err(|e| not_a_folder(first, e))?);
            last = rest;
        }
        Ok((folder, last))
    }

    /// Opens an existing file `name`, or creates it if `how` has `O_CREAT`.
    pub fn open(&self, name: &str, how: OFlag) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        let file = match open(&folder, last, how | REGULAR) {
            Err(e) if e.raw_os_error() == Some(Errno::ELOOP as i32) => return Err(not_a_file(last, SFlag::S_IFLNK)),
            Err(e) if e.raw_os_error() == Some(Errno::ENXIO as i32) => return Err(not_a_file(last, SFlag::S_IFIFO)),
            opened => opened?,
        };
        let found = file.metadata()?;
        if found.is_file() { Ok(file) } else { Err(not_a_file(last, kind_of(found.mode()))) }
    }

    /// Creates a file. Returns `AlreadyExists` if the name is taken.
    pub fn create(&self, name: &str, how: OFlag) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        open(&folder, last, how | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC)
    }

    /// Creates a nameless file in the directory.
    pub fn create_nameless(&self) -> io::Result<File> {
        open(&*self.held()?, ".", OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC)
    }

    /// Returns another handle on the directory, or on a folder below it.
    pub fn open_folder(&self, name: &str) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        open(&folder, if last.is_empty() { "." } else { last }, FOLDER).map_err(|e| not_a_folder(last, e))
    }

    /// Returns the kernel's description of `name` itself; a symbolic link is not followed.
    pub fn look_at(&self, name: &str) -> io::Result<FileStat> {
        let (folder, last) = self.within(name)?;
        Ok(fstatat(&*folder, last, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.within(from)?, self.within(to)?);
        Ok(renameat(&*from_folder, from, &*to_folder, to)?)
    }

    /// Gives the file `name` of `other` the name `to` in this directory.
    pub fn link(&self, other: &OpenDirectory, name: &str, to: &str) -> io::Result<()> {
        let (folder, to) = self.within(to)?;
        other.link(name, &folder, to)
    }

    /// Gives the file `from` of this directory a second name.
    pub fn link_within(&self, from: &str, to: &str) -> io::Result<()> {
        let (folder, from) = self.within(from)?;
        self.link(&OpenDirectory(folder), from, to)
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        let (folder, last) = self.within(name)?;
        Ok(unlinkat(&*folder, last, UnlinkatFlags::NoRemoveDir)?)
    }

    pub fn make_folder(&self, name: &str) -> io::Result<()> {
        let (folder, last) = self.within(name)?;
        Ok(mkdirat(&*folder, last, Mode::from_bits_truncate(0o777))?)
    }

    pub fn remove_folder(&self, name: &str) -> io::Result<()> {
        let (folder, last) = self.within(name)?;
        Ok(unlinkat(&*folder, last, UnlinkatFlags::RemoveDir)?)
    }

    /// Lists the names in the directory, or in a folder below it, with their descriptions. Skips
    /// names that are removed during the call. Skips names that are not UTF-8, because a store has
    /// no such names.
    pub fn entries(&self, name: &str) -> io::Result<Vec<(String, FileStat)>> {
        let (folder, mut found) = (self.open_folder(name)?, Vec::new());
        for entry in kernel::entries(folder.try_clone()?.into())? {
            let Ok(entry) = entry.into_string() else { continue };
            match fstatat(&folder, entry.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) => {}
                looked => found.push((entry, looked?)),
            }
        }
        Ok(found)
    }

    /// Lists everything in the directory, or in a folder below it, except folders. Links and other
    /// special files are listed, but opening one of them returns an error.
    pub fn list(&self, name: &str) -> io::Result<Vec<DirEntry>> {
        let entries = self.entries(name)?.into_iter().filter(|(_, found)| kind_of(found.st_mode) != SFlag::S_IFDIR);
        Ok(entries.map(|(name, found)| DirEntry { name, bytes: found.st_size as u64 }).collect())
    }
}

/// Opens a file of a store for reading, for tools that read single files. A symbolic link, a FIFO,
/// or anything else that is not a regular file is refused, as in a store. Folders in the path may
/// be symbolic links.
pub fn open_store_file(path: &Path) -> io::Result<File> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidInput)?;
    Folder::new(parent(path).to_owned()).open(name, OFlag::O_RDONLY)
}

/// Renames a file or a directory. An existing file `to` is replaced.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Makes the names in the directory at `path` durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns the file type that the bits of `mode` contain.
pub(super) fn kind_of(mode: u32) -> SFlag {
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT
}

fn open(folder: &File, name: &str, how: OFlag) -> io::Result<File> {
    loop {
        match openat(folder, name, how, Mode::from_bits_truncate(0o666)) {
            Err(Errno::EINTR) => {}
            opened => return Ok(opened?.into()),
        }
    }
}

/// Returns the error for something that is not a regular file.
fn not_a_file(name: &str, kind: SFlag) -> io::Error {
    let what = match kind {
        SFlag::S_IFLNK => "a symbolic link",
        SFlag::S_IFIFO => "a FIFO, a socket or a device",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFDIR => "a directory",
        _ => "a device",
    };
    let message = format!("{name} is {what}, not a regular file; replace it with the file itself");
    io::Error::new(ErrorKind::InvalidInput, message)
}

fn not_a_folder(name: &str, error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOTDIR | Errno::ELOOP) => {
            let message =
                format!("{name} is no directory, or a symbolic link to one, and a store's own folders are neither");
            io::Error::new(ErrorKind::NotADirectory, message)
        }
        _ => error,
    }
}
