//! A directory on a device of a given size. Like a real device, it can run out of space: appends
//! use space, and removals and punched holes free it. Space that a file has reserved is not
//! available to other files.
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    io,
    ops::Range,
    sync::Arc,
};
use terrace_format::Medium;
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, Folders, Inside, JournalCommit, ReadFile, Room, WriteFile,
};

/// Unit of punched holes, in bytes.
const PAGE: u64 = 4096;

/// A directory with limited space. Clones share it. Names and folders use no space.
#[derive(Clone)]
pub struct SmallFs {
    inner: Arc<dyn FileSystem>,
    // Calls that use or free space also hold this lock.
    space: Arc<Mutex<Space>>,
}

#[derive(Default)]
struct Space {
    capacity: u64,
    reserved: u64,
    /// Bytes that files use.
    used: u64,
    /// Names of files, each with the inode number of its file.
    names: HashMap<String, u64>,
    inodes: HashMap<u64, Inode>,
    made: u64,
    /// Number of appends rejected for lack of space.
    refused: u64,
    /// Whether the free space of the device is unknown to callers of `free_bytes`.
    silent: bool,
}

#[derive(Default)]
struct Inode {
    names: u64,
    bytes: u64,
    /// The punched pages of the file, by page number.
    punched: BTreeSet<u64>,
}

impl Inode {
    fn taken(&self) -> u64 {
        self.bytes - self.punched.len() as u64 * PAGE
    }
}

impl Space {
    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used + self.reserved)
    }

    /// Creates a file of `bytes` bytes with the name `name`. Returns the file's inode number.
    fn create(&mut self, name: &str, bytes: u64) -> u64 {
        self.made += 1;
        self.used += bytes;
        self.inodes.insert(self.made, Inode { bytes, ..Inode::default() });
        self.add_name(name, self.made);
        self.made
    }

    fn add_name(&mut self, name: &str, number: u64) {
        self.unlink(name);
        self.names.insert(name.into(), number);
        self.inodes.entry(number).or_default().names += 1;
    }

    /// Adds the name `to` to the file `from`, if `from` is known.
    fn link(&mut self, from: &str, to: &str) {
        if let Some(number) = self.names.get(from).copied() {
            self.add_name(to, number);
        }
    }

    /// Removes a name. The space of a file is freed when its last name is removed, even if the file
    /// is still open.
    fn unlink(&mut self, name: &str) {
        let Some(number) = self.names.remove(name) else { return };
        let Some(inode) = self.inodes.get_mut(&number) else { return };
        inode.names -= 1;
        if inode.names == 0 {
            self.used -= inode.taken();
            self.inodes.remove(&number);
        }
    }
}

impl SmallFs {
    /// Wraps `inner` as a directory on a device of `capacity` bytes. Files that the subdirectories
    /// of `inner` already contain use no space.
    pub fn new(inner: Arc<dyn FileSystem>, capacity: u64) -> SmallFs {
        let mut space = Space { capacity, ..Space::default() };
        for file in inner.list().unwrap_or_default() {
            space.create(&file.name, file.bytes);
        }
        SmallFs { inner, space: Arc::new(Mutex::new(space)) }
    }

    /// Sets the capacity of the device so that `bytes` bytes are free.
    pub fn leave(&self, bytes: u64) {
        let mut space = self.space.lock();
        space.capacity = space.used + space.reserved + bytes;
    }

    /// Makes `free_bytes` report from now on that the free space is unknown.
    pub fn hide_free_bytes(&self) {
        self.space.lock().silent = true;
    }

    /// Returns the number of bytes that files use, without holes.
    pub fn used(&self) -> u64 {
        self.space.lock().used
    }

    /// Returns the number of appends that were rejected for lack of space.
    pub fn refused(&self) -> u64 {
        self.space.lock().refused
    }

    /// Returns the number of reserved bytes.
    pub fn reserved(&self) -> u64 {
        self.space.lock().reserved
    }
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the small device is full")
}

impl FileSystem for SmallFs {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.inner.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.inner.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let mut space = self.space.lock();
        let inner = self.inner.create(name)?;
        Ok(Box::new(Writer { number: space.create(name, 0), space: self.space.clone(), inner }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut space = self.space.lock();
        self.inner.rename(from, to)?;
        if space.names.get(from) != space.names.get(to) {
            space.unlink(to);
            space.link(from, to);
            space.unlink(from);
        } // otherwise both names belong to one file, and rename has no effect
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let mut space = self.space.lock();
        self.inner.link(from, to)?;
        space.link(from, to);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut space = self.space.lock();
        self.inner.remove(name)?;
        space.unlink(name);
        Ok(())
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.inner.folders().map(|_| self as &dyn Folders)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.inner.sync_file(name)
    }

    fn medium(&self) -> Medium {
        self.inner.medium()
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

impl Capacity for SmallFs {
    fn free_bytes(&self) -> Option<u64> {
        let space = self.space.lock();
        (!space.silent).then(|| space.free())
    }

    fn reserve(&self, _: &str, bytes: u64) -> io::Result<()> {
        let mut space = self.space.lock();
        space.reserved = 0;
        if space.free() < bytes {
            return Err(full());
        }
        space.reserved = bytes;
        Ok(())
    }

    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let mut space = self.space.lock();
        if let Some(inner) = self.inner.capacity() {
            inner.punch(name, range.clone())?;
        }
        let Space { names, inodes, used, .. } = &mut *space;
        if let Some(inode) = names.get(name).and_then(|number| inodes.get_mut(number)).filter(|inode| inode.names == 1)
        {
            let end = range.end.min(inode.bytes / PAGE * PAGE);
            *used -= inode.taken();
            inode.punched.extend(range.start / PAGE..end / PAGE);
            *used += inode.taken();
        }
        Ok(())
    }
}

impl SmallFs {
    fn inner_folders(&self) -> io::Result<&dyn Folders> {
        self.inner.folders().ok_or(io::ErrorKind::Unsupported.into())
    }
}

impl Folders for SmallFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.inner_folders()?.make_folder(name)
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.inner_folders()?.remove_folder(name)
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        self.inner_folders()?.list_folder(name)
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        let mut space = self.space.lock();
        self.inner_folders()?.link_into(from, to)?;
        space.link(from, to);
        Ok(())
    }

    fn sync_folders(&self, names: &[String]) -> io::Result<()> {
        self.inner_folders()?.sync_folders(names)
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        self.inner_folders()?.name_bytes_max()
    }

    fn room(&self) -> io::Result<Room> {
        self.inner_folders()?.room()
    }
}

struct Writer {
    space: Arc<Mutex<Space>>,
    number: u64,
    inner: Box<dyn WriteFile>,
}

impl WriteFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut space = self.space.lock();
        if space.free() < bytes.len() as u64 {
            space.refused += 1;
            return Err(full());
        }
        self.inner.append(bytes)?;
        let Space { inodes, used, .. } = &mut *space;
        if let Some(inode) = inodes.get_mut(&self.number) {
            inode.bytes += bytes.len() as u64;
            *used += bytes.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { space: self.space.clone(), number: self.number, inner: self.inner.second_handle()? }))
    }

    fn write_back(&self) -> io::Result<()> {
        self.inner.write_back()
    }
}
