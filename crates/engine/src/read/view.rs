//! What readers pin: everything there is to read, at one moment.
use crate::{mem::MemTable, version::Version};
use std::sync::Arc;

/// Memtables and tables. Never changed once made; replaced as a whole.
pub struct View {
    /// Takes writes; `None` in a store opened for reading only.
    pub mem: Option<Arc<MemTable>>,
    /// Full and waiting to be flushed, newest first.
    pub sealed: Vec<Arc<MemTable>>,
    /// The tables.
    pub version: Arc<Version>,
}

impl View {
    /// Every memtable, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        self.mem.iter().chain(&self.sealed)
    }
}
