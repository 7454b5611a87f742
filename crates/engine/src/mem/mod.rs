//! A memtable: the newest writes, sorted, in memory; its log makes them survive.
mod arena;
mod filter;
#[cfg(all(test, loom))]
mod interleavings;
mod meter;
mod skiplist;

pub use arena::NodeId;
use filter::KeyFilter;
use meter::ArenaMeter;
use parking_lot::RwLock;
use skiplist::{SkipList, height};
use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};
use terrace_format::{
    KeyOrder, Kind, LogId, RangeTombstones, SeqNo, TableId,
    batch::{Batch, Op},
    key,
};
use terrace_storage::{Budget, Held, Holder};

/// Sorted entries in memory. Readers and writers at any time; entries are never changed or removed.
pub struct MemTable {
    list: SkipList,
    /// Of the keys in the list, where there is one.
    filter: Option<KeyFilter>,
    /// Deletes of ranges. Guards only itself; no I/O under it.
    ranges: RwLock<RangeTombstones>,
    /// Whether there are any.
    has_ranges: AtomicBool,
    ranges_held: Held,
    meter: ArenaMeter,
    last: AtomicU64,
    /// The log that holds these entries.
    pub log: LogId,
    /// The table that these entries become. Drawn when the memtable is sealed, so that level 0, which is ordered by
    /// number, is ordered by age whatever order flushes and merges end in.
    table: OnceLock<TableId>,
}

impl MemTable {
    /// An empty memtable whose entries are in `log` and whose memory is of `budget`. Its filter has `filter_bytes`; it has
    /// none where these are none, or keys are not compared bytewise.
    pub fn new(order: KeyOrder, log: LogId, filter_bytes: u64, budget: &Arc<Budget>) -> MemTable {
        let filtered = filter_bytes > 0 && order.is_bytewise();
        MemTable {
            list: SkipList::new(order, budget.hold(Holder::Memtables)),
            filter: filtered.then(|| KeyFilter::new(filter_bytes, budget.hold(Holder::Memtables))),
            ranges: RwLock::default(),
            has_ranges: AtomicBool::new(false),
            ranges_held: budget.hold(Holder::Memtables),
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
        self.insert_behind(&[], batch);
    }

    /// As [`insert`](MemTable::insert), with `head` in front of each value.
    pub fn insert_behind(&self, head: &[u8], batch: &Batch) {
        let (first, mut seq) = (batch.sequence(), batch.sequence());
        for op in batch.ops() {
            let (user, kind, value) = match op {
                Op::Put(user, value) => (user, Kind::Put, [head, value]),
                Op::Delete(user) => (user, Kind::Delete, [&[][..]; 2]),
                Op::DeleteRange(from, to) => {
                    self.delete_range(from, to, seq, first);
                    seq = seq.plus(1);
                    continue;
                }
            };
            if let Some(filter) = &self.filter {
                filter.add(user); // before the write becomes visible
            }
            let links = height(seq.0);
            self.list.insert(user, key::trailer_of(seq, kind), value, links);
            self.meter.entry(user.len() + key::TRAILER_BYTES, value[0].len() + value[1].len(), links);
            seq = seq.plus(1);
        }
        self.last.fetch_max(seq.0 - 1, Relaxed);
    }

    fn delete_range(&self, from: &[u8], to: &[u8], seq: SeqNo, first: SeqNo) {
        let grown = self.ranges.write().insert_within(self.list.order(), from, to, seq, first) as u64;
        self.has_ranges.store(true, Release); // before the write becomes visible
        self.ranges_held.add(grown);
        // Where ranges overlap, as much for each as there are: the memtable is full the sooner. At least what the log has of it.
        self.meter.more(grown.max((from.len() + to.len() + key::TRAILER_BYTES) as u64));
    }

    /// Whether some range was deleted.
    pub fn has_range_deletes(&self) -> bool {
        self.has_ranges.load(Acquire)
    }

    /// The deletes of ranges; locks out their writers for as long as the answer lives.
    pub fn range_tombstones(&self) -> impl Deref<Target = RangeTombstones> + '_ {
        self.ranges.read()
    }

    /// The newest delete of a range that hides `user` from a reader at `at`; zero if none does.
    pub fn newest_range_delete(&self, user: &[u8], at: SeqNo) -> SeqNo {
        if self.has_range_deletes() { self.ranges.read().newest(self.list.order(), user, at) } else { SeqNo::ZERO }
    }

    /// Memory in use: of entries as LevelDB's arena would count it, of deletes of ranges as it is.
    pub fn charged_bytes(&self) -> u64 {
        self.meter.bytes()
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.list.first().is_none() && !self.has_range_deletes()
    }

    /// Entries. Walks all of them.
    pub fn len(&self) -> u64 {
        std::iter::successors(self.list.first(), |id| self.list.next(*id)).count() as u64
    }

    /// The newest sequence inserted; zero while empty.
    pub fn last_sequence(&self) -> SeqNo {
        SeqNo(self.last.load(Relaxed))
    }

    /// Whether it may have entries of this user key, by its filter. True if it has none.
    pub fn may_have(&self, user: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(user))
    }

    /// The newest entry for `lookup`'s user key that `lookup` may see.
    pub fn get(&self, lookup: &[u8]) -> Option<(SeqNo, Kind, NodeId)> {
        if !self.may_have(key::user_key(lookup)) {
            return None;
        }
        let node = self.list.seek(lookup)?;
        let found = self.list.key(node);
        if self.list.order().user(key::user_key(found), key::user_key(lookup)).is_ne() {
            return None;
        }
        let parsed = key::parse(found).expect("a memtable holds whole keys");
        Some((parsed.seq, parsed.kind, node))
    }

    /// The internal key of an entry.
    pub fn key(&self, node: NodeId) -> &[u8] {
        self.list.key(node)
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
    /// As [`MemTable::may_have`].
    pub fn may_have(&self, user: &[u8]) -> bool {
        self.mem.may_have(user)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_storage::StorageConfig;

    fn found(mem: &MemTable, user: &[u8], at: u64) -> Option<(SeqNo, Kind)> {
        mem.get(&key::lookup(user, SeqNo(at))).map(|(seq, kind, _)| (seq, kind))
    }

    /// Each range cuts the last one, whose rest has all sequences of those before.
    #[test]
    fn deletes_of_ranges_are_charged_for_what_they_cut() {
        let budget = Budget::new(&StorageConfig::default());
        let mem = MemTable::new(KeyOrder::default(), LogId(1), 0, &budget);
        for n in 0..1000_u64 {
            let mut batch = Batch::new();
            batch.delete_range(format!("key{n:04}").as_bytes(), b"~");
            batch.set_sequence(SeqNo(n + 1));
            mem.insert(&batch);
        }
        let bytes = mem.range_tombstones().byte_len() as u64;
        assert!(bytes > 4_000_000, "{bytes}: they are not cut, so nothing is shown");
        let charged = [mem.charged_bytes(), budget.held().0[0]];
        assert!(charged.iter().all(|charged| charged.abs_diff(bytes) < bytes / 50), "{charged:?} for {bytes}");
    }

    /// Nobody sees one of them without the others, so what each cuts has one sequence of them all.
    #[test]
    fn deletes_of_ranges_in_one_batch_are_one_to_all_readers() {
        let mem = MemTable::new(KeyOrder::default(), LogId(1), 0, &Budget::new(&StorageConfig::default()));
        let mut batch = Batch::new();
        batch.delete_range(b"a", b"~");
        batch.set_sequence(SeqNo(7));
        mem.insert(&batch);
        let mut batch = Batch::new();
        for n in 0..1000_u64 {
            batch.delete_range(format!("key{n:04}").as_bytes(), b"~");
            batch.put(format!("key{n:04}").as_bytes(), b"value");
        }
        batch.set_sequence(SeqNo(100));
        mem.insert(&batch);
        assert!(mem.range_tombstones().fragments().iter().all(|fragment| fragment.sequences.len() <= 2));
        // Of the last key the delete behind which it was put is the newest, of each before it the next key's is.
        let newest = |n: u64, at: u64| mem.newest_range_delete(format!("key{n:04}").as_bytes(), SeqNo(at));
        assert_eq!([newest(999, 3000), newest(0, 3000), newest(5, 3000)], [SeqNo(2098), SeqNo(100), SeqNo(110)]);
        assert_eq!([newest(999, 99), newest(0, 8)], [SeqNo(7); 2], "who reads as of before sees the older one alone");
    }

    /// One memtable with a filter and one without are asked the same.
    #[test]
    fn a_filter_changes_no_answer() {
        let budget = Budget::new(&StorageConfig::default());
        let plain = MemTable::new(KeyOrder::default(), LogId(1), 0, &budget);
        let filtered = MemTable::new(KeyOrder::default(), LogId(1), 1 << 10, &budget);
        let user = |n: u64| format!("key {n}").into_bytes();
        for n in 0..2000 {
            let (mut batch, key) = (Batch::new(), user(2 * (n * 7919 % 1009)));
            if n % 3 == 0 {
                batch.delete(&key)
            } else {
                batch.put(&key, b"value")
            }
            batch.set_sequence(SeqNo(n + 1));
            plain.insert(&batch);
            filtered.insert(&batch);
        }
        for (n, at) in (0..3000).zip([1, 500, 1999, 5000].into_iter().cycle()) {
            assert_eq!(found(&filtered, &user(n), at), found(&plain, &user(n), at), "key {n} at {at}");
        }
        let kind_of = |n| found(&plain, &user(n), 5000).map(|(_, kind)| kind);
        let kinds = |kind| (0..2000).filter(|n| kind_of(*n) == kind).count();
        assert!(kinds(Some(Kind::Put)) > 300 && kinds(Some(Kind::Delete)) > 300 && kinds(None) > 900);
    }
}
