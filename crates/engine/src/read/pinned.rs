//! Pinned values: the reader gets a reference to the block or memtable that has the value, instead
//! of a copy of the value.
use crate::mem::{MemTable, NodeId};
use std::{fmt, ops::Deref, sync::Arc};
use terrace_storage::placement::Bytes;

/// The bytes of a value, usually without a copy; see [`Db::get_pinned`](crate::Db::get_pinned).
/// The bytes never change, even if the key is overwritten or compacted, or the store is closed.
/// Clones share the bytes.
///
/// A pinned value keeps its whole container in memory: a block or a memtable. Do not keep many
/// pinned values. [`to_vec`](slice::to_vec) makes a copy that contains only the value's own bytes.
///
/// ```
/// # use terrace::{Db, Options, ReadOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("key", "value")?;
/// let value = db.get_pinned("key", &ReadOptions::new())?;
/// db.delete("key")?;
/// assert_eq!(value.as_deref(), Some(&b"value"[..])); // as it was
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct PinnedValue(PinnedBytes);

#[derive(Clone)]
enum PinnedBytes {
    Memory(Arc<MemTable>, NodeId),
    StoredValue(Bytes),
}

impl PinnedValue {
    pub(crate) fn in_memory(mem: Arc<MemTable>, node: NodeId) -> PinnedValue {
        PinnedValue(PinnedBytes::Memory(mem, node))
    }

    pub(crate) fn stored(bytes: Bytes) -> PinnedValue {
        PinnedValue(PinnedBytes::StoredValue(bytes))
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            PinnedBytes::Memory(mem, node) => mem.value(*node),
            PinnedBytes::StoredValue(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}
