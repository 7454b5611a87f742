//! A directory in memory. It is used for tests, for `open_in_memory`, and to compare real file
//! systems with a store that needs no I/O.
use crate::{
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    folders::{Folders, Inside, inside},
    fs::{DirEntry, DirectoryLock, FileSystem},
    holders::Holders,
    journal::JournalCommit,
};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    ops::Range,
    sync::Arc,
    time::Duration,
};

/// A directory in memory. Clones are handles on the same directory. The directory exists until the
/// last of them is dropped.
#[derive(Clone, Default)]
pub struct MemFs(Arc<Mutex<Directory>>);

/// The contents of a directory, guarded by one lock that is held only for map operations. File
/// contents have their own locks.
#[derive(Default)]
struct Directory {
    made: bool,
    files: BTreeMap<String, Contents>,
    holders: Holders,
    commits: u64,
}

/// The bytes of one file. An open file keeps them after the file's name was removed.
type Contents = Arc<RwLock<Vec<u8>>>;

impl MemFs {
    /// Makes a directory that does not exist yet.
    pub fn new() -> MemFs {
        MemFs::default()
    }

    /// Removes the directory and everything in it. Open files stay readable. Returns `WouldBlock`
    /// if the directory is locked.
    pub fn clear(&self) -> io::Result<()> {
        let holders = self.0.lock().holders.clone();
        let _held = holders.hold(true)?;
        *self.0.lock() = Directory { holders, ..Directory::default() };
        Ok(())
    }

    fn find(&self, name: &str) -> io::Result<Contents> {
        self.0.lock().files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl std::fmt::Debug for MemFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} files)", self.0.lock().files.len())
    }
}

impl FileSystem for MemFs {
    fn name(&self) -> String {
        "memory".into()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.0.lock().made = true;
        Ok(())
    }

    fn exists(&self) -> io::Result<bool> {
        Ok(self.0.lock().made)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let contents = Contents::default();
        self.0.lock().name(name, contents.clone())?;
        Ok(Box::new(Writing(contents)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Reading(self.find(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut directory = self.0.lock();
        let contents = directory.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        directory.files.insert(to.into(), contents);
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let contents = self.find(from)?;
        self.0.lock().name(to, contents)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let directory = self.0.lock();
        let here = directory.files.iter().filter(|(name, _)| !name.contains('/'));
        Ok(here.map(|(name, file)| DirEntry { name: name.clone(), bytes: file.read().len() as u64 }).collect())
    }

    fn list_lost(&self) -> io::Result<Vec<String>> {
        let directory = self.0.lock();
        Ok(directory.files.keys().filter_map(|name| name.strip_prefix("lost/")).map(str::to_owned).collect())
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.open(name).map(drop)
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let mut directory = self.0.lock();
        let held = directory.holders.hold(exclusive)?;
        if exclusive {
            directory.files.entry("LOCK".into()).or_default();
        }
        Ok(Box::new(held))
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        Some(self)
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl JournalCommit for MemFs {
    fn commit(&self) -> io::Result<()> {
        Ok(())
    }

    fn commit_interval(&self) -> Result<Duration, String> {
        Ok(Duration::ZERO)
    }

    /// Returns a count that is one higher than that of the previous call, as if another journal
    /// commit had finished. In memory no file has to wait for a commit.
    fn commit_count(&self) -> io::Result<u64> {
        let mut directory = self.0.lock();
        directory.commits += 1;
        Ok(directory.commits)
    }

    fn join_transaction(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Capacity for MemFs {
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let contents = self.find(name)?;
        if self.0.lock().files.values().filter(|other| Arc::ptr_eq(other, &contents)).count() == 1 {
            let mut bytes = contents.write();
            let [from, to] = [range.start, range.end].map(|at| bytes.len().min(at as usize));
            bytes[from..to].fill(0);
        }
        Ok(())
    }
}

/// A folder is represented by a file whose name ends in `/`.
impl Folders for MemFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.0.lock().name(&format!("{name}/"), Contents::default())
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        let (mut directory, name) = (self.0.lock(), format!("{name}/"));
        if directory.files.keys().any(|file| file.len() > name.len() && file.starts_with(&name)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        directory.files.remove(&name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        let (directory, name) = (self.0.lock(), format!("{name}/"));
        if !directory.files.contains_key(&name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(inside(directory.files.keys().map(String::as_str), &name))
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.link(from, to)
    }

    fn sync_folders(&self, _: &[String]) -> io::Result<()> {
        Ok(())
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        Ok(255)
    }
}

impl Directory {
    fn name(&mut self, name: &str, contents: Contents) -> io::Result<()> {
        let folder = name.trim_end_matches('/').rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        if folder.is_some_and(|folder| folder != "lost/" && !self.files.contains_key(&folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match self.files.entry(name.into()) {
            Entry::Occupied(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Entry::Vacant(free) => {
                free.insert(contents);
                Ok(())
            }
        }
    }
}

struct Writing(Contents);

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.0.clone())))
    }

    fn write_back(&self) -> io::Result<()> {
        Ok(())
    }
}

struct Reading(Contents);

impl ReadFile for Reading {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let contents = self.0.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let wanted = start.checked_add(buf.len()).and_then(|end| contents.get(start..end));
        buf.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.read().len() as u64)
    }
}
