//! What waits for what: an object may go when the manifest edit that stops needing it is durable and no version that
//! anybody can still read names it (docs/durability.md, the one rule).
use super::{TableRef, Tables, Version, objects};
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

/// The book of objects that are no longer needed. Guarded by the control lock; does no I/O itself.
#[derive(Debug, Default)]
pub struct ObsoleteFiles {
    /// Objects that the durable version has stopped naming, each with a version that was found to need it still. Until that one has no reader
    /// left nothing has to be searched for it.
    candidates: BTreeMap<ObjectId, Weak<Version>>,
    /// Every version that was ever live and may still be read.
    versions: Vec<Weak<Version>>,
    /// Every memtable that may still be read and points into its log.
    memtables: Vec<Weak<MemTable>>,
    /// Live logs with their bytes, as far as they have ended: the durable manifest may still name one as the place to
    /// replay from.
    logs: BTreeMap<LogId, u64>,
    /// Logs that are kept only for those who follow the history, with their bytes, and how many bytes that may be.
    kept: BTreeMap<LogId, u64>,
    kept_bytes_max: u64,
    /// Who reads logs, with the oldest that each still needs.
    followers: Vec<Weak<Follower>>,
}

/// Somebody who reads the history: logs from this one on stay until it is dropped.
#[derive(Debug)]
pub struct Follower(AtomicU64);

impl Follower {
    /// Logs before `log` are not needed any more.
    pub fn reached(&self, log: LogId) {
        self.0.store(log.0, Relaxed);
    }
}

impl ObsoleteFiles {
    /// `version` becomes readable.
    pub fn pin(&mut self, version: &Arc<Version>) {
        self.versions.retain(|weak| weak.strong_count() > 0);
        self.versions.push(Arc::downgrade(version));
    }

    /// `memtable` becomes readable, and its values may be in its log only.
    pub fn pin_log(&mut self, memtable: &Arc<MemTable>) {
        self.memtables.retain(|weak| weak.strong_count() > 0);
        self.memtables.push(Arc::downgrade(memtable));
    }

    /// `log` begins to be needed.
    pub fn log_made(&mut self, log: LogId) {
        self.logs.insert(log, 0);
    }

    /// `log` takes no more; it has `bytes`.
    pub fn log_ended(&mut self, log: LogId, bytes: u64) {
        self.logs.entry(log).and_modify(|known| *known = bytes);
    }

    /// Bytes of `log`, if it has ended and may be needed still.
    pub fn log_bytes(&self, log: LogId) -> u64 {
        self.logs.get(&log).copied().unwrap_or(0)
    }

    /// Up to `bytes` of logs are kept after they are needed no more; `logs` are there from an earlier session.
    pub fn keep_logs(&mut self, bytes: u64, logs: Vec<(LogId, u64)>) {
        self.kept_bytes_max = bytes;
        self.kept.extend(logs);
    }

    /// Every log that has a part of the history, oldest first; they stay until the follower lets them go.
    pub fn follow(&mut self) -> (Vec<LogId>, Arc<Follower>) {
        let logs: Vec<_> = self.kept.keys().chain(self.logs.keys()).copied().collect();
        let follower = Arc::new(Follower(AtomicU64::new(logs.first().map_or(0, |oldest| oldest.0))));
        self.followers.retain(|weak| weak.strong_count() > 0);
        self.followers.push(Arc::downgrade(&follower));
        (logs, follower)
    }

    /// The manifest will never name `tables`, and the live version does not any more. What they point into may be needed still.
    pub fn never_durable(&mut self, tables: &BTreeSet<TableId>) {
        self.no_longer_named(tables.iter().map(|table| ObjectId::Table(*table)));
    }

    /// The durable version moves from `old` to `new` by deleting tables; objects that came and went since `old`, and that it never had, have
    /// `passed`. Replay begins at `replay_from` now. Works on the difference of object sets, because a moved table is deleted and
    /// added by one edit.
    pub fn durable_moved(
        &mut self,
        old: &Version,
        new: &Version,
        (deleted, passed): (&[(usize, TableId)], Vec<ObjectId>),
        replay_from: LogId,
    ) {
        let mut gone: BTreeSet<_> = old.named(deleted).flat_map(|(_, table)| objects(table)).chain(passed).collect();
        take_needed(&mut gone, new, &mut BTreeSet::new());
        self.no_longer_named(gone);
        let kept = self.logs.split_off(&replay_from);
        self.kept.append(&mut self.logs);
        self.logs = kept;
        while self.kept.values().sum::<u64>() > self.kept_bytes_max || self.kept_bytes_max == 0 {
            let Some((oldest, _)) = self.kept.pop_first() else { break };
            self.no_longer_named([ObjectId::Wal(oldest), ObjectId::SmallLog(oldest)]);
        }
    }

    /// A manifest that the root no longer names.
    pub fn manifest_replaced(&mut self, old: LogId) {
        self.no_longer_named([ObjectId::Manifest(old)]);
    }

    fn no_longer_named(&mut self, objects: impl IntoIterator<Item = ObjectId>) {
        self.candidates.extend(objects.into_iter().map(|object| (object, Weak::new())));
    }

    /// Takes the objects that may be removed now. `live` and `durable` never lose theirs.
    pub fn take_removable(&mut self, live: &Version, durable: &Version) -> Vec<ObjectId> {
        let pinned: Vec<_> = self.versions.iter().filter_map(Weak::upgrade).collect();
        let followed = self.followers.iter().filter_map(Weak::upgrade).map(|follower| follower.0.load(Relaxed)).min();
        let unread = self.candidates.iter().filter(|(_, reader)| reader.strong_count() == 0);
        let mut go: BTreeSet<_> = unread.map(|(object, _)| *object).collect();
        // Tables may point into a log that others need besides.
        let needed = self.logs.keys().chain(self.kept.keys()).copied();
        let read = self.memtables.iter().filter_map(Weak::upgrade).map(|memtable| memtable.log);
        for log in needed.chain(read) {
            go.remove(&ObjectId::Wal(log));
        }
        let is_followed = |log: LogId| followed.is_some_and(|oldest| log.0 >= oldest);
        go.retain(|object| !matches!(object, ObjectId::Wal(log) | ObjectId::SmallLog(log) if is_followed(*log)));
        let mut seen = BTreeSet::new();
        for version in [live, durable] {
            take_needed(&mut go, version, &mut seen);
        }
        for version in &pinned {
            let read = take_needed(&mut go, version, &mut seen);
            self.candidates.extend(read.into_iter().map(|object| (object, Arc::downgrade(version))));
        }
        self.candidates.retain(|object, _| !go.contains(object));
        go.into_iter().collect()
    }

    /// Objects that wait for a reader or for durability to let go of them.
    pub fn waiting(&self) -> usize {
        self.candidates.len()
    }
}

/// Takes from `set` what `version` needs, and tells it. Versions share most of their runs, so those that were `seen` already, for the same
/// set, are not looked at again.
fn take_needed(set: &mut BTreeSet<ObjectId>, version: &Version, seen: &mut BTreeSet<*const Tables>) -> Vec<ObjectId> {
    let is_table = |object: &ObjectId| matches!(object, ObjectId::Table(_));
    let mut tables: BTreeSet<_> = set.extract_if(.., is_table).collect(); // to which no table refers
    let mut needed = Vec::new();
    for run in version.levels.iter().flat_map(|level| &level.runs) {
        if !(tables.is_empty() && set.is_empty()) && seen.insert(Arc::as_ptr(run)) {
            for table in run.iter() {
                needed.extend(tables.take(&ObjectId::Table(table.meta.id)));
                take_referred(set, table, &mut needed);
            }
        }
    }
    set.append(&mut tables);
    needed
}

/// Takes from `set` what `table` refers to. Tables of a value log may refer to thousands of segments each, and to the same ones, while few
/// are asked about: the fewer are looked up among the more.
fn take_referred(set: &mut BTreeSet<ObjectId>, table: &TableRef, needed: &mut Vec<ObjectId>) {
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

    /// Also after it was found, at an earlier look, that somebody reads it.
    #[test]
    fn what_is_read_goes_when_its_last_reader_has_gone() {
        let key = || key::lookup(b"a", SeqNo(1));
        let table = Arc::new(TableRef::new(TableMeta::bounded(TableId(1), 1, None, key(), key())));
        let tables = array::from_fn(|level| (level == 1).then(|| table.clone()).into_iter().collect());
        let old = Arc::new(Version::from_tables(&KeyOrder::Bytewise, tables).expect("one table"));
        let (also, empty) = (Arc::new(Version::clone(&old)), Arc::<Version>::default());
        let mut retire = ObsoleteFiles::default();
        [&old, &also, &empty].into_iter().for_each(|version| retire.pin(version));
        retire.durable_moved(&old, &empty, (&[(1, TableId(1))], Vec::new()), LogId(0));
        let mut stays = || assert_eq!((retire.take_removable(&empty, &empty), retire.waiting()), (Vec::new(), 1));
        stays();
        stays();
        drop(old);
        stays();
        drop(also);
        assert_eq!(retire.take_removable(&empty, &empty), [ObjectId::Table(TableId(1))]);
        assert_eq!(retire.waiting(), 0);
    }

    proptest! {
        #[test]
        fn few_objects_and_many_are_found_needed_alike(
            asked in btree_set(any_object(), 0..60),
            refs in btree_set(any_object(), 0..60).prop_map(Vec::from_iter).prop_shuffle(),
        ) {
            let needed: BTreeSet<_> = refs.iter().copied().collect();
            let refs = refs.into_iter().map(|object| (object, 1)).collect();

            let (mut rest, mut taken) = (asked.clone(), Vec::new());
            let table = TableRef::new(TableMeta { refs, ..TableMeta::unbounded(TableId(1), 1) });
            take_referred(&mut rest, &table, &mut taken);
            prop_assert_eq!(rest, &asked - &needed);
            prop_assert_eq!(BTreeSet::from_iter(taken), &asked & &needed);
        }
    }
}
