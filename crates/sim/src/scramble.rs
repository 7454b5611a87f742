//! A directory whose bytes make sense only through it: what goes around the seam reads and leaves garbage.
use crate::rng::mix;
use std::{io, ops::Range, sync::Arc, time::Duration};
use terrace_format::Medium;
use terrace_storage::{
    WalWriteMode,
    backends::files::{
        folders::Folders,
        fs::{DirEntry, FileSystem, ReadFile, WriteFile},
    },
    placement::Hint,
};

/// XORs every byte with a mask that depends on its offset, on the way in and on the way out. Names stay as they are.
#[derive(Clone)]
pub struct ScrambleFs(Arc<dyn FileSystem>);

impl ScrambleFs {
    /// `inner`, which will hold scrambled files.
    pub fn new(inner: Arc<dyn FileSystem>) -> ScrambleFs {
        ScrambleFs(inner)
    }
}

/// Scrambles, and unscrambles, bytes that lie at `offset`: a word of mask for every eight.
fn scramble(bytes: &mut [u8], offset: u64) {
    let (mut word, mut skip) = (offset / 8, (offset % 8) as usize);
    let mut rest = bytes;
    while !rest.is_empty() {
        let mask = mix(word).to_le_bytes();
        let (now, later) = rest.split_at_mut(rest.len().min(8 - skip));
        now.iter_mut().zip(&mask[skip..]).for_each(|(byte, mask)| *byte ^= mask);
        (rest, word, skip) = (later, word + 1, 0);
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

    fn create_log(&self, name: &str, how: WalWriteMode) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.0.create_log(name, how)?, bytes: 0 }))
    }

    fn create_table(&self, name: &str, hint: &Hint) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.0.create_table(name, hint)?, bytes: 0 }))
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

    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.0.punch(name, range)
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

    fn commit(&self) -> io::Result<()> {
        self.0.commit()
    }

    fn medium(&self) -> Medium {
        self.0.medium()
    }

    fn can_commit(&self) -> Result<Duration, String> {
        self.0.can_commit()
    }

    fn commits(&self) -> io::Result<u64> {
        self.0.commits()
    }

    fn beat(&self) -> io::Result<()> {
        self.0.beat()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.0.sync_file(name)
    }

    fn forget_cached(&self, name: &str) -> io::Result<()> {
        self.0.forget_cached(name)
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(exclusive)
    }
}

struct Writer {
    inner: Box<dyn WriteFile>,
    /// Size so far. Wrong after a failed append, after which nobody may append.
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

    fn twin(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writer { inner: self.inner.twin()?, bytes: self.bytes }))
    }

    fn write_back(&self) -> io::Result<()> {
        self.inner.write_back()
    }
}

struct Reader(Box<dyn ReadFile>);

impl ReadFile for Reader {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)?;
        scramble(buf, offset);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
}
