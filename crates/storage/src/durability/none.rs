//! The durability mode `none`: nothing is synced, and nothing is guaranteed to survive a power
//! cut. This mode is for stores whose loss is acceptable.
use super::{DurabilityTracker, Finished};
use crate::{DurabilityHandle, IoStats, Result};
use terrace_vfs::FileSystem;

/// The tracker of the durability mode `none`. It returns handles that are durable already,
/// although the written bytes survive only the end of the process, and not a power cut.
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
