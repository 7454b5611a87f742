//! The memtable: a sorted map in memory of the newest writes. Its WAL makes these writes durable.
//!
//! ```text
//! insert ─▶ Bloom filter ─▶ skip list (arena)      entries
//!        └▶ RangeTombstones (under a lock)         range tombstones
//! seal   ─▶ immutable, has a table number ─▶ flush job ─▶ SSTable in level 0
//! ```
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
    FamilyId, KeyOrder, Kind, LogId, RangeTombstones, SeqNo, TableId,
    batch::{Batch, Op},
    key,
};
use terrace_storage::{Budget, Held, Holder};

/// A sorted map of entries in memory. Readers and writers use it concurrently. Entries never
/// change and are never removed.
pub struct MemTable {
    list: SkipList,
    /// The Bloom filter of the keys in the list; `None` if the option is off or the key order is
    /// not bytewise.
    filter: Option<KeyFilter>,
    /// Range tombstones. While a thread holds this lock, it takes no other lock and does no I/O.
    ranges: RwLock<RangeTombstones>,
    /// Whether there are range tombstones.
    has_ranges: AtomicBool,
    ranges_held: Held,
    meter: ArenaMeter,
    last: AtomicU64,
    /// The WAL that contains the entries of this memtable.
    pub log: LogId,
    /// The number of the SSTable to which this memtable is flushed. The number is assigned when the
    /// memtable is sealed, and memtables are sealed in order of age. Therefore level 0, which is
    /// ordered by table number, is ordered by age, whatever the order in which flushes and
    /// compactions end.
    table: OnceLock<TableId>,
}

impl MemTable {
    /// Makes an empty memtable, whose entries are in WAL `log`. Its memory counts against `budget`.
    /// The memtable has a Bloom filter of `filter_bytes` bytes. It has no filter if `filter_bytes`
    /// is 0 or if the order of keys is not bytewise.
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

    /// Seals the memtable: no more entries are inserted. A flush job will write it as SSTable
    /// `table`.
    pub fn seal(&self, table: TableId) {
        self.table.set(table).expect("a memtable is sealed once");
    }

    /// Returns the number of the SSTable to which this sealed memtable is flushed.
    pub fn sealed_as(&self) -> TableId {
        *self.table.get().expect("only sealed memtables are flushed")
    }

    /// Inserts a non-empty batch. The first operation gets the batch's sequence number; each
    /// further operation gets the next one.
    pub fn insert(&self, batch: &Batch) {
        self.insert_with_prefix(&[], batch);
    }

    /// Inserts a batch as [`insert`](MemTable::insert) does, with the bytes `head` before each
    /// value. Operations on other column families than the default one are skipped.
    pub fn insert_with_prefix(&self, head: &[u8], batch: &Batch) {
        let (first, mut seq) = (batch.sequence(), batch.sequence());
        for op in batch.ops() {
            self.apply(op, head, seq, first);
            seq = seq.plus(1);
        }
        self.last.fetch_max(seq.0 - 1, Relaxed);
    }

    /// Inserts those operations of a batch that belong to column family `family`.
    pub fn insert_family(&self, family: FamilyId, head: &[u8], batch: &Batch) {
        let (first, mut seq) = (batch.sequence(), batch.sequence());
        for op in batch.ops() {
            if let (of, op) = op.split()
                && of == family
            {
                self.apply(op, head, seq, first);
            }
            seq = seq.plus(1);
        }
        self.last.fetch_max(seq.0 - 1, Relaxed);
    }

    /// Inserts one operation with sequence number `seq`. `first` is the sequence number of the
    /// first operation in the same batch.
    #[inline(always)] // a call would pass all parts of the operation through memory
    fn apply(&self, op: Op<'_>, head: &[u8], seq: SeqNo, first: SeqNo) {
        let (user, kind, value) = match op {
            Op::Put(user, value) => (user, Kind::Put, [head, value]),
            Op::Delete(user) => (user, Kind::Delete, [&[][..]; 2]),
            Op::DeleteRange(from, to) => return self.delete_range(from, to, seq, first),
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => return,
        };
        if let Some(filter) = &self.filter {
            filter.add(user); // before the write becomes visible
        }
        let links = height(seq.0);
        self.list.insert(user, key::trailer_of(seq, kind), value, links);
        self.meter.entry(user.len() + key::TRAILER_BYTES, value[0].len() + value[1].len(), links);
    }

    fn delete_range(&self, from: &[u8], to: &[u8], seq: SeqNo, first: SeqNo) {
        let grown = self.ranges.write().insert_within(self.list.order(), from, to, seq, first) as u64;
        self.has_ranges.store(true, Release); // before the write becomes visible
        self.ranges_held.add(grown);
        // Overlapping range tombstones are split into fragments. The memtable counts the memory of
        // each fragment, so that a memtable with many fragments becomes full sooner. Each range
        // tombstone counts at least its size in the WAL.
        self.meter.add_bytes(grown.max((from.len() + to.len() + key::TRAILER_BYTES) as u64));
    }

    /// Returns whether the memtable has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.has_ranges.load(Acquire)
    }

    /// Returns the range tombstones, under a read lock. No thread can insert a range tombstone
    /// while the returned guard exists.
    pub fn range_tombstones(&self) -> impl Deref<Target = RangeTombstones> + '_ {
        self.ranges.read()
    }

    /// Returns the sequence number of the newest range tombstone that shadows `user` for a reader
    /// at the sequence number `at`; zero if there is none.
    pub fn newest_range_tombstone(&self, user: &[u8], at: SeqNo) -> SeqNo {
        if self.has_range_tombstones() { self.ranges.read().newest(self.list.order(), user, at) } else { SeqNo::ZERO }
    }

    /// Returns the number of bytes that count as the memtable's size. An entry counts with the
    /// memory that LevelDB's arena would use, and a range tombstone with its real size.
    pub fn charged_bytes(&self) -> u64 {
        self.meter.bytes()
    }

    /// Returns whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.list.first().is_none() && !self.has_range_tombstones()
    }

    /// Returns the number of entries. The function walks over the whole list.
    pub fn len(&self) -> u64 {
        std::iter::successors(self.list.first(), |id| self.list.next(*id)).count() as u64
    }

    /// Returns the newest inserted sequence number; zero while the memtable is empty.
    pub fn last_sequence(&self) -> SeqNo {
        SeqNo(self.last.load(Relaxed))
    }

    /// Returns whether the memtable may have entries of the key `user`, according to its Bloom
    /// filter. Returns true if there is no filter.
    pub fn may_have(&self, user: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(user))
    }

    /// Returns the newest entry of a user key that a reader sees. The internal key `lookup`
    /// contains the user key and the reader's sequence number.
    pub fn get(&self, lookup: &[u8]) -> Option<(SeqNo, Kind, NodeId)> {
        if !self.may_have(key::user_key(lookup)) {
            return None;
        }
        let node = self.list.seek(lookup)?;
        let found = self.list.key(node);
        if self.list.order().user(key::user_key(found), key::user_key(lookup)).is_ne() {
            return None;
        }
        let parsed = key::parse(found).expect("a memtable has valid keys");
        Some((parsed.seq, parsed.kind, node))
    }

    /// Returns the internal key of an entry.
    pub fn key(&self, node: NodeId) -> &[u8] {
        self.list.key(node)
    }

    /// Returns the value of an entry.
    pub fn value(&self, node: NodeId) -> &[u8] {
        self.list.value(node)
    }

    /// Returns a cursor over the memtable that is not at an entry yet.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor { mem: self.clone(), at: None }
    }
}

/// A cursor over a memtable. The cursor also sees entries that are inserted while it is in use.
pub struct MemCursor {
    mem: Arc<MemTable>,
    at: Option<NodeId>,
}

impl MemCursor {
    /// Calls [`MemTable::may_have`].
    pub fn may_have(&self, user: &[u8]) -> bool {
        self.mem.may_have(user)
    }

    /// Returns whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// Moves the cursor to the first entry at or after the internal key `target`. If there is no
    /// such entry, the cursor is at no entry afterwards.
    pub fn seek(&mut self, target: &[u8]) {
        self.at = self.mem.list.seek(target);
    }

    /// Moves the cursor to the first entry of the memtable, if there is one.
    pub fn seek_first(&mut self) {
        self.at = self.mem.list.first();
    }

    /// Moves the cursor to the last entry of the memtable, if there is one.
    pub fn seek_last(&mut self) {
        self.at = self.mem.list.last();
    }

    /// Moves the cursor, which must be at an entry, to the next entry. If there is no next entry,
    /// the cursor is at no entry afterwards.
    pub fn next(&mut self) {
        self.at = self.at.and_then(|node| self.mem.list.next(node));
    }

    /// Moves the cursor, which must be at an entry, to the previous entry. If there is no previous
    /// entry, the cursor is at no entry afterwards.
    pub fn prev(&mut self) {
        self.at = self.at.and_then(|node| self.mem.list.prev(node));
    }

    /// Returns the internal key of the current entry. The cursor must be at an entry.
    pub fn key(&self) -> &[u8] {
        self.mem.list.key(self.at.expect("the cursor is at an entry"))
    }

    /// Returns the value of the current entry. The cursor must be at an entry.
    pub fn value(&self) -> &[u8] {
        self.mem.list.value(self.at.expect("the cursor is at an entry"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_storage::StorageConfig;

    fn found(mem: &MemTable, user: &[u8], at: u64) -> Option<(SeqNo, Kind)> {
        mem.get(&key::lookup(user, SeqNo(at))).map(|(seq, kind, _)| (seq, kind))
    }

    /// Tests that the memory of range-tombstone fragments is charged to the memtable and to the
    /// memory budget. All range tombstones of the test end at the same key, so the last fragment
    /// has the sequence numbers of all of them. The memory therefore grows with the square of their
    /// count.
    #[test]
    fn range_tombstones_are_charged_for_their_fragments() {
        let budget = Budget::new(&StorageConfig::default());
        let mem = MemTable::new(KeyOrder::default(), LogId(1), 0, &budget);
        for n in 0..1000_u64 {
            let mut batch = Batch::new();
            batch.delete_range(format!("key{n:04}").as_bytes(), b"~");
            batch.set_sequence(SeqNo(n + 1));
            mem.insert(&batch);
        }
        let bytes = mem.range_tombstones().byte_len() as u64;
        assert!(bytes > 4_000_000, "{bytes}: not split into fragments, so the test shows nothing");
        let charged = [mem.charged_bytes(), budget.held().0[0]];
        assert!(charged.iter().all(|charged| charged.abs_diff(bytes) < bytes / 50), "{charged:?} for {bytes}");
    }

    /// Tests that a fragment stores only one sequence number for all range tombstones of one batch.
    /// This is sufficient, because a reader sees either all of them or none.
    #[test]
    fn range_tombstones_of_one_batch_share_a_sequence_for_all_readers() {
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
        // The test batch has a range tombstone before each put. This range tombstone begins at the
        // key of the put, so the newest range tombstone that covers a key is the one before the put
        // of the key.
        let newest = |n: u64, at: u64| mem.newest_range_tombstone(format!("key{n:04}").as_bytes(), SeqNo(at));
        assert_eq!([newest(999, 3000), newest(0, 3000), newest(5, 3000)], [SeqNo(2098), SeqNo(100), SeqNo(110)]);
        assert_eq!([newest(999, 99), newest(0, 8)], [SeqNo(7); 2], "an older snapshot sees only the older tombstone");
    }

    /// Tests that a lookup returns the same result in a memtable with a filter and in one without.
    #[test]
    fn a_filter_changes_no_lookup() {
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
