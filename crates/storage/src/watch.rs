//! Durability of files that belong to no store.
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

/// Watches finished files of one directory until they are durable, in any [`DurabilityMode`]:
/// NobLSM's `check_commit` and `is_committed` on an unmodified kernel.
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
    /// Device and inode of the directory.
    place: (u64, u64),
}

impl Watch {
    /// Watches files of `directory`, which must exist. `poll` is the time between two looks at the
    /// journal, or two batches, unless very many files wait.
    ///
    /// # Errors
    /// [`Error::Unsupported`] says why the file system cannot keep the promise of the durability
    /// mode.
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

    /// Watches finished files that lie directly in the directory, and their names; refuses others.
    /// Pass the descriptors that wrote the files, because the kernel reports a failed writeback to
    /// those. The files must not change any more.
    ///
    /// The handle covers all of them together, and the names that they have now: rename a file
    /// before this call, not after it. Returns at once, unless a good part of the process's
    /// descriptors wait already; then the call does the work that is due for them first.
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

    /// Whether the files of `handle` are durable; the error if they never will be. Makes progress
    /// for all handles, so it must be called now and then.
    pub fn is_committed(&self, handle: &DurabilityHandle) -> Result<bool> {
        self.tracker.advance(&self.fs, &self.io_stats)?;
        handle.is_durable()
    }

    /// Decides all handles now, which may take a sync.
    pub fn commit(&self) -> Result<()> {
        self.tracker.commit(&self.fs, &self.io_stats)
    }

    /// The durability mode in use; for [`DurabilityMode::Auto`], its choice.
    pub fn durability_mode(&self) -> &'static str {
        self.tracker.durability_mode()
    }

    /// Syncs made so far.
    pub fn io_stats(&self) -> &IoStats {
        &self.io_stats
    }
}

/// The directory of the name by which `file` was opened, as far as the system reports it.
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
