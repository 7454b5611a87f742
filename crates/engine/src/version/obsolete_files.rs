//! Obsolete files: an object may be deleted when the manifest edit that removes it is durable and
//! no version that may be read needs it (docs/durability.md).
//!
//! ```text
//! durable version drops a table ─▶ obsolete ─▶ no reader pins it ─▶ deletable
//!                                    ▲   │
//!                                    └───┘ a pinned version still needs it: wait for that version
//! ```
use super::{TableRef, Version, objects, run::TableChunk};
use crate::mem::MemTable;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_format::{LogId, TableId};
use terrace_storage::placement::ObjectId;

/// Tracks obsolete objects. The state lock guards it, and it does no I/O.
#[derive(Debug, Default)]
pub struct ObsoleteFiles {
    /// Objects that the durable version no longer names. An object may come with a version that
    /// needed it at the last check. The object is not checked again until this version is dropped.
    obsolete: BTreeMap<ObjectId, Weak<Version>>,
    /// Versions that were live at some time and that readers may still use.
    versions: Vec<Weak<Version>>,
    /// Memtables that readers may still use. The WAL of such a memtable may contain its values.
    memtables: Vec<Weak<MemTable>>,
    /// The WALs that replay may need, with their bytes (0 until the WAL is sealed). The durable
    /// manifest may name any of them as the start of replay.
    live_wals: BTreeMap<LogId, u64>,
    /// Obsolete WALs that are kept for readers of the change feed, with their bytes.
    /// `archive_bytes_max` is the limit on the sum of these bytes.
    archived_wals: BTreeMap<LogId, u64>,
    archive_bytes_max: u64,
    /// The readers of the change feed. Each has the number of the oldest WAL that it still needs.
    followers: Vec<Weak<WalFollower>>,
}

/// A reader of the change feed. As long as it exists, the oldest WAL that it needs, and all later
/// ones, are kept.
#[derive(Debug)]
pub struct WalFollower(AtomicU64);

impl WalFollower {
    /// Records that the reader no longer needs the WALs before `log`.
    pub fn reached(&self, log: LogId) {
        self.0.store(log.0, Relaxed);
    }
}

impl ObsoleteFiles {
    /// Adds a version that becomes readable.
    pub fn pin(&mut self, version: &Arc<Version>) {
        self.versions.retain(|weak| weak.strong_count() > 0);
        self.versions.push(Arc::downgrade(version));
    }

    /// Adds a memtable that becomes readable. With value separation, only its WAL may contain its
    /// values.
    pub fn pin_wal(&mut self, memtable: &Arc<MemTable>) {
        self.memtables.retain(|weak| weak.strong_count() > 0);
        self.memtables.push(Arc::downgrade(memtable));
    }

    /// Adds a new WAL.
    pub fn wal_created(&mut self, log: LogId) {
        self.live_wals.insert(log, 0);
    }

    /// Records that WAL `log` was sealed with a size of `bytes`.
    pub fn wal_sealed(&mut self, log: LogId, bytes: u64) {
        self.live_wals.entry(log).and_modify(|known| *known = bytes);
    }

    /// Returns the bytes of WAL `log` if the WAL is sealed and replay may need it; otherwise 0.
    pub fn log_bytes(&self, log: LogId) -> u64 {
        self.live_wals.get(&log).copied().unwrap_or(0)
    }

    /// Sets the limit on the bytes of obsolete WALs that are kept for readers of the change feed.
    /// The WALs in the list were written before the store was opened.
    pub fn keep_wals(&mut self, bytes: u64, live_wals: Vec<(LogId, u64)>) {
        self.archive_bytes_max = bytes;
        self.archived_wals.extend(live_wals);
    }

    /// Returns every WAL that has a part of the history, oldest first, and a follower: as long as
    /// the follower exists, these WALs are kept.
    pub fn follow(&mut self) -> (Vec<LogId>, Arc<WalFollower>) {
        let live_wals: Vec<_> = self.archived_wals.keys().chain(self.live_wals.keys()).copied().collect();
        let follower = Arc::new(WalFollower(AtomicU64::new(live_wals.first().map_or(0, |oldest| oldest.0))));
        self.followers.retain(|weak| weak.strong_count() > 0);
        self.followers.push(Arc::downgrade(&follower));
        (live_wals, follower)
    }

    /// Marks `tables` obsolete: they are no longer in the live version, and the manifest will never
    /// name them. The objects that the tables refer to are not marked, because other tables may
    /// need them.
    pub fn never_committed(&mut self, tables: &BTreeSet<TableId>) {
        self.mark_obsolete(tables.iter().map(|table| ObjectId::Table(*table)));
    }

    /// Records that the durable version has advanced from `old` to `new`. Marks obsolete the
    /// objects that only `old` needs, and the objects in `transient`, which were added and removed
    /// between the two versions. Replay now starts at `replay_from`. The function compares sets of
    /// objects, because an edit that moves a table deletes the table and adds it again.
    pub fn durable_advanced(
        &mut self,
        old: &Version,
        new: &Version,
        (deleted, transient): (&[(usize, TableId)], Vec<ObjectId>),
        replay_from: LogId,
    ) {
        let mut unnamed: BTreeSet<_> =
            old.named(deleted).flat_map(|(_, table)| objects(table)).chain(transient).collect();
        remove_needed(&mut unnamed, new, &mut BTreeSet::new());
        self.mark_obsolete(unnamed);
        let still_live = self.live_wals.split_off(&replay_from);
        self.archived_wals.append(&mut self.live_wals);
        self.live_wals = still_live;
        while self.archived_wals.values().sum::<u64>() > self.archive_bytes_max || self.archive_bytes_max == 0 {
            let Some((oldest, _)) = self.archived_wals.pop_first() else { break };
            self.mark_obsolete([ObjectId::Wal(oldest), ObjectId::WalSidecar(oldest)]);
        }
    }

    /// Marks a manifest obsolete, because the root file no longer names it.
    pub fn manifest_replaced(&mut self, old: LogId) {
        self.mark_obsolete([ObjectId::Manifest(old)]);
    }

    fn mark_obsolete(&mut self, objects: impl IntoIterator<Item = ObjectId>) {
        self.obsolete.extend(objects.into_iter().map(|object| (object, Weak::new())));
    }

    /// Removes the objects that may be deleted now from the list and returns them. Objects that the
    /// versions `live` or `durable` need are not among them.
    pub fn take_deletable(&mut self, live: &Version, durable: &Version) -> Vec<ObjectId> {
        let pinned: Vec<_> = self.versions.iter().filter_map(Weak::upgrade).collect();
        let followed = self.followers.iter().filter_map(Weak::upgrade).map(|follower| follower.0.load(Relaxed)).min();
        let unread = self.obsolete.iter().filter(|(_, reader)| reader.strong_count() == 0);
        let mut deletable: BTreeSet<_> = unread.map(|(object, _)| *object).collect();
        // An obsolete WAL may still be needed for replay, for readers of the change feed, or for
        // the values of a memtable.
        let needed = self.live_wals.keys().chain(self.archived_wals.keys()).copied();
        let read = self.memtables.iter().filter_map(Weak::upgrade).map(|memtable| memtable.log);
        for log in needed.chain(read) {
            deletable.remove(&ObjectId::Wal(log));
        }
        let is_followed = |log: LogId| followed.is_some_and(|oldest| log.0 >= oldest);
        deletable
            .retain(|object| !matches!(object, ObjectId::Wal(log) | ObjectId::WalSidecar(log) if is_followed(*log)));
        let mut seen = BTreeSet::new();
        for version in [live, durable] {
            remove_needed(&mut deletable, version, &mut seen);
        }
        for version in &pinned {
            let read = remove_needed(&mut deletable, version, &mut seen);
            self.obsolete.extend(read.into_iter().map(|object| (object, Arc::downgrade(version))));
        }
        self.obsolete.retain(|object, _| !deletable.contains(object));
        deletable.into_iter().collect()
    }

    /// Returns the number of obsolete objects that are not deleted yet, because a reader needs them
    /// or a sync is missing.
    pub fn waiting(&self) -> usize {
        self.obsolete.len()
    }
}

/// Removes from `set` the objects that `version` needs, and returns them. `seen` has the chunks
/// that were already compared with the same set. Versions share most of their chunks, so the
/// function skips these.
fn remove_needed(
    set: &mut BTreeSet<ObjectId>,
    version: &Version,
    seen: &mut BTreeSet<*const TableChunk>,
) -> Vec<ObjectId> {
    let is_table = |object: &ObjectId| matches!(object, ObjectId::Table(_));
    // Tables are treated first. They need no search for references, because no table refers to
    // another table.
    let (mut needed, mut rest) = (Vec::new(), Vec::new());
    for object in set.extract_if(.., is_table) {
        let is_needed = matches!(object, ObjectId::Table(id) if version.has_table(id));
        if is_needed { needed.push(object) } else { rest.push(object) }
    }
    let chunks = version.trees().flat_map(|(_, tree)| tree.runs()).flat_map(|(_, run)| run.chunks());
    for chunk in chunks.filter(|chunk| chunk.has_references()) {
        if !set.is_empty() && seen.insert(Arc::as_ptr(chunk)) {
            chunk.tables().iter().for_each(|table| remove_referenced(set, table, &mut needed));
        }
    }
    set.extend(rest);
    needed
}

/// Removes from `set` the objects that `table` refers to. A table with separated values may refer
/// to thousands of segments while `set` has few objects, or the opposite. The function looks the
/// elements of the smaller of the two collections up in the larger one.
fn remove_referenced(set: &mut BTreeSet<ObjectId>, table: &TableRef, needed: &mut Vec<ObjectId>) {
    if set.len() < table.meta.refs.len() {
        needed.extend(set.extract_if(.., |object| table.refers_to(*object)));
    } else {
        needed.extend(table.meta.refs.iter().filter_map(|(object, _)| set.take(object)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};
    use std::array;
    use terrace_format::{KeyOrder, SegmentId, SeqNo, key};
    use terrace_storage::placement::TableMeta;

    fn any_object() -> impl Strategy<Value = ObjectId> {
        prop_oneof![
            (0..40u64).prop_map(|id| ObjectId::Segment(SegmentId(id))),
            (0..40u64).prop_map(|id| ObjectId::Wal(LogId(id))),
            (0..4u64).prop_map(|id| ObjectId::Bundle(TableId(id))),
        ]
    }

    /// Tests an obsolete file in several pinned versions. It must be deleted after the last reader
    /// of these versions has ended, and not earlier.
    #[test]
    fn a_pinned_file_is_deleted_after_its_last_reader() {
        let key = || key::lookup(b"a", SeqNo(1));
        let table = Arc::new(TableRef::new(TableMeta::bounded(TableId(1), 1, None, key(), key())));
        let tables = array::from_fn(|level| (level == 1).then(|| table.clone()).into_iter().collect());
        let old = Arc::new(Version::from_tables(&KeyOrder::Bytewise, tables).expect("one table"));
        let (also, empty) = (Arc::new(Version::clone(&old)), Arc::<Version>::default());
        let mut tracker = ObsoleteFiles::default();
        [&old, &also, &empty].into_iter().for_each(|version| tracker.pin(version));
        tracker.durable_advanced(&old, &empty, (&[(1, TableId(1))], Vec::new()), LogId(0));
        let mut stays = || assert_eq!((tracker.take_deletable(&empty, &empty), tracker.waiting()), (Vec::new(), 1));
        stays();
        stays();
        drop(old);
        stays();
        drop(also);
        assert_eq!(tracker.take_deletable(&empty, &empty), [ObjectId::Table(TableId(1))]);
        assert_eq!(tracker.waiting(), 0);
    }

    proptest! {
        #[test]
        fn few_and_many_objects_are_matched_alike(
            wanted in btree_set(any_object(), 0..60),
            refs in btree_set(any_object(), 0..60).prop_map(Vec::from_iter).prop_shuffle(),
        ) {
            let needed: BTreeSet<_> = refs.iter().copied().collect();
            let refs = refs.into_iter().map(|object| (object, 1)).collect();

            let (mut left, mut removed) = (wanted.clone(), Vec::new());
            let table = TableRef::new(TableMeta { refs, ..TableMeta::unbounded(TableId(1), 1) });
            remove_referenced(&mut left, &table, &mut removed);
            prop_assert_eq!(left, &wanted - &needed);
            prop_assert_eq!(BTreeSet::from_iter(removed), &wanted & &needed);
        }
    }
}
