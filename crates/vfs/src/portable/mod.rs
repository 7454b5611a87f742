//! A directory of the operating system, by the calls that every system has.
//!
//! This file system serves Windows, macOS and 32-bit Linux. It maps no files, preallocates no WAL,
//! has no journal that commits many files, and supports no directory tables. What differs between
//! systems is in `system/`; a port to another system writes such a file.
//!
//! Names are looked up by the absolute path of the directory, which is determined once. So a change
//! of the working directory has no effect. Windows renames no directory with open files in it, so
//! the directory of an open store keeps its path there, because `LOCK` is open. Windows also
//! removes or replaces no lock file that is open.
use crate::{
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    fs::{DirEntry, DirectoryLock, FileSystem},
    parent,
};
use directory::open;
use file::{Reading, Writing};
use lock::Locked;
use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub use {
    directory::{OpenDirectory, open_store_file, rename},
    system::{read_exact_at, sync_directory},
};

mod directory;
mod file;
mod lock;
mod system;
#[cfg(test)]
mod tests;

/// The folder for copies of files that are set aside.
const LOST: &str = "lost";
const LOCK: &str = "LOCK";

/// One directory of the operating system.
pub struct PortableFs {
    /// The path as it was given, for messages.
    name: PathBuf,
    /// The absolute path.
    root: PathBuf,
}

impl PortableFs {
    /// Makes the object for the directory at `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> PortableFs {
        let name = root.into();
        // The path cannot be made absolute if it is empty or there is no working directory. Then
        // the first use of the directory returns an error.
        let root = std::path::absolute(&name).unwrap_or_else(|_| name.clone());
        PortableFs { name, root }
    }

    /// Takes over a finished file with the descriptor that wrote it.
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    pub fn adopt(file: fs::File) -> Box<dyn WriteFile> {
        Box::new(Writing(file))
    }

    /// Returns whether the name exists.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).and_then(|path| path.symlink_metadata()).is_ok()
    }

    /// Removes the lock file and releases the exclusive lock `held` of this directory. Where an
    /// open lock file cannot be removed, the lock is released first. If another process takes the
    /// lock in between, the removal fails.
    pub fn remove_lock(&self, held: Box<dyn DirectoryLock>) -> io::Result<()> {
        let removed = if system::OPEN_LOCK_FILE_STAYS { Ok(()) } else { self.remove(LOCK) };
        drop(held);
        if system::OPEN_LOCK_FILE_STAYS { self.remove(LOCK) } else { removed }
    }

    /// Removes `lost/` and then the directory itself, each if it exists and is empty. If the path
    /// is a symbolic link, the link and its target stay.
    pub fn remove_empty(&self) -> io::Result<()> {
        let absent = |removed: io::Result<()>| match removed {
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Err(e),
            _ => Ok(()),
        };
        absent(system::patiently(|| fs::remove_dir(self.lost()?)))?;
        if self.root.is_symlink() {
            return Ok(());
        }
        absent(system::patiently(|| fs::remove_dir(&self.root)))
    }

    /// Returns the path of the file `name`. If the name is in a folder, the folder must not be a
    /// link: it could lead a write or a removal into a foreign directory.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            match fs::symlink_metadata(self.root.join(folder)) {
                Ok(found) if !found.is_dir() => {
                    let message = format!("{folder} is no directory, or a symbolic link to one; remove it");
                    return Err(io::Error::new(ErrorKind::NotADirectory, message));
                }
                _ => {} // the use of the path returns the error
            }
        }
        Ok(self.root.join(name))
    }

    /// Returns the path of `lost/`, which must not be a link.
    fn lost(&self) -> io::Result<PathBuf> {
        self.path("lost/").map(|_| self.root.join(LOST))
    }

    /// Lists everything in the directory, or in a folder below it, except folders. Skips names that
    /// are removed during the call. Skips names that are not UTF-8, because a store has no such
    /// names.
    fn list_at(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            // The size in the entry itself may be out of date, because Windows updates it when the
            // file is closed.
            match fs::symlink_metadata(path.join(&name)) {
                Ok(there) if there.is_dir() => {}
                Ok(there) => found.push(DirEntry { name, bytes: there.len() }),
                Err(e) if system::is_absent(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }
}

impl FileSystem for PortableFs {
    fn name(&self) -> String {
        self.name.display().to_string()
    }

    fn make_directory(&self) -> io::Result<()> {
        if self.exists()? {
            // The directory exists, but the process that created it may have ended before it synced
            // the parent. If the parent cannot be synced, another program created the directory.
            return match system::sync_directory(parent(&self.root)) {
                Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
                done => done,
            };
        }
        make(&self.root)
    }

    fn exists(&self) -> io::Result<bool> {
        match fs::metadata(&self.root) {
            Ok(found) if found.is_dir() => Ok(true),
            Ok(_) => Err(ErrorKind::NotADirectory.into()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(open(&self.path(name)?, OpenOptions::new().write(true).create_new(true))?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Reading(open(&self.path(name)?, OpenOptions::new().read(true))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        directory::rename(&self.path(from)?, &self.path(to)?)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let below = to.rsplit_once('/').map(|(folder, _)| self.root.join(folder));
        match below.as_ref().map_or(Ok(()), fs::create_dir) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made?;
                if below.is_some() {
                    self.sync_directory()?;
                }
            }
        }
        if !link(&self.path(from)?, &self.path(to)?)? {
            crate::fs::copy(self, from, self, to)?;
            self.sync_file(to)?;
        }
        // Links into `lost/` are rare, so this function makes the new name durable itself. Because
        // of this, `sync_directory` has to sync only the store's directory.
        below.map_or(Ok(()), |folder| system::sync_directory(&folder))
    }

    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    fn directory(&self) -> Option<OpenDirectory> {
        self.root.is_dir().then(|| OpenDirectory(self.root.clone()))
    }

    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        match from.directory() {
            Some(OpenDirectory(folder)) if link(&folder.join(name), &self.path(to)?)? => Ok(true),
            _ => crate::fs::copy(from, name, self, to).map(|()| false),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        system::patiently(|| fs::remove_file(&path))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.list_at(&self.root)
    }

    fn list_lost(&self) -> io::Result<Vec<String>> {
        match self.lost().and_then(|lost| self.list_at(&lost)) {
            Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        system::sync_directory(&self.root)
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        open(&self.path(name)?, &mut system::to_sync())?.sync_data()
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        match Locked::take(&self.root.join(LOCK), exclusive) {
            // The directory has no lock file, so no writer has opened the store. A reader therefore
            // needs no lock against a writer.
            Err(e) if !exclusive && e.kind() == ErrorKind::NotFound => Ok(Box::new(())),
            taken => Ok(Box::new(taken?)),
        }
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for PortableFs {
    fn free_bytes(&self) -> Option<u64> {
        system::free_bytes(&self.root)
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        if bytes == 0 || !system::SET_LEN_ALLOCATES {
            return match self.remove(name) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let file = open(&self.path(name)?, OpenOptions::new().write(true).create(true).truncate(false))?;
        if system::has_second_name(&file)? {
            let message = "the reserve has a second name, so it may be in use; remove this name";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        file.set_len(bytes).or_else(|error| self.remove(name).and(Err(error)))
    }

    fn open_files_max(&self) -> Option<u64> {
        system::open_files_max()
    }
}

/// Gives the file `from` a second name. Returns false if the file system has no hard links. It
/// replaces no file: returns `AlreadyExists` if the name is taken.
fn link(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Err(e),
        Err(_) => Ok(false), // there are many errors for this; the copy then returns any other error
    }
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
    match system::sync_directory(parent) {
        // The user may create folders in the parent but not files. A sync in the new directory has
        // to suffice: where names are recorded in one log, it covers the earlier change of the
        // parent.
        Err(e) if e.kind() == ErrorKind::PermissionDenied => system::sync_directory(path),
        synced => synced,
    }
}
