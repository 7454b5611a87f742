//! Finished tables in files, wherever they are: what one store takes over from another, or from outside.
use std::{fmt, path::Path, sync::Arc};
use terrace_vfs::{FileSystem, RealFs, parent};

/// A finished table, or segment of a value log, in a file. Its bytes never change.
#[derive(Clone)]
pub struct TableFile {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) name: String,
}

impl TableFile {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, name: String) -> TableFile {
        TableFile { fs, name }
    }

    /// The file at `path`, or that a symbolic link there leads to, whether it is there or not; `None` if it can be none, having
    /// no name.
    pub fn at(path: &Path) -> Option<TableFile> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Some(TableFile::new(Arc::new(RealFs::new(parent(&path))), path.file_name()?.to_str()?.to_owned()))
    }
}

impl fmt::Display for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.fs.name(), self.name)
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How tables were taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// By a second name for the same file.
    pub linked: u64,
    /// By copying their bytes, because they are on another file system, or this one has no links.
    pub copied: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}
