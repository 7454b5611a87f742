//! Tier `none`: nothing is synced and nothing promised; for stores that may vanish with the power.
use super::{CommitTracker, Finished};
use crate::{Result, Ticket, Traffic, backends::files::fs::FileSystem};

/// Calls every ticket mature at once. What was written survives the end of the process, no more.
#[derive(Debug, Default)]
pub struct NoTracker;

impl CommitTracker for NoTracker {
    fn tier(&self) -> &'static str {
        "none"
    }

    fn promises(&self) -> bool {
        false
    }

    fn watch(&self, _: &dyn FileSystem, _: Vec<Finished>, _: &Traffic) -> Result<Ticket> {
        Ok(Ticket::mature())
    }

    fn advance(&self, _: &dyn FileSystem, _: &Traffic) -> Result<bool> {
        Ok(false)
    }

    fn commit(&self, _: &dyn FileSystem, _: &Traffic) -> Result<()> {
        Ok(())
    }
}
