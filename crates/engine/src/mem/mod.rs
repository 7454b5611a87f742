//! A memtable: the newest writes, sorted, in memory; its log makes them survive.
mod arena;
#[cfg(all(test, loom))]
mod interleavings;
mod meter;
mod skiplist;

pub use arena::NodeId;
use meter::ArenaMeter;
use skiplist::{SkipList, height};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use terrace_format::{
    KeyOrder, Kind, LogId, SeqNo, TableId,
    batch::{Batch, Op},
    key,
};
use terrace_storage::{Budget, Holder};

/// Sorted entries in memory. Readers and writers at any time; entries are never changed or removed.
pub struct MemTable {
    list: SkipList,
    meter: ArenaMeter,
    last: AtomicU64,
    /// The log that holds these entries.
    pub log: LogId,
    /// The table that these entries become. Drawn when the memtable is sealed, so that level 0, which is ordered by
    /// number, is ordered by age whatever order flushes and merges end in.
    table: OnceLock<TableId>,
}

impl MemTable {
    /// An empty memtable whose entries are in `log` and whose memory is of `budget`.
    pub fn new(order: KeyOrder, log: LogId, budget: &Arc<Budget>) -> MemTable {
        MemTable {
            list: SkipList::new(order, budget.hold(Holder::Memtables)),
            meter: ArenaMeter::default(),
            last: AtomicU64::new(0),
            log,
            table: OnceLock::new(),
        }
    }

    /// No more entries come; these will become `table`.
    pub fn seal(&self, table: TableId) {
        self.table.set(table).expect("a memtable is sealed once");
    }

    /// The table that a sealed memtable becomes.
    pub fn sealed_as(&self) -> TableId {
        *self.table.get().expect("only sealed memtables are flushed")
    }

    /// Inserts a batch, which has something in it; its first operation gets the batch's sequence, the others count up from there.
    pub fn insert(&self, batch: &Batch) {
        let mut seq = batch.sequence();
        for op in batch.ops() {
            let (user, kind, value) = match op {
                Op::Put(user, value) => (user, Kind::Put, value),
                Op::Delete(user) => (user, Kind::Delete, &[][..]),
            };
            let links = height(seq.0);
            self.list.insert(user, key::trailer_of(seq, kind), value, links);
            self.meter.entry(user.len() + key::TRAILER_BYTES, value.len(), links);
            seq = seq.plus(1);
        }
        self.last.fetch_max(seq.0 - 1, Relaxed);
    }

    /// Memory in use, as LevelDB's arena would count it.
    pub fn charged_bytes(&self) -> u64 {
        self.meter.bytes()
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.list.first().is_none()
    }

    /// Entries. Walks all of them.
    pub fn len(&self) -> u64 {
        std::iter::successors(self.list.first(), |id| self.list.next(*id)).count() as u64
    }

    /// The newest sequence inserted; zero while empty.
    pub fn last_sequence(&self) -> SeqNo {
        SeqNo(self.last.load(Relaxed))
    }

    /// The newest entry for `lookup`'s user key that `lookup` may see.
    pub fn get(&self, lookup: &[u8]) -> Option<(SeqNo, Kind, NodeId)> {
        let node = self.list.seek(lookup)?;
        let found = self.list.key(node);
        if self.list.order().user(key::user_key(found), key::user_key(lookup)).is_ne() {
            return None;
        }
        let parsed = key::parse(found).expect("a memtable holds whole keys");
        Some((parsed.seq, parsed.kind, node))
    }

    /// The value of an entry.
    pub fn value(&self, node: NodeId) -> &[u8] {
        self.list.value(node)
    }

    /// A cursor that stands nowhere yet.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor { mem: self.clone(), at: None }
    }
}

/// Walks a memtable; sees entries inserted while it walks.
pub struct MemCursor {
    mem: Arc<MemTable>,
    at: Option<NodeId>,
}

impl MemCursor {
    /// Whether it stands on an entry.
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// To the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.at = self.mem.list.seek(target);
    }

    /// To the first entry.
    pub fn seek_first(&mut self) {
        self.at = self.mem.list.first();
    }

    /// To the last entry.
    pub fn seek_last(&mut self) {
        self.at = self.mem.list.last();
    }

    /// One forward; must stand on an entry.
    pub fn next(&mut self) {
        self.at = self.at.and_then(|node| self.mem.list.next(node));
    }

    /// One back; must stand on an entry.
    pub fn prev(&mut self) {
        self.at = self.at.and_then(|node| self.mem.list.prev(node));
    }

    /// The internal key; must stand on an entry.
    pub fn key(&self) -> &[u8] {
        self.mem.list.key(self.at.expect("the cursor stands on an entry"))
    }

    /// The value; must stand on an entry.
    pub fn value(&self) -> &[u8] {
        self.mem.list.value(self.at.expect("the cursor stands on an entry"))
    }
}
