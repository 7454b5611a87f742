//! Folders below a store's directory, for tables that consist of many files. Only directory tables
//! use them.
//!
//! Names are paths with `/` between their parts. Files in folders are created, opened and removed
//! by the methods of [`FileSystem`](crate::FileSystem) under such names.
use std::io;

/// Creates, lists and syncs folders.
pub trait Folders: Send + Sync {
    /// Creates an empty folder; `AlreadyExists` if the name is taken.
    fn make_folder(&self, name: &str) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, name: &str) -> io::Result<()>;
    /// Lists a folder, in any order.
    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>>;
    /// Gives a file a second name in a folder. Replaces nothing: `AlreadyExists`. `TooManyLinks`
    /// if the file can have no more links.
    fn link_into(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes the files in these folders, their names and the names of the folders durable. May
    /// sync more than that, and may fail because of files of another writer. Reports each failure
    /// once, so a single caller per store must remember it.
    fn sync_folders(&self, names: &[String]) -> io::Result<()>;
    /// The most bytes of one part of a name.
    fn name_bytes_max(&self) -> io::Result<usize>;
    /// The number of files that the file system can hold.
    fn room(&self) -> io::Result<Room> {
        Ok(Room { left: u64::MAX, all: u64::MAX })
    }
}

/// The number of files that a file system can hold; [`u64::MAX`] where it is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Files that can still be created.
    pub left: u64,
    /// Existing files and those that can still be created.
    pub all: u64,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its name in the folder.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
}

/// Lists `folder` among `names`, for models. Names of folders, `folder` too, end in `/`.
pub fn inside<'a>(names: impl Iterator<Item = &'a str>, folder: &str) -> Vec<Inside> {
    let one = |name: &str| {
        let name = name.strip_prefix(folder).filter(|name| !name.is_empty())?;
        let (first, behind) = name.split_once('/').map_or((name, None), |(first, behind)| (first, Some(behind)));
        behind.is_none_or(str::is_empty).then(|| Inside { name: first.into(), is_folder: behind.is_some() })
    };
    names.filter_map(one).collect()
}
