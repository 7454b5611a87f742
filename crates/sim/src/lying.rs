//! A durability mode for negative controls. It reports every durability handle as durable
//! immediately, without any sync. A crash test that does not fail with it proves nothing about
//! durability handles.
use terrace_storage::{
    DurabilityHandle, IoStats, Result,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// The durability tracker of this module. WALs and roots (the manifest and `CURRENT`) are synced
/// as usual. Only the reports about tables are false.
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
