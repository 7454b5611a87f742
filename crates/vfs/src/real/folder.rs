//! A directory that is held open, and the names in it.
//!
//! Everything below is found from the open directory, not by its path: a process that changes its working directory, a
//! directory that is renamed, or another one that is put in its place, change nothing for a store that is open.
//!
//! A store's names are its own. None is followed through a symbolic link, which could lead a write into a file of
//! somebody else's, and none is waited for, as a FIFO would have it: what is neither a regular file nor, where one is
//! expected, a directory is refused. The directory's own path may be a link.
use crate::{fs::DirEntry, kernel};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, renameat},
    sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat},
    unistd::{UnlinkatFlags, linkat, unlinkat},
};
use parking_lot::RwLock;
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most bytes that a small file of a store has, such as `CURRENT` or the FORMAT file.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 << 10;

/// For folders below the directory, and for another handle on itself.
const FOLDER: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// For files: a regular one is opened as without these.
const REGULAR: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// A directory, found by its path when it is first needed and held from then on.
pub(super) struct Folder {
    path: PathBuf,
    /// A leaf lock; the directory is opened under it, once.
    held: RwLock<Option<Arc<File>>>,
}

impl Folder {
    /// The directory at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Folder {
        Folder { path, held: RwLock::default() }
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself, for reading, syncing and questions to the kernel.
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

    /// Whether it is there. One that was removed since it was opened is looked for again.
    pub fn exists(&self) -> io::Result<bool> {
        let gone = |held: &Arc<File>| held.metadata().is_ok_and(|found| found.nlink() == 0);
        let mut held = self.held.write();
        held.take_if(|held| gone(held));
        drop(held);
        match self.held() {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            held => held.map(|_| true),
        }
    }

    /// The folder in which `name` lies, and what it is called there.
    fn within<'n>(&self, name: &'n str) -> io::Result<(Arc<File>, &'n str)> {
        let (mut folder, mut last) = (self.held()?, name);
        while let Some((first, rest)) = last.split_once('/') {
            folder = Arc::new(open(&folder, first, FOLDER).map_err(|e| strange_folder(first, e))?);
            last = rest;
        }
        Ok((folder, last))
    }

    /// An existing file `name`, or a new one if `how` has `O_CREAT`.
    pub fn open(&self, name: &str, how: OFlag) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        let file = match open(&folder, last, how | REGULAR) {
            Err(e) if e.raw_os_error() == Some(Errno::ELOOP as i32) => return Err(strange(last, SFlag::S_IFLNK)),
            Err(e) if e.raw_os_error() == Some(Errno::ENXIO as i32) => return Err(strange(last, SFlag::S_IFIFO)),
            opened => opened?,
        };
        let found = file.metadata()?;
        if found.is_file() { Ok(file) } else { Err(strange(last, kind_of(found.mode()))) }
    }

    /// A new file; `AlreadyExists` if the name is taken.
    pub fn create(&self, name: &str, how: OFlag) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        open(&folder, last, how | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC)
    }

    /// A nameless file in the directory.
    pub fn create_nameless(&self) -> io::Result<File> {
        open(&*self.held()?, ".", OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC)
    }

    /// Another handle on the directory, or on a folder below it.
    pub fn open_folder(&self, name: &str) -> io::Result<File> {
        let (folder, last) = self.within(name)?;
        open(&folder, if last.is_empty() { "." } else { last }, FOLDER).map_err(|e| strange_folder(last, e))
    }

    /// What the kernel says of `name` itself.
    pub fn look_at(&self, name: &str) -> io::Result<FileStat> {
        let (folder, last) = self.within(name)?;
        Ok(fstatat(&*folder, last, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.within(from)?, self.within(to)?);
        Ok(renameat(&*from_folder, from, &*to_folder, to)?)
    }

    /// A second name, here, for the file `name` of `other`.
    pub fn link(&self, other: &File, name: &str, to: &str) -> io::Result<()> {
        let (folder, to) = self.within(to)?;
        Ok(linkat(other, name, &*folder, to, AtFlags::empty())?)
    }

    /// A second name for the file `from` of this directory.
    pub fn link_within(&self, from: &str, to: &str) -> io::Result<()> {
        let (folder, from) = self.within(from)?;
        self.link(&folder, from, to)
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

    /// The names in the directory, or in a folder below it, and what each is; none of what was removed meanwhile, and none that
    /// is not UTF-8, since no name of ours is.
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

    /// What is in the directory, or in a folder below it, but for folders. Links and other things are listed as they are: who
    /// opens them is told.
    pub fn list(&self, name: &str) -> io::Result<Vec<DirEntry>> {
        let entries = self.entries(name)?.into_iter().filter(|(_, found)| kind_of(found.st_mode) != SFlag::S_IFDIR);
        Ok(entries.map(|(name, found)| DirEntry { name, bytes: found.st_size as u64 }).collect())
    }
}

/// Opens the file of a store at `path` to read it, for tools that look at single files: as the store does, so a link, a FIFO or
/// anything else that is no regular file is refused. Folders above it may be links.
pub fn open_own(path: &Path) -> io::Result<File> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidInput)?;
    Folder::new(parent(path).to_owned()).open(name, OFlag::O_RDONLY)
}

/// All of the small file at `path`, opened so. One that is longer than any of ours is refused unread.
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_own(path)?;
    let bytes = file.metadata()?.len();
    if bytes > SMALL_FILE_BYTES_MAX {
        let name = path.file_name().unwrap_or_default().display();
        let told = format!("{name} has {bytes} bytes, and none of ours has more than {SMALL_FILE_BYTES_MAX}");
        return Err(io::Error::new(ErrorKind::InvalidData, told));
    }
    let mut all = Vec::with_capacity(bytes as usize);
    file.take(SMALL_FILE_BYTES_MAX).read_to_end(&mut all)?;
    Ok(all)
}

/// The directory in which `path` lies.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a mode says that something is.
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

/// Why something that is no regular file is not opened.
fn strange(name: &str, kind: SFlag) -> io::Error {
    let what = match kind {
        SFlag::S_IFLNK => "a symbolic link",
        SFlag::S_IFIFO => "a FIFO, a socket or a device",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFDIR => "a directory",
        _ => "a device",
    };
    let told = format!("{name} is {what}, and a store's own names are regular files; put the file itself there");
    io::Error::new(ErrorKind::InvalidInput, told)
}

fn strange_folder(name: &str, error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOTDIR | Errno::ELOOP) => {
            let told =
                format!("{name} is no directory, or a symbolic link to one, and a store's own folders are neither");
            io::Error::new(ErrorKind::NotADirectory, told)
        }
        _ => error,
    }
}
