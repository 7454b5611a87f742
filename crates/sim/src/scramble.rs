//! A directory that stores all bytes of its files scrambled. Code that accesses a file without the
//! file-system interface therefore reads or writes garbage, and a test detects that.
use crate::rng::mix;
use std::{io, sync::Arc};
use terrace_format::Medium;
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, FileUse, Folders, JournalCommit, ReadFile, WriteFile,
};

/// A wrapper that XORs every byte with a mask that depends on the byte's offset, for writes and
/// for reads. Names are unchanged.
#[derive(Clone)]
pub struct ScrambleFs(Arc<dyn FileSystem>);

impl ScrambleFs {
    /// Wraps `inner`, which then stores scrambled files.
    pub fn new(inner: Arc<dyn FileSystem>) -> ScrambleFs {
        ScrambleFs(inner)
    }
}

/// Scrambles or unscrambles bytes at `offset`, with one mask word per eight bytes.
fn scramble(bytes: &mut [u8], offset: u64) {
    let (mut word, mut skip) = (offset / 8, (offset % 8) as usize);
    let mut rest = bytes;
    while !rest.is_empty() {
        let mask = mix(word).to_le_bytes();
        let (chunk, tail) = rest.split_at_mut(rest.len().min(8 - skip));
        chunk.iter_mut().zip(&mask[skip..]).for_each(|(byte, mask)| *byte ^= mask);
        (rest, word, skip) = (tail, word + 1, 0);
    }
}

impl FileSystem for ScrambleFs {
    fn name(&self) -> String {
        self.0.name()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.0.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.0.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.0.create(name)?, bytes: 0 }))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.0.create_for(name, file_use)?, bytes: 0 }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Reader(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.0.list()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.0.folders()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn medium(&self) -> Medium {
        self.0.medium()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.0.sync_file(name)
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        self.0.lock(exclusive)
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        self.0.journal()
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        self.0.capacity()
    }
}

struct Writer {
    inner: Box<dyn WriteFile>,
    /// Size of the file in bytes. After a failed append this size is wrong, so callers must not
    /// append to the file again.
    bytes: u64,
}

impl WriteFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut masked = bytes.to_vec();
        scramble(&mut masked, self.bytes);
        self.bytes += bytes.len() as u64;
        self.inner.append(&masked)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.inner.second_handle()?, bytes: self.bytes }))
    }

    fn write_back(&self) -> io::Result<()> {
        self.inner.write_back()
    }
}

struct Reader(Box<dyn ReadFile>);

impl ReadFile for Reader {
    fn forget_cached(&self) -> io::Result<()> {
        self.0.forget_cached()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)?;
        scramble(buf, offset);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
}
