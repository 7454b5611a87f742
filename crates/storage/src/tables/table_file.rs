//! Files of finished tables, in a store or outside, that another store can take over.
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

    /// The file at `path`, existing or not, or the target of a symbolic link there; `None` if
    /// `path` has no file name.
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
    /// Files taken over by a hard link.
    pub linked: u64,
    /// Files copied, because they are on another file system, or because this one has no hard
    /// links.
    pub copied: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}
