//! The durability mode `none`: nothing is synced, and nothing is guaranteed to survive a power
//! cut. This mode is for stores whose loss is acceptable.
use super::{DurabilityTracker, Finished};
use crate::{DurabilityHandle, IoStats, Result};
use terrace_vfs::FileSystem;

/// Returns handles that are durable already. Written bytes survive the end of the process, but not
/// a power cut.
#[derive(Debug, Default)]
pub struct NoTracker;

impl DurabilityTracker for NoTracker {
    fn durability_mode(&self) -> &'static str {
        "none"
    }

    fn promises(&self) -> bool {
        false
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
