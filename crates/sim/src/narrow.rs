//! A file system with the limits that matter to directory tables (SSTables stored as directories,
//! with a file for each pair): short names, rejected characters, names that ignore case, and few
//! names per folder or disk.
use std::{collections::BTreeMap, io, ops::Range, sync::Arc};

use parking_lot::Mutex;
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, FileUse, Folders, Inside, JournalCommit, MemFs, ReadFile, Room,
    WriteFile,
};

/// The limits. The default is no limits.
#[derive(Clone, Debug)]
pub struct NameLimits {
    /// Whether names that differ only in case are the same name. An existing file keeps the case of
    /// its creation.
    pub folds_case: bool,
    /// Longest name in bytes.
    pub name_bytes_max: usize,
    /// Characters that names must not contain.
    pub refused: &'static str,
    /// Maximum number of names in a folder.
    pub names_max: usize,
    /// Maximum number of files in all.
    pub files_max: u64,
    /// Whether a file may have several names.
    pub links: bool,
}

impl Default for NameLimits {
    fn default() -> NameLimits {
        let (names_max, files_max) = (usize::MAX, u64::MAX);
        NameLimits { folds_case: false, name_bytes_max: 255, refused: "", names_max, files_max, links: true }
    }
}

/// Files in memory with restricted names. Clones share them.
#[derive(Clone)]
pub struct LimitedNamesFs {
    inner: Arc<MemFs>,
    narrow: NameLimits,
    /// The names as they were created, by the form in which they are compared. A thread that holds
    /// this lock takes no other one.
    names: Arc<Mutex<BTreeMap<String, String>>>,
}

impl LimitedNamesFs {
    /// Returns an empty file system.
    pub fn new(narrow: NameLimits) -> LimitedNamesFs {
        LimitedNamesFs { inner: Arc::new(MemFs::new()), narrow, names: Arc::default() }
    }

    fn key(&self, name: &str) -> String {
        if self.narrow.folds_case { name.to_lowercase() } else { name.into() }
    }

    /// Returns the existing name that equals `name`, as it was created.
    fn made(&self, name: &str) -> String {
        self.names.lock().get(&self.key(name)).cloned().unwrap_or_else(|| name.into())
    }

    /// Checks that a file `name` can be created.
    fn check_new_name(&self, name: &str) -> io::Result<()> {
        let own = name.rsplit('/').next().unwrap_or(name);
        if own.len() > self.narrow.name_bytes_max {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        if own.chars().any(|sign| self.narrow.refused.contains(sign)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (names, folder) = (self.names.lock(), self.key(&name[..name.len() - own.len()]));
        if names.contains_key(&self.key(name)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let siblings = names.keys().filter(|other| other.strip_prefix(&folder).is_some_and(|own| !own.contains('/')));
        let is_full = names.len() as u64 >= self.narrow.files_max || siblings.count() >= self.narrow.names_max;
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn enter(&self, name: &str) {
        self.names.lock().insert(self.key(name), name.into());
    }

    fn forget(&self, name: &str) {
        self.names.lock().remove(&self.key(name));
    }
}

impl FileSystem for LimitedNamesFs {
    fn name(&self) -> String {
        "a narrow file system".into()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.inner.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.inner.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.check_new_name(name)?;
        self.inner.create(name).inspect(|_| self.enter(name))
    }

    fn create_for(&self, name: &str, _: FileUse) -> io::Result<Box<dyn WriteFile>> {
        self.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.inner.open(&self.made(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(&self.made(from), &self.made(to))?;
        self.forget(from);
        self.enter(&self.made(to));
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.link_into(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(&self.made(name)).inspect(|()| self.forget(name))
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.inner.sync_file(&self.made(name))
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner.lock(exclusive)
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        self.inner.journal()
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for LimitedNamesFs {
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.inner.capacity().map_or(Ok(()), |inner| inner.punch(&self.made(name), range))
    }
}

impl Folders for LimitedNamesFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.check_new_name(name)?;
        self.inner.make_folder(name).inspect(|()| self.enter(name))
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.inner.remove_folder(&self.made(name)).inspect(|()| self.forget(name))
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        self.inner.list_folder(&self.made(name))
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        if !self.narrow.links {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.check_new_name(to)?;
        self.inner.link_into(&self.made(from), to).inspect(|()| self.enter(to))
    }

    fn sync_folders(&self, names: &[String]) -> io::Result<()> {
        self.inner.sync_folders(names)
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        Ok(self.narrow.name_bytes_max)
    }

    fn room(&self) -> io::Result<Room> {
        let all = self.narrow.files_max;
        Ok(Room { left: all.saturating_sub(self.names.lock().len() as u64), all })
    }
}
