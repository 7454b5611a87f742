//! A tier for controls: it calls every ticket mature at once and syncs nothing, and promises all the same. What cannot catch it proves
//! nothing about tickets.
use terrace_storage::{
    DurabilityHandle, IoStats, Result,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// See the module. Logs and roots are synced as ever: only what it says of tables is false.
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
