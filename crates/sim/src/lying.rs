//! A tier for controls: it calls every ticket mature at once and syncs nothing, and promises all the same. What cannot catch it proves
//! nothing about tickets.
use terrace_storage::{
    Result, Ticket, Traffic,
    backends::files::fs::FileSystem,
    durability::{CommitTracker, Finished},
};

/// See the module. Logs and roots are synced as ever: only what it says of tables is false.
pub struct LyingTracker;

impl CommitTracker for LyingTracker {
    fn tier(&self) -> &'static str {
        "lying"
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
