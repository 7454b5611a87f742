//! A durability mode that reports false results, as a negative control for crash tests. A
//! durability handle reports whether the files of a job are durable. In this mode every handle
//! reports immediately that they are, without any sync. Only a crash test that fails in this mode
//! can detect false reports of durability handles.
use terrace_storage::{
    DurabilityHandle, IoStats, Result,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// The durability tracker of the mode that reports false results. WALs and roots (the manifest and
/// `CURRENT`) are synced as usual. Only the reports about tables are false.
pub struct LyingTracker;

impl DurabilityTracker for LyingTracker {
    fn durability_mode(&self) -> &'static str {
        "lying"
    }

    fn watch(&self, _: &dyn FileSystem, _: Vec<Finished>, _: &IoStats) -> Result<DurabilityHandle> {
        Ok(DurabilityHandle::mature())
    }

    fn advance(&self, _: &dyn FileSystem, _: &IoStats) -> Result<bool> {
        Ok(false)
    }

    fn commit(&self, _: &dyn FileSystem, _: &IoStats) -> Result<()> {
        Ok(())
    }
}
