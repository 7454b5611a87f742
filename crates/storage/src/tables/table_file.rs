//! Files of finished tables that a store can take over. They are in another store or outside of
//! any store.
use std::{fmt, path::Path, sync::Arc};
use terrace_vfs::{FileSystem, RealFs, parent};

/// The file of a finished table or value-log segment. Its bytes never change.
#[derive(Clone)]
pub struct TableFile {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) name: String,
}

impl TableFile {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, name: String) -> TableFile {
        TableFile { fs, name }
    }

    /// Returns the file at `path`, which need not exist. If `path` is a symbolic link, returns the
    /// target of the link. Returns `None` if `path` has no file name.
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

/// The result of taking over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Number of files taken over by a hard link.
    pub linked: u64,
    /// Number of files copied, because they are on another file system, or because this file system
    /// has no hard links.
    pub copied: u64,
    /// Total size in bytes of all files taken over.
    pub bytes: u64,
}
