//! A directory on a device of a given size, which runs full as a real one does: appends take space, removals give it back,
//! and what is reserved nobody else can take.
use parking_lot::Mutex;
use std::{io, sync::Arc, time::Duration};
use terrace_format::Storage;
use terrace_storage::backends::files::fs::{DirEntry, FileSystem, ReadFile, WriteFile};

/// Clones are handles on the same directory. Names take no space.
#[derive(Clone)]
pub struct SmallFs {
    inner: Arc<dyn FileSystem>,
    space: Arc<Mutex<Space>>, // also held while a call is made that takes some of it
}

struct Space {
    capacity: u64,
    reserved: u64,
}

impl SmallFs {
    /// `inner`, on a device of `capacity` bytes.
    pub fn new(inner: Arc<dyn FileSystem>, capacity: u64) -> SmallFs {
        SmallFs { inner, space: Arc::new(Mutex::new(Space { capacity, reserved: 0 })) }
    }

    /// Makes the device so large that `bytes` are free.
    pub fn leave(&self, bytes: u64) {
        let used = self.used();
        let mut space = self.space.lock();
        space.capacity = used + space.reserved + bytes;
    }

    /// Bytes that a reserve holds.
    pub fn reserved(&self) -> u64 {
        self.space.lock().reserved
    }

    fn used(&self) -> u64 {
        self.inner.list().unwrap_or_default().iter().map(|file| file.bytes).sum()
    }

    fn free(&self, space: &Space) -> u64 {
        space.capacity.saturating_sub(self.used() + space.reserved)
    }

    fn writer(&self, inner: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(Writer { fs: self.clone(), inner })
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
        Ok(self.writer(self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.inner.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
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

    fn forget_cached(&self, name: &str) -> io::Result<()> {
        self.inner.forget_cached(name)
    }

    fn commit(&self) -> io::Result<()> {
        self.inner.commit()
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    fn can_commit(&self) -> Result<Duration, String> {
        self.inner.can_commit()
    }

    fn commits(&self) -> io::Result<u64> {
        self.inner.commits()
    }

    fn beat(&self) -> io::Result<()> {
        self.inner.beat()
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(self.free(&self.space.lock()))
    }

    fn reserve(&self, _: &str, bytes: u64) -> io::Result<()> {
        let mut space = self.space.lock();
        space.reserved = 0;
        if self.free(&space) < bytes {
            return Err(full());
        }
        space.reserved = bytes;
        Ok(())
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn Send + Sync>> {
        self.inner.lock(exclusive)
    }
}

struct Writer {
    fs: SmallFs,
    inner: Box<dyn WriteFile>,
}

impl WriteFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let space = self.fs.space.lock();
        if self.fs.free(&space) < bytes.len() as u64 { Err(full()) } else { self.inner.append(bytes) }
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn twin(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(self.fs.writer(self.inner.twin()?))
    }

    fn write_back(&self) -> io::Result<()> {
        self.inner.write_back()
    }
}
