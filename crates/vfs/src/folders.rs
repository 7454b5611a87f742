//! Folders below the directory of a store. Only directory tables use them, because each such table
//! consists of many files.
//!
//! Names are paths with `/` between their parts. The methods of [`FileSystem`](crate::FileSystem)
//! create, open and remove files in folders under such names.
use std::io;

/// Creates, lists and syncs folders.
pub trait Folders: Send + Sync {
    /// Creates an empty folder. Returns `AlreadyExists` if the name is taken.
    fn make_folder(&self, name: &str) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, name: &str) -> io::Result<()>;
    /// Lists a folder, in any order.
    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>>;
    /// Gives a file a second name in a folder. It replaces no file: returns `AlreadyExists` if the
    /// name is taken. Returns `TooManyLinks` if the file cannot have more links.
    fn link_into(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes the files in these folders, the names of these files, and the names of the folders
    /// durable. The call may sync other files too, and may fail because of files of another writer.
    /// The kernel reports a failure to only one call. Therefore only one part of a store may make
    /// these calls, and it must remember failures.
    fn sync_folders(&self, names: &[String]) -> io::Result<()>;
    /// Returns the maximum length in bytes of one part of a name.
    fn name_bytes_max(&self) -> io::Result<usize>;
    /// Returns the number of existing files and of files that can still be created.
    fn room(&self) -> io::Result<Room> {
        Ok(Room { left: u64::MAX, all: u64::MAX })
    }
}

/// Numbers of files in a file system; [`u64::MAX`] if the file system does not count files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Number of files that can still be created.
    pub left: u64,
    /// Number of existing files plus files that can still be created.
    pub all: u64,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The entry's name within the folder.
    pub name: String,
    /// Whether the entry is itself a folder.
    pub is_folder: bool,
}

/// Lists the entries of `folder` among `names`, for models of file systems. All names of folders,
/// including `folder`, end in `/`.
pub fn inside<'a>(names: impl Iterator<Item = &'a str>, folder: &str) -> Vec<Inside> {
    let one = |name: &str| {
        let name = name.strip_prefix(folder).filter(|name| !name.is_empty())?;
        let (first, behind) = name.split_once('/').map_or((name, None), |(first, behind)| (first, Some(behind)));
        behind.is_none_or(str::is_empty).then(|| Inside { name: first.into(), is_folder: behind.is_some() })
    };
    names.filter_map(one).collect()
}
