//! Folders below a store's directory, for tables of many files: the part of the seam that only directory tables need.
//!
//! Names are paths with `/` between their parts; files in folders are made, opened and removed by
//! [`FileSystem`]'s calls under such names.
use super::{
    folder::kind_of,
    fs::{FileSystem, WriteFile},
    real::RealFs,
};
use nix::{
    errno::Errno,
    sys::{
        stat::{FileStat, SFlag},
        statvfs::fstatvfs,
    },
    unistd::syncfs,
};
use parking_lot::Mutex;
use std::{
    fs::File,
    io::{self, ErrorKind},
    sync::Arc,
};

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

/// Saves the folders of one store, one call at a time, each time all that are finished: a sync of the file system has them anyway.
/// The kernel tells an error of writeback once, to whoever asks next, and not whose bytes were lost: after one, nothing counts
/// as saved any more.
pub(in crate::backends) struct Saver {
    fs: Arc<dyn FileSystem>,
    /// What the first failure was. Held while saving: nobody may succeed beside a call that is being told. Taken before `finished`.
    failed: Mutex<Option<String>>,
    /// A leaf lock; no I/O under it.
    finished: Mutex<Finished>,
}

#[derive(Default)]
struct Finished {
    /// Folders that no call has saved yet.
    names: Vec<String>,
    /// Builds that were finished, and how many of them are saved: the first so many.
    builds: u64,
    saved: u64,
}

impl Saver {
    pub fn new(fs: Arc<dyn FileSystem>) -> Saver {
        Saver { fs, failed: Mutex::default(), finished: Mutex::default() }
    }

    /// The folders `names` are finished, and to be saved together.
    pub fn finished(self: &Arc<Saver>, names: Vec<String>) -> WholeFolders {
        let mut finished = self.finished.lock();
        finished.names.extend(names);
        finished.builds += 1;
        WholeFolders { saver: self.clone(), build: finished.builds }
    }

    /// Makes everything in the folders of the first `build` builds survive a power cut, and these themselves.
    fn save(&self, build: u64) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some(first) = &*failed {
            let told = format!("an earlier sync failed ({first}), and what was lost then may be of any table");
            return Err(io::Error::other(told));
        }
        if self.is_saved(build) {
            return Ok(());
        }
        let folders = self.fs.folders().ok_or(ErrorKind::Unsupported)?;
        let (names, builds) = {
            let mut finished = self.finished.lock();
            (std::mem::take(&mut finished.names), finished.builds)
        };
        folders.sync_folders(&names).inspect_err(|error| *failed = Some(error.to_string()))?;
        self.finished.lock().saved = builds;
        Ok(())
    }

    fn is_saved(&self, build: u64) -> bool {
        self.finished.lock().saved >= build
    }
}

/// The folders of a build as [trackers](crate::durability::DurabilityTracker) see them: one file with all that is in them.
pub(in crate::backends) struct WholeFolders {
    saver: Arc<Saver>,
    build: u64,
}

impl WriteFile for WholeFolders {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Err(ErrorKind::IsADirectory.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.saver.save(self.build)
    }

    fn is_saved(&self) -> bool {
        self.saver.is_saved(self.build)
    }

    /// Writeback of one small file at a time would take longer than the commit that it spares.
    fn write_back(&self) -> io::Result<()> {
        self.saver.save(self.build)
    }
}

impl Folders for RealFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.witness()?;
        self.folder.make_folder(name).map_err(|e| self.told(e))
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.folder.remove_folder(name)
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        let is_folder = |found: &FileStat| kind_of(found.st_mode) == SFlag::S_IFDIR;
        let entries = self.folder.entries(name)?.into_iter();
        Ok(entries.map(|(name, found)| Inside { name, is_folder: is_folder(&found) }).collect())
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.link_within(from, to).map_err(|e| self.told(e))
    }

    /// By a sync of the whole file system: thousands of files cost one commit. It tells of every error of writeback since
    /// the store made its first folder, whichever file met it and whether that is open or not.
    fn sync_folders(&self, _: &[String]) -> io::Result<()> {
        Ok(syncfs(self.witness()?)?)
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        Ok(fstatvfs(&*self.folder.held()?)?.name_max() as usize)
    }

    fn room(&self) -> io::Result<Room> {
        let found = fstatvfs(&*self.folder.held()?)?;
        let counted = |count| if found.files() == 0 { u64::MAX } else { count };
        Ok(Room { left: counted(found.files_available()), all: counted(found.files()) })
    }
}

impl RealFs {
    /// A descriptor of the directory from before the first folder. Errors of writeback are told to those who had something
    /// open when they happened.
    fn witness(&self) -> io::Result<&File> {
        if let Some(witness) = self.witness.get() {
            return Ok(witness);
        }
        let opened = self.folder.open_folder("")?;
        Ok(self.witness.get_or_init(|| opened))
    }

    /// Says that a disk is full of files rather than bytes.
    pub(super) fn told(&self, error: io::Error) -> io::Error {
        if error.raw_os_error() != Some(Errno::ENOSPC as i32) {
            return error;
        }
        match self.folder.held().and_then(|held| Ok(fstatvfs(&*held)?)) {
            Ok(found) if found.files() > 0 && found.files_available() == 0 => {
                let free = found.blocks_available() * found.fragment_size();
                let told = format!("the file system has no inode left for another file, though {free} bytes are free");
                io::Error::new(ErrorKind::StorageFull, told)
            }
            _ => error,
        }
    }
}
