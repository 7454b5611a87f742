//! The files of a checkpoint, which a backup copies.
use crate::{
    directory::FileReader,
    error::{Error, Result},
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace_vfs::{FileSystem, RealFs};

/// The directory of a checkpoint. Its files do not change any more.
pub struct Source {
    fs: Arc<dyn FileSystem>,
    /// The path, if it is a directory of the operating system.
    path: Option<PathBuf>,
}

/// What identifies an unchanged file. A later backup of a file with the same name, size and
/// identity need not read it. Only a hard link to a file of the store has an identity: an
/// SSTable or a value-log segment, which never changes. The other files of a checkpoint were
/// written a moment ago, and a later file may have the same inode and modification time. The
/// change time is not a part of the identity, because a hard link changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// The modification time, in nanoseconds since 1970.
    modified: i128,
}

impl Identity {
    /// Returns the identity of a file that has more than one name; otherwise `None`.
    #[cfg(unix)]
    fn of(found: &fs::Metadata) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt;
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        (found.nlink() > 1).then(|| Identity { device: found.dev(), inode: found.ino(), modified })
    }

    /// Returns `None`, because the standard library reports no number of a file here. Every backup
    /// reads all files, and still stores unchanged ones only once.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Option<Identity> {
        None
    }
}

impl Source {
    /// Returns the checkpoint in the directory `path`.
    pub fn at(path: &Path) -> Source {
        Source { fs: Arc::new(RealFs::new(path)), path: Some(path.to_owned()) }
    }

    /// Returns the checkpoint in a directory of any file system, such as a model for tests.
    /// Files in folders are not found, so the store must not have directory tables.
    pub fn on(fs: Arc<dyn FileSystem>) -> Source {
        Source { fs, path: None }
    }

    /// Lists all files, sorted by name. A directory of the operating system may have folders; the
    /// names of the files in them have a `/`.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let listed = match &self.path {
            Some(path) => add_files(path, "", &mut files),
            None => self.fs.list().map(|listed| files.extend(listed.into_iter().map(|file| file.name))),
        };
        listed.map_err(Error::io("list", self.fs.name()))?;
        files.retain(|name| name != "LOCK" && name != "LOG");
        files.sort();
        Ok(files)
    }

    /// Returns the size and the identity of the file `name`.
    pub(crate) fn stat(&self, name: &str) -> Result<(u64, Option<Identity>)> {
        let stat = || -> io::Result<(u64, Option<Identity>)> {
            let Some(path) = &self.path else { return Ok((self.fs.open(name)?.bytes()?, None)) };
            let found = fs::symlink_metadata(path.join(name))?;
            Ok((found.len(), Identity::of(&found)))
        };
        stat().map_err(Error::io("open", self.path_of(name)))
    }

    /// Opens the file `name`.
    pub(crate) fn open(&self, name: &str) -> Result<FileReader> {
        FileReader::open(&*self.fs, name).map_err(Error::io("open", self.path_of(name)))
    }

    /// Returns the path of the file `name`, for messages.
    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.fs.name())
    }
}

/// Adds the names of all files in `path` and its folders to `files`, each after `prefix`.
fn add_files(path: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| io::Error::other(format!("{} is not UTF-8", name.display())))?;
        if entry.file_type()?.is_dir() {
            add_files(&entry.path(), &format!("{prefix}{name}/"), files)?;
        } else {
            files.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}
