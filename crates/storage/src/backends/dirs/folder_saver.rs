//! Syncs the directories of finished directory tables in batches.
use parking_lot::Mutex;
use std::{
    io::{self, ErrorKind},
    sync::Arc,
};
use terrace_vfs::{FileSystem, WriteFile};

/// Syncs the table directories of one store. Each call syncs the directories of all finished jobs,
/// because a sync of the file system includes all of them anyway. The kernel reports a writeback
/// error only once, to the next caller of a sync, and does not report which file lost data.
/// Therefore after an error no table directory is considered durable.
pub(super) struct Saver {
    fs: Arc<dyn FileSystem>,
    /// The error of the first failed sync. A thread holds this lock during a sync, so that no sync
    /// succeeds while another one fails. Lock order: this lock before `finished`.
    failed: Mutex<Option<String>>,
    /// The directories of finished jobs. While a thread holds this lock, it takes no other lock and
    /// does no I/O.
    finished: Mutex<Finished>,
}

#[derive(Default)]
struct Finished {
    /// Directories of finished tables that no sync has covered yet.
    names: Vec<String>,
    /// The number of finished jobs, and the number of jobs whose directories are durable. The
    /// directories become durable in the order in which the jobs finished.
    builds: u64,
    saved: u64,
}

impl Saver {
    pub fn new(fs: Arc<dyn FileSystem>) -> Saver {
        Saver { fs, failed: Mutex::default(), finished: Mutex::default() }
    }

    /// Adds the finished directories `names`, which are to be synced together.
    pub fn finished(self: &Arc<Saver>, names: Vec<String>) -> WholeFolders {
        let mut finished = self.finished.lock();
        finished.names.extend(names);
        finished.builds += 1;
        WholeFolders { saver: self.clone(), build: finished.builds }
    }

    /// Makes the directories of the first `build` finished jobs durable, with all files in them.
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

/// The table directories of one job. [Trackers](crate::durability::DurabilityTracker) handle
/// files, so this type presents all directories of the job as one file.
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

    /// Makes all files in the directories durable by one sync of the whole file system, as
    /// [`sync`](WriteFile::sync) does. A write-back of the many small files one by one would need
    /// no journal commit, but it would take longer than the commit.
    fn write_back(&self) -> io::Result<()> {
        self.saver.save(self.build)
    }
}
