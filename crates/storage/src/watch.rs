//! Commit trackers for programs that are no stores: since when do files of one's own survive a power cut?
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

/// Watches finished files of one directory until they are durable, by any [`DurabilityMode`]: NobLSM's `check_commit` and `is_committed` on a
/// kernel as it is.
///
/// ```
/// use std::{fs::File, io::Write, time::Duration};
/// use terrace_storage::{DurabilityMode, Watch};
///
/// # let directory = std::env::temp_dir().join(format!("terrace-watch-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let watch = Watch::open(&directory, DurabilityMode::Auto, Duration::from_millis(100))?; // or DurabilityMode::Journal: no sync at all
/// let mut file = File::create(directory.join("result"))?;
/// file.write_all(b"took hours to compute")?;
/// let ticket = watch.watch([file])?; // returns at once, unless very many files wait
/// while !watch.is_committed(&ticket)? {
///     std::thread::sleep(Duration::from_millis(10)); // or something useful
/// }
/// // From here on a power cut cannot take it, and what it replaces may go.
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watch {
    fs: RealFs,
    tracker: Arc<dyn DurabilityTracker>,
    traffic: IoStats,
    /// Device and inode of the directory.
    place: (u64, u64),
}

impl Watch {
    /// Watches files of `directory`, which must exist. [`Error::Unsupported`] says why its file system cannot keep what `tier`
    /// promises. `poll` passes between two looks, or two batches, unless very many files wait.
    pub fn open(directory: impl AsRef<Path>, durability_mode: DurabilityMode, poll: Duration) -> Result<Watch> {
        let directory = directory.as_ref();
        let facts = directory.metadata().map_err(|e| Error::io("look at", directory.display().to_string(), e))?;
        let fs = RealFs::new(directory);
        let tracker = durability_mode.tracker(
            &fs,
            &StorageConfig { durability_interval: poll, max_open_files: 0, ..StorageConfig::default() },
        )?;
        Ok(Watch { fs, tracker, traffic: IoStats::default(), place: (facts.dev(), facts.ino()) })
    }

    /// Takes charge of finished files that lie directly in the directory, and of their names; others are refused. They must be the
    /// descriptors that wrote them, because a failed writeback is told to those, and nobody may change the files any more. The
    /// ticket is of all of them together, and of the names that they have now: rename before, not behind it. Where a good part of the
    /// process's descriptors wait already, it first does for them what the tier does; else it returns at once.
    pub fn watch(&self, files: impl IntoIterator<Item = File>) -> Result<DurabilityHandle> {
        let files = files.into_iter().map(|file| self.finished(file)).collect::<Result<_>>()?;
        self.tracker.watch(&self.fs, files, &self.traffic)
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

    /// Whether the files of `ticket` survive a power cut by now; the error if they never will. Also looks after all other tickets, so
    /// somebody must ask now and then.
    pub fn is_committed(&self, ticket: &DurabilityHandle) -> Result<bool> {
        self.tracker.advance(&self.fs, &self.traffic)?;
        ticket.is_durable()
    }

    /// Decides all tickets now, which may take a sync.
    pub fn commit(&self) -> Result<()> {
        self.tracker.commit(&self.fs, &self.traffic)
    }

    /// The tier that watches: what [`DurabilityMode::Auto`] has become.
    pub fn durability_mode(&self) -> &'static str {
        self.tracker.durability_mode()
    }

    /// Syncs made so far.
    pub fn traffic(&self) -> &IoStats {
        &self.traffic
    }
}

/// Where the name is by which `file` was opened, as far as the system tells.
fn folder_of(file: &File) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_directory_itself_are_watched() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::open(directory.path(), DurabilityMode::Background, Duration::ZERO).unwrap();
        fs::create_dir(directory.path().join("within")).unwrap();
        let error = watch.watch([File::create(directory.path().join("within/file")).unwrap()]).unwrap_err();
        assert!(error.to_string().contains("within"), "{error}");
        let ticket = watch.watch([File::create(directory.path().join("file")).unwrap()]).unwrap();
        assert!(watch.is_committed(&ticket).unwrap());
    }
}
