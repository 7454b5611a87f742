//! Syncs the folders of finished directory tables in batches.
use parking_lot::Mutex;
use std::{
    io::{self, ErrorKind},
    sync::Arc,
};
use terrace_vfs::{FileSystem, WriteFile};

/// Syncs the folders of one store. Each call syncs all finished folders, since a sync of the file
/// system includes them anyway. The kernel reports a writeback error once, to the next caller, and
/// not whose bytes were lost. So after an error no folder counts as durable any more.
pub(super) struct Saver {
    fs: Arc<dyn FileSystem>,
    /// The first failure. Held during a sync, so that no call succeeds next to one that fails.
    /// Taken before `finished`.
    failed: Mutex<Option<String>>,
    /// A leaf lock; no I/O under it.
    finished: Mutex<Finished>,
}

#[derive(Default)]
struct Finished {
    /// Finished folders that no call has synced yet.
    names: Vec<String>,
    /// The number of finished builds, and the number of durable ones, which are the first of them.
    builds: u64,
    saved: u64,
}

impl Saver {
    pub fn new(fs: Arc<dyn FileSystem>) -> Saver {
        Saver { fs, failed: Mutex::default(), finished: Mutex::default() }
    }

    /// Adds the finished folders `names`, to be synced together.
    pub fn finished(self: &Arc<Saver>, names: Vec<String>) -> WholeFolders {
        let mut finished = self.finished.lock();
        finished.names.extend(names);
        finished.builds += 1;
        WholeFolders { saver: self.clone(), build: finished.builds }
    }

    /// Makes the first `build` builds durable: their folders and all files in them.
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

/// The folders of a build as one file, for [trackers](crate::durability::DurabilityTracker).
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

    /// Writing back small files one by one would take longer than the commit that it avoids.
    fn write_back(&self) -> io::Result<()> {
        self.saver.save(self.build)
    }
}
