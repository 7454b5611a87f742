//! A value that is not copied: it stays where the store has it.
use crate::mem::{MemTable, NodeId};
use std::{fmt, ops::Deref, sync::Arc};
use terrace_storage::placement::Bytes;

/// The bytes of a value, shown where they lie; see [`Db::get_pinned`](crate::Db::get_pinned). It never changes, whatever is
/// written, compacted or closed meanwhile. Clones show the same bytes.
///
/// What it lies in is kept in memory for as long: a block, a whole memtable, or, with `allow_mmap_reads`, the mapping of a table or segment,
/// which then keeps its space on the disk though it is removed.
/// So do not hoard it; [`to_vec`](slice::to_vec) makes a copy that costs only itself.
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
pub struct PinnedValue(Place);

#[derive(Clone)]
enum Place {
    Memory(Arc<MemTable>, NodeId),
    StoredValue(Bytes),
}

impl PinnedValue {
    pub(crate) fn in_memory(mem: Arc<MemTable>, node: NodeId) -> PinnedValue {
        PinnedValue(Place::Memory(mem, node))
    }

    pub(crate) fn stored(bytes: Bytes) -> PinnedValue {
        PinnedValue(Place::StoredValue(bytes))
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Memory(mem, node) => mem.value(*node),
            Place::StoredValue(bytes) => bytes,
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
