//! Two file systems as one: logs and tables are on a raw device, all other files (manifest,
//! `CURRENT`, `LOCK`) are in a directory.
use crate::{
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    fs::{DirEntry, DirectoryLock, FileSystem, FileUse},
    lost::set_aside_from,
    names::UnsyncedNames,
    raw::RawFs,
};
use std::{
    io::{self, ErrorKind},
    ops::Range,
    sync::Arc,
};
use terrace_format::{FileName, Medium};

/// A directory and a raw device as one file system.
pub struct SplitFs {
    meta: Arc<dyn FileSystem>,
    data: Arc<RawFs>,
    /// Tracks whether names in the directory have changed since its last sync.
    names: UnsyncedNames,
}

impl SplitFs {
    /// Joins a directory and a device.
    pub fn new(meta: Arc<dyn FileSystem>, data: Arc<RawFs>) -> SplitFs {
        SplitFs { meta, data, names: UnsyncedNames::default() }
    }

    /// Returns the device.
    pub fn device(&self) -> &RawFs {
        &self.data
    }

    /// Returns the file system that contains the file `name`.
    fn of(&self, name: &str) -> &dyn FileSystem {
        match name.strip_prefix("lost/").map_or_else(|| FileName::parse(name), set_aside_from) {
            Some(
                FileName::Table(_)
                | FileName::Bundle(_)
                | FileName::Log(_)
                | FileName::ValueLog(_)
                | FileName::WalSidecar(_)
                | FileName::Values(_),
            ) => &*self.data,
            _ => &*self.meta,
        }
    }

    /// Changes `name` by `call` in the file system that contains it.
    fn change<T>(&self, name: &str, call: impl FnOnce(&dyn FileSystem) -> io::Result<T>) -> io::Result<T> {
        // Changes of names on the device are counted as changes in the directory too, so a later
        // sync of the directory may be made without need.
        self.names.change(|| call(self.of(name)))
    }

    /// Returns an error if a file would be moved from one file system to the other.
    fn within(&self, from: &str, to: &str) -> io::Result<()> {
        let same = std::ptr::addr_eq(self.of(from), self.of(to));
        if same {
            Ok(())
        } else {
            Err(io::Error::new(ErrorKind::Unsupported, format!("{from} and {to} are in different halves of the store")))
        }
    }
}

impl FileSystem for SplitFs {
    fn name(&self) -> String {
        self.meta.name()
    }

    fn medium(&self) -> Medium {
        Medium::Split
    }

    fn make_directory(&self) -> io::Result<()> {
        self.data.make_directory()?;
        self.meta.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.meta.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.change(name, |half| half.create(name))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        match file_use {
            FileUse::Log(_) => self.change(name, |half| half.create_for(name, file_use)),
            FileUse::Table { .. } => self.of(name).create_for(name, file_use),
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.of(name).open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.within(from, to)?;
        self.change(from, |half| half.rename(from, to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.within(from, to)?;
        self.change(from, |half| half.link(from, to))
    }

    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        self.change(to, |half| half.take(from, name, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(name, |half| half.remove(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        Ok([self.meta.list()?, self.data.list()?].concat())
    }

    fn list_lost(&self) -> io::Result<Vec<String>> {
        Ok([self.meta.list_lost()?, self.data.list_lost()?].concat())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.data.sync_directory()?;
        self.names.sync(|| self.meta.sync_directory())
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.of(name).sync_file(name)
    }

    /// Locks the directory before the device.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let meta = self.meta.lock(exclusive)?;
        Ok(Box::new(Locked { _data: self.data.lock(exclusive)?, meta }))
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

/// The locks of the directory and of the device. Fields are dropped in the order of their
/// declaration, so the lock of the device is released first.
struct Locked {
    _data: Box<dyn DirectoryLock>,
    meta: Box<dyn DirectoryLock>,
}

impl DirectoryLock for Locked {
    fn check(&self) -> io::Result<()> {
        self.meta.check()
    }
}

impl Capacity for SplitFs {
    /// Returns the free bytes of the device, which contains nearly all data.
    fn free_bytes(&self) -> Option<u64> {
        self.data.free_bytes()
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.change(name, |half| half.capacity().map_or(Ok(()), |half| half.reserve(name, bytes)))
    }

    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.of(name).capacity().map_or(Ok(()), |half| half.punch(name, range))
    }
}
