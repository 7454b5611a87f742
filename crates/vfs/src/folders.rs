//! Folders below a store's directory, for tables of many files: the part of the seam that only directory tables need.
//!
//! Names are paths with `/` between their parts; files in folders are made, opened and removed by
//! [`FileSystem`]'s calls under such names.
use std::io;

/// Makes, lists and saves folders.
pub trait Folders: Send + Sync {
    /// A new empty folder; `AlreadyExists` if the name is taken.
    fn make_folder(&self, name: &str) -> io::Result<()>;
    /// Removes a folder, which must be empty.
    fn remove_folder(&self, name: &str) -> io::Result<()>;
    /// What is in a folder, in no order.
    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>>;
    /// A second name for the same file, in a folder. Replaces nothing: `AlreadyExists`. `TooManyLinks` if the file can have no
    /// more.
    fn link_into(&self, from: &str, to: &str) -> io::Result<()>;
    /// The files in these folders, their names and the folders' own survive a power cut. May save more than that, and fail for
    /// what others wrote; tells of each failure once, so that only `Saver` is to call it.
    fn sync_folders(&self, names: &[String]) -> io::Result<()>;
    /// Bytes that a part of a name may have.
    fn name_bytes_max(&self) -> io::Result<usize>;
    /// How many files there can be.
    fn room(&self) -> io::Result<Room> {
        Ok(Room { left: u64::MAX, all: u64::MAX })
    }
}

/// How many files a file system can have; [`u64::MAX`] where nobody counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Besides those that are there.
    pub left: u64,
    /// With them.
    pub all: u64,
}

/// One thing in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its name there.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
}

/// For models: what of `names`, of which those of folders end in `/`, lies in `folder` itself, whose name does too.
pub fn inside<'a>(names: impl Iterator<Item = &'a str>, folder: &str) -> Vec<Inside> {
    let one = |name: &str| {
        let name = name.strip_prefix(folder).filter(|name| !name.is_empty())?;
        let (first, behind) = name.split_once('/').map_or((name, None), |(first, behind)| (first, Some(behind)));
        behind.is_none_or(str::is_empty).then(|| Inside { name: first.into(), is_folder: behind.is_some() })
    };
    names.filter_map(one).collect()
}
