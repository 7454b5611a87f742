//! Saves the folders of finished directory tables in batches.
use parking_lot::Mutex;
use std::{
    io::{self, ErrorKind},
    sync::Arc,
};
use terrace_vfs::{FileSystem, WriteFile};

/// Saves the folders of one store, one call at a time, each time all that are finished: a sync of the file system has them anyway.
/// The kernel tells an error of writeback once, to whoever asks next, and not whose bytes were lost: after one, nothing counts
/// as saved any more.
pub(super) struct Saver {
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
pub(super) struct WholeFolders {
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
