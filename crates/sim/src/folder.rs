//! A second directory on the disk of a [`CrashFs`] (a recording directory), inside the first
//! directory. It serves tests of stores that share files by hard links.
//!
//! Both directories share one journal, as two directories of one ext4 file system do. Under
//! [`Rules::Posix`](crate::Rules) a sync of either directory syncs both, which is more than POSIX
//! guarantees. Tests must therefore use this type with ext4 rules only.
use crate::CrashFs;
use std::{io, ops::Range};
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, FileUse, Folders, Inside, JournalCommit, ReadFile, WriteFile,
};

/// The directory `name` inside the directory of `disk`. Locking it has no effect.
#[derive(Clone)]
pub struct Folder {
    disk: CrashFs,
    name: String,
}

impl Folder {
    /// Returns the directory `name` of `disk`. It need not exist yet.
    pub fn new(disk: CrashFs, name: &str) -> Folder {
        Folder { disk, name: name.into() }
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
}

impl FileSystem for Folder {
    fn name(&self) -> String {
        format!("{}/{}", self.disk.name(), self.name)
    }

    fn make_directory(&self) -> io::Result<()> {
        if self.exists()? { Ok(()) } else { self.disk.make_folder(&self.name) }
    }

    fn exists(&self) -> io::Result<bool> {
        Ok(self.disk.open(&self.file("")).is_ok())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create(&self.file(name))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create_for(&self.file(name), file_use)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.disk.open(&self.file(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.file(from), &self.file(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.link(&self.file(from), &self.file(to))
    }

    /// Hard-links a file of the first directory into this second directory.
    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        assert_eq!(from.name(), self.disk.name(), "a folder takes files from its parent");
        self.disk.link(name, &self.file(to)).map(|()| true)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.file(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let now = self.disk.state_after(self.disk.steps());
        let own = now.files().filter_map(|(name, bytes)| {
            let name = name.strip_prefix(&self.name)?.strip_prefix('/')?;
            (!name.is_empty() && !name.contains('/')).then(|| DirEntry { name: name.into(), bytes })
        });
        Ok(own.collect())
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.disk.sync_file(&self.file(name))
    }

    fn lock(&self, _exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(()))
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        self.disk.journal()
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for Folder {
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.disk.punch(&self.file(name), range)
    }
}

impl Folders for Folder {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.disk.make_folder(&self.file(name))
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.disk.remove_folder(&self.file(name))
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        self.disk.list_folder(&self.file(name))
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.link_into(&self.file(from), &self.file(to))
    }

    fn sync_folders(&self, names: &[String]) -> io::Result<()> {
        self.disk.sync_folders(&names.iter().map(|name| self.file(name)).collect::<Vec<_>>())
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        self.disk.name_bytes_max()
    }
}
