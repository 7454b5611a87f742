//! Durability of files that do not belong to a store: the type [`Watch`].
use crate::{
    DurabilityHandle, DurabilityMode, Error, IoStats, Purpose, Result, StorageConfig,
    durability::{DurabilityTracker, Finished},
};
use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use terrace_vfs::{FileSystem, RealFs};

/// Watches finished files of one directory until they are durable, in any [`DurabilityMode`]. For
/// this purpose the NobLSM paper adds two system calls to the kernel, `check_commit` and
/// `is_committed`. This type needs no change of the kernel.
///
/// ```
/// use std::{fs::File, io::Write, time::Duration};
/// use terrace_storage::{DurabilityMode, Watch};
///
/// # let directory = std::env::temp_dir().join(format!("terrace-watch-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// // DurabilityMode::Journal would never sync.
/// let watch = Watch::open(&directory, DurabilityMode::Auto, Duration::from_millis(100))?;
/// let mut file = File::create(directory.join("result"))?;
/// file.write_all(b"took hours to compute")?;
/// let handle = watch.watch([file])?; // returns at once, unless very many files wait
/// while !watch.is_committed(&handle)? {
///     std::thread::sleep(Duration::from_millis(10)); // or something useful
/// }
/// // Now the file survives a power cut, and the one that it replaces may be removed.
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watch {
    fs: RealFs,
    tracker: Arc<dyn DurabilityTracker>,
    io_stats: IoStats,
    /// The device number and the inode number of the directory.
    place: (u64, u64),
}

impl Watch {
    /// Watches files of `directory`, which must exist. `poll` is the time between two checks of the
    /// journal, or between two batch syncs, unless very many files wait.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason why the file system cannot keep the promise of the
    /// durability mode.
    pub fn open(directory: impl AsRef<Path>, durability_mode: DurabilityMode, poll: Duration) -> Result<Watch> {
        let directory = directory.as_ref();
        let facts = directory.metadata().map_err(|e| Error::io("look at", directory.display().to_string(), e))?;
        let fs = RealFs::new(directory);
        let tracker = durability_mode.tracker(
            &fs,
            &StorageConfig { durability_interval: poll, max_open_files: 0, ..StorageConfig::default() },
        )?;
        Ok(Watch { fs, tracker, io_stats: IoStats::default(), place: (facts.dev(), facts.ino()) })
    }

    /// Starts to watch finished files in the directory, and their names. Files elsewhere, including
    /// in subdirectories, are refused. The caller must pass the descriptors that wrote the files,
    /// because the kernel reports a failed writeback to these descriptors. The files must not
    /// change any more.
    ///
    /// The returned handle covers all of these files and their present names. Rename a file before
    /// this call, not after it. The call returns without waiting, with one exception: if earlier
    /// files that still wait hold a large part of the process's descriptors, the call first syncs
    /// those files.
    pub fn watch(&self, files: impl IntoIterator<Item = File>) -> Result<DurabilityHandle> {
        let files = files.into_iter().map(|file| self.finished(file)).collect::<Result<_>>()?;
        self.tracker.watch(&self.fs, files, &self.io_stats)
    }

    fn finished(&self, file: File) -> Result<Finished> {
        let name = || format!("a file to be watched in {}", self.fs.name());
        let facts = file.metadata().map_err(|e| Error::io("look at", name(), e))?;
        if facts.dev() != self.place.0 {
            return Err(Error::Unsupported(format!("{} is on another file system", name())));
        }
        if let Some(folder) = folder_of(&file)
            && folder.metadata().is_ok_and(|folder| (folder.dev(), folder.ino()) != self.place)
        {
            return Err(Error::Unsupported(format!("{} lies in {}", name(), folder.display())));
        }
        Ok(Finished { name: name(), bytes: facts.len(), file: RealFs::adopt(file), purpose: Purpose::Other })
    }

    /// Returns whether the files of `handle` are durable. Returns the error if they never will be.
    /// Each call also makes progress for all other handles of this watch, so the caller must call
    /// this method repeatedly.
    pub fn is_committed(&self, handle: &DurabilityHandle) -> Result<bool> {
        self.tracker.advance(&self.fs, &self.io_stats)?;
        handle.is_durable()
    }

    /// Makes all handles durable or failed now, which may take a sync.
    pub fn commit(&self) -> Result<()> {
        self.tracker.commit(&self.fs, &self.io_stats)
    }

    /// Returns the durability mode in use. For [`DurabilityMode::Auto`] this is the mode that it
    /// chose.
    pub fn durability_mode(&self) -> &'static str {
        self.tracker.durability_mode()
    }

    /// Returns the counters of the syncs made so far.
    pub fn io_stats(&self) -> &IoStats {
        &self.io_stats
    }
}

/// Returns the directory in which `file` was opened, if the operating system reports it.
fn folder_of(file: &File) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_the_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::open(directory.path(), DurabilityMode::Background, Duration::ZERO).unwrap();
        fs::create_dir(directory.path().join("within")).unwrap();
        let error = watch.watch([File::create(directory.path().join("within/file")).unwrap()]).unwrap_err();
        assert!(error.to_string().contains("within"), "{error}");
        let handle = watch.watch([File::create(directory.path().join("file")).unwrap()]).unwrap();
        assert!(watch.is_committed(&handle).unwrap());
    }
}
