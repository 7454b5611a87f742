//! A view: the memtables and the version that a reader pins at one moment.
use crate::{mem::MemTable, version::Version};
use std::sync::Arc;

/// The memtables and the version of a store at one moment. The list of memtables and the version
/// never change in a view: when a memtable is sealed or flushed or the version changes, the store
/// makes a new view.
pub struct View {
    /// The mutable memtable; `None` in a store opened read-only.
    pub mem: Option<Arc<MemTable>>,
    /// Immutable memtables that wait for a flush, newest first.
    pub sealed: Vec<Arc<MemTable>>,
    /// The SSTables.
    pub version: Arc<Version>,
}

impl View {
    /// Returns every memtable, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        self.mem.iter().chain(&self.sealed)
    }
}
