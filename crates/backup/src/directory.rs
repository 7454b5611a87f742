//! A directory as a place for backups.
use crate::{
    pieces::each_piece,
    private,
    record::{MARKER, is_object, parse_name},
    target::{BackupTarget, StoredObject, TargetLock},
};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace_vfs::{DirectoryLock, FileSystem, ReadFile, RealFs};

/// The end of the name of an object that is being written.
const PARTIAL: &str = ".partial";

/// A directory as a place for backups.
pub struct DirectoryTarget {
    fs: Arc<dyn FileSystem>,
    /// The path, if it is a directory of the operating system.
    path: Option<PathBuf>,
}

/// Returns whether `name` is the name of an object that is being written.
fn is_partial(name: &str) -> bool {
    let is_written = |name: &str| is_object(name) || parse_name(name).is_some() || name == MARKER;
    name.strip_suffix(PARTIAL).is_some_and(is_written)
}

impl DirectoryTarget {
    /// Returns the directory at `path`, which need not exist.
    pub fn at(path: impl AsRef<Path>) -> DirectoryTarget {
        let path = path.as_ref();
        DirectoryTarget { fs: Arc::new(RealFs::new(path)), path: Some(path.to_owned()) }
    }

    /// Returns a directory of any file system, such as a model for tests.
    pub fn on(fs: Arc<dyn FileSystem>) -> DirectoryTarget {
        DirectoryTarget { fs, path: None }
    }

    fn write(&self, partial: &str, content: &mut dyn Read) -> io::Result<()> {
        let mut file = self.fs.create(partial)?;
        each_piece(content, |error| error, |piece| file.append(piece))?;
        file.sync()
    }
}

impl BackupTarget for DirectoryTarget {
    fn name(&self) -> String {
        self.fs.name()
    }

    fn directory(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn put(&self, name: &str, content: &mut dyn Read) -> io::Result<()> {
        let partial = format!("{name}{PARTIAL}");
        let put = self.write(&partial, content).and_then(|()| self.fs.rename(&partial, name));
        put.inspect_err(|_| drop(self.fs.remove(&partial)))?; // best effort: the next lock removes it
        self.fs.sync_directory()
    }

    fn get(&self, name: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(FileReader::open(&*self.fs, name)?))
    }

    fn list(&self) -> io::Result<Vec<StoredObject>> {
        let files = self.fs.list()?.into_iter().filter(|file| !is_partial(&file.name) && file.name != "LOCK");
        Ok(files.map(|file| StoredObject { name: file.name, bytes: file.bytes }).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.fs.remove(name)?;
        self.fs.sync_directory()
    }

    /// Also removes incomplete objects, which a killed process has left.
    fn lock(&self) -> io::Result<Box<dyn TargetLock>> {
        let is_new = self.path.as_ref().filter(|path| !path.exists());
        self.fs.make_directory()?;
        if let Some(path) = is_new {
            private::protect(path)?;
        }
        let lock = self.fs.lock(true)?;
        for file in self.fs.list()?.iter().filter(|file| is_partial(&file.name)) {
            self.fs.remove(&file.name)?;
        }
        // A process that was killed between a rename and its sync has left an object whose name may
        // not be durable. Later backups use this object.
        self.fs.sync_directory()?;
        Ok(Box::new(Locked { _lock: lock }))
    }
}

struct Locked {
    _lock: Box<dyn DirectoryLock>,
}

impl TargetLock for Locked {}

/// Reads a file from its start to its end.
pub(crate) struct FileReader {
    file: Box<dyn ReadFile>,
    offset: u64,
    bytes: u64,
}

impl FileReader {
    /// Opens the file `name` of `fs`.
    pub fn open(fs: &dyn FileSystem, name: &str) -> io::Result<FileReader> {
        let file = fs.open(name)?;
        Ok(FileReader { bytes: file.bytes()?, file, offset: 0 })
    }
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes - self.offset).unwrap_or(usize::MAX);
        let count = buf.len().min(left);
        self.file.read_exact_at(&mut buf[..count], self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
