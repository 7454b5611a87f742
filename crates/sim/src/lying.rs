//! A durability mode for controls: reports every durability handle as durable at once, without any
//! sync. A test that does not detect it proves nothing about durability handles.
use terrace_storage::{
    DurabilityHandle, IoStats, Result,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// See the module. WALs and roots are synced as usual; only the reports about tables are false.
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
