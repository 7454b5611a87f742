//! The durability mode `sync`: the outputs of every job are synced before it ends, as in LevelDB.
use super::{DurabilityTracker, Finished};
use crate::{DurabilityHandle, Error, IoStats, Result, SyncKind};
use std::time::{Duration, Instant};
use terrace_vfs::{FileSystem, JournalCommit};

/// The tracker of the durability mode `sync`. It makes one `fdatasync` for each file of a job,
/// then one sync of the directory. On a raw device it makes one flush for all files. The handles
/// that it returns are durable already.
///
/// A failed sync fails only its own job, and no sync is retried: after a failed sync the kernel
/// may report success for bytes that it has dropped.
#[derive(Debug, Default)]
pub struct SyncTracker;

impl DurabilityTracker for SyncTracker {
    fn durability_mode(&self) -> &'static str {
        "sync"
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle> {
        if let Some(journal) = fs.journal().filter(|journal| journal.commit_interval() == Ok(Duration::MAX)) {
            return together(fs, journal, &files, io_stats);
        }
        for finished in &files {
            let start = Instant::now();
            finished.file.sync().map_err(|e| Error::io("sync", &finished.name, e))?;
            io_stats.blocked(SyncKind::Tables(finished.purpose), finished.bytes, start.elapsed());
        }
        if !files.is_empty() {
            let start = Instant::now();
            fs.sync_directory().map_err(|e| Error::io("sync directory", fs.name(), e))?;
            io_stats.blocked(SyncKind::Directory, 0, start.elapsed());
        }
        Ok(DurabilityHandle::mature())
    }

    fn advance(&self, _: &dyn FileSystem, _: &IoStats) -> Result<bool> {
        Ok(false)
    }

    fn commit(&self, _: &dyn FileSystem, _: &IoStats) -> Result<()> {
        Ok(())
    }
}

/// Makes all files and their names durable by one journal commit. Used if the journal commits only
/// on demand.
fn together(
    fs: &dyn FileSystem,
    journal: &dyn JournalCommit,
    files: &[Finished],
    io_stats: &IoStats,
) -> Result<DurabilityHandle> {
    if let Some(first) = files.first() {
        let start = Instant::now();
        files.iter().try_for_each(|file| file.file.write_back().map_err(|e| Error::io("write back", &file.name, e)))?;
        journal.commit().map_err(|e| Error::io("flush", fs.name(), e))?;
        io_stats.blocked(SyncKind::Tables(first.purpose), files.iter().map(|file| file.bytes).sum(), start.elapsed());
    }
    Ok(DurabilityHandle::mature())
}

/// Syncs the entries of the directory and counts the sync.
pub fn sync_directory(fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
    let start = Instant::now();
    fs.sync_directory().map_err(|e| Error::io("sync directory", fs.name(), e))?;
    io_stats.synced(SyncKind::Directory, 0, start.elapsed());
    Ok(())
}
