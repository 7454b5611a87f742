//! Pending edits: version edits that are installed in the live version, but not in the manifest
//! yet. The queue has them in the order in which they will be appended to the manifest.
//!
//! Edits are committed from the front of the queue, as long as their durability handles are
//! durable. There are two exceptions to first-in first-out:
//!
//! - A flush into level 0 whose table is durable overtakes compactions whose tables are not. This
//!   order is safe, because the flush adds the newest run, which does not depend on the older
//!   runs.
//! - A compaction may consume a table before any sync of the table has started. The sync is then
//!   *cancelled* and the table's file is deleted immediately, so the manifest must never name the
//!   table. The edit that added the table, the edit that consumed it and all edits between them
//!   become one manifest record. A power cut leaves this record whole or not at all.
use super::{meta_of, objects_of};
use crate::{Error, Result};
use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
};
use terrace_format::{
    FamilyId, TableId,
    edit::{AddedTable, Edit},
};
use terrace_storage::{DurabilityHandle, placement::ObjectId};

/// A pending edit: an installed edit that is not in the manifest yet.
#[derive(Debug, Default)]
pub struct Pending {
    /// The version edit itself.
    pub edit: Edit,
    /// The durability handles, one for each table sink that wrote tables of the edit.
    pub handles: Vec<DurabilityHandle>,
    /// Whether the edit is that of a compaction. If not, it is that of a flush.
    pub compaction: bool,
    /// Bytes that become obsolete when the edit is committed: bytes of WALs for a flush, bytes of
    /// tables for a compaction.
    pub retained_bytes: u64,
    /// The input tables of the compaction whose sync was cancelled.
    pub sync_cancelled: BTreeSet<TableId>,
    /// The number of this edit: edits are numbered in the order in which they are pushed. The
    /// queue sets the number.
    pub(super) serial: u64,
    /// The serial number of the later edit that deletes a table which this edit adds, if the sync
    /// of that table was cancelled. Both edits and all edits between them must be committed as one
    /// manifest record. `None` if there is no such edit.
    pub(super) bound_to: Option<u64>,
}

/// Several edits that are committed as one manifest record.
#[derive(Debug)]
pub struct CommittedRecord {
    /// The edit that has the effect of all edits of the record.
    pub edit: Edit,
    /// Tables that are added and deleted within the record, and the objects that they refer to.
    pub transient: Vec<ObjectId>,
}

/// Bytes that are kept because the files that replace them may not be durable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Bytes of WALs of flushed memtables.
    pub log_bytes: u64,
    /// Bytes of compacted tables, and of segments without references.
    pub shadow_bytes: u64,
}

impl Pending {
    /// Raises the last sequence number and the next file number of this edit to at least those of
    /// `flush`. The edit `flush` was installed later but is committed before this edit, and these
    /// two numbers must never decrease in the manifest.
    fn raise_counters(&mut self, flush: &Edit) {
        self.edit.last_sequence = self.edit.last_sequence.max(flush.last_sequence);
        self.edit.next_file_number = self.edit.next_file_number.max(flush.next_file_number);
    }

    fn is_durable(&self) -> Result<bool> {
        let mut durable = true;
        for handle in &self.handles {
            durable &= handle.is_durable().map_err(|error| Error::from(error).without_recovery())?;
        }
        Ok(durable)
    }
}

/// The queue of pending edits.
#[derive(Debug, Default)]
pub struct PendingQueue {
    edits: VecDeque<Pending>,
    /// Retained bytes of all flushes, and those of all compactions. A manifest may declare any
    /// size, so the sums need more than 64 bits.
    retained: [u128; 2],
    /// The number of edits that were ever pushed.
    pushed: u64,
}

impl PendingQueue {
    /// Returns the number of pending edits.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Returns whether a compaction's edit is pending.
    pub fn has_compaction(&self) -> bool {
        self.edits.iter().any(|pending| pending.compaction)
    }

    /// Returns whether an edit adds or deletes tables of `family`.
    pub fn has_family(&self, family: FamilyId) -> bool {
        let levels = |edit: &Edit| {
            let deleted = edit.deleted.iter().map(|(level, _)| *level);
            edit.added.iter().map(|(level, _)| *level).chain(deleted).any(|level| FamilyId::of_level(level).0 == family)
        };
        self.edits.iter().any(|pending| levels(&pending.edit))
    }

    /// Returns the number of bytes that are kept until the pending edits are committed.
    pub fn retained(&self) -> Retained {
        let [log_bytes, shadow_bytes] = self.retained.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        Retained { log_bytes, shadow_bytes }
    }

    fn sum_of(&mut self, pending: &Pending) -> &mut u128 {
        &mut self.retained[usize::from(pending.compaction)]
    }

    /// Returns the tables that pending edits add: new tables, and moved ones.
    pub fn added(&self) -> BTreeSet<TableId> {
        self.edits.iter().flat_map(|pending| &pending.edit.added).map(|(_, added)| added.id).collect()
    }

    /// Appends an edit to the queue.
    pub fn push(&mut self, mut pending: Pending) {
        (pending.serial, self.pushed) = (self.pushed, self.pushed + 1);
        if !pending.sync_cancelled.is_empty() {
            let consumed = |waiting: &Pending| {
                waiting.edit.added.iter().any(|(_, added)| pending.sync_cancelled.contains(&added.id))
            };
            let adders = self.edits.iter_mut().filter(|waiting| consumed(waiting));
            // The edit that is pushed is the last one in the queue.
            adders.for_each(|adder| adder.bound_to = Some(pending.serial));
        }
        *self.sum_of(&pending) += u128::from(pending.retained_bytes);
        self.edits.push_back(pending);
    }

    /// Raises the next file number of all pending edits to at least `next_file`. This is necessary
    /// if a manifest snapshot that contains `next_file` is written before these edits: the number
    /// must never decrease in the manifest.
    pub fn raise_next_file(&mut self, next_file: u64) {
        for Pending { edit, .. } in &mut self.edits {
            edit.next_file_number = edit.next_file_number.max(Some(next_file));
        }
    }

    /// Returns the number of edits at the front of the queue that can be committed now. Returns an
    /// error if the durability handle of an edit has failed, because then the edit can never be
    /// committed.
    pub fn committable(&mut self) -> Result<usize> {
        let durable = self.let_flushes_overtake()?;
        Ok(self.groups(durable).last().map_or(0, |group| group.end))
    }

    /// Returns the manifest records of the first `count` edits. The caller ensures that these edits
    /// are [`committable`](PendingQueue::committable).
    pub fn records(&self, count: usize) -> Vec<Edit> {
        let of_group = |group| fold(self.edits.range::<Range<usize>>(group).map(|pending| pending.edit.clone())).edit;
        self.groups(count).into_iter().map(of_group).collect()
    }

    /// Removes the first `count` edits from the queue and returns them as manifest records. The
    /// caller ensures that these edits are [`committable`](PendingQueue::committable).
    pub fn take_committed(&mut self, count: usize) -> Vec<CommittedRecord> {
        let mut records = Vec::new();
        for group in self.groups(count) {
            let edits: Vec<_> = self.edits.drain(..group.len()).collect();
            edits.iter().for_each(|pending| *self.sum_of(pending) -= u128::from(pending.retained_bytes));
            records.push(fold(edits.into_iter().map(|pending| pending.edit)));
        }
        records
    }

    /// Moves flushes whose tables are durable before compactions whose tables are not. A flush
    /// passes no other flush. It also does not move if it is bound to a later edit (`bound_to`).
    /// The table of a moved flush is in level 0, because every flush that is installed while a
    /// compaction is pending places its table in level 0 (`DbInner::flush_level`). Returns the
    /// number of durable edits at the front.
    fn let_flushes_overtake(&mut self) -> Result<usize> {
        let mut front = 0;
        for at in 0..self.edits.len() {
            // Earlier iterations move edits only to the front of the queue, so the position `at`
            // still has the same edit.
            let pending = &self.edits[at];
            let (durable, bound) = (pending.is_durable()?, pending.bound_to.is_some());
            if durable && at == front {
                front += 1;
            } else if durable && !bound && !pending.compaction {
                let flush = self.edits.remove(at).expect("the index is in range");
                self.edits.range_mut(front..at).for_each(|waiting| waiting.raise_counters(&flush.edit));
                self.edits.insert(front, flush);
                front += 1;
            } else if !pending.compaction {
                break;
            }
        }
        Ok(front)
    }

    /// Divides the first `count` edits into groups, and returns the range of each group in the
    /// queue. Each group becomes one manifest record. Most groups have one edit. A group has
    /// several edits if one of them is bound to a later one (`bound_to`). A group whose last edit
    /// is not among the first `count` is left out. The cost depends only on `count` and not on the
    /// length of the queue, because this function is called every few milliseconds.
    fn groups(&self, count: usize) -> Vec<Range<usize>> {
        let (mut groups, mut from, mut last) = (Vec::new(), 0, None);
        for (at, pending) in self.edits.range(..count).enumerate() {
            last = last.max(pending.bound_to);
            if last.is_none_or(|last| last == pending.serial) {
                // The group ends at the edit to which its first edit is bound: an edit that
                // consumes tables. The queue never moves such an edit, so no later edit belongs to
                // the group.
                groups.push(from..at + 1);
                (from, last) = (at + 1, None);
            }
        }
        groups
    }
}

/// Combines `edits`, in their order, into one edit with the same effect.
fn fold(edits: impl IntoIterator<Item = Edit>) -> CommittedRecord {
    let (mut sum, mut transient) = (None, Vec::new());
    for edit in edits {
        sum = Some(match sum {
            None => edit,
            Some(sum) => compose(sum, edit, &mut transient),
        });
    }
    let transient = transient.iter().flat_map(|table| objects_of(&meta_of(table, 0)).collect::<Vec<_>>()).collect();
    CommittedRecord { edit: sum.unwrap_or_default(), transient }
}

/// Combines the edit `first` and the later edit `second` into one. A table that the first edit
/// adds and the second edit deletes is neither added nor deleted by the result, but is in
/// `transient`.
fn compose(mut first: Edit, second: Edit, transient: &mut Vec<AddedTable>) -> Edit {
    for (level, table) in second.deleted {
        match first.added.iter().position(|(at, added)| (*at, added.id) == (level, table)) {
            Some(at) => transient.push(first.added.remove(at).1),
            None => first.deleted.push((level, table)),
        }
    }
    first.added.extend(second.added);
    first.entries.extend(second.entries);
    first.entries.sort_unstable();
    first.entries.dedup();
    first.entries.retain(|(table, _)| first.added.iter().any(|(_, added)| added.id == *table));
    first.compact_pointers.retain(|(level, _)| second.compact_pointers.iter().all(|(newer, _)| newer != level));
    first.compact_pointers.extend(second.compact_pointers);
    first.requires.extend(second.requires);
    Edit {
        comparator: second.comparator.or(first.comparator),
        log_number: first.log_number.max(second.log_number),
        prev_log_number: second.prev_log_number.or(first.prev_log_number),
        next_file_number: first.next_file_number.max(second.next_file_number),
        last_sequence: first.last_sequence.max(second.last_sequence),
        ..first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_storage::Completer;

    fn table(id: u64) -> AddedTable {
        AddedTable { id: TableId(id), bytes: 9, within: None, run: 0, smallest: vec![], largest: vec![], refs: vec![] }
    }

    fn edit(deleted: &[(usize, u64)], added: &[(usize, u64)]) -> Edit {
        Edit {
            deleted: deleted.iter().map(|(level, id)| (*level, TableId(*id))).collect(),
            added: added.iter().map(|(level, id)| (*level, table(*id))).collect(),
            entries: added.iter().map(|(_, id)| (TableId(*id), 7)).collect(),
            ..Edit::default()
        }
    }

    fn flush(id: u64) -> (Pending, Completer) {
        let (handle, completer) = DurabilityHandle::pending();
        (Pending { edit: edit(&[], &[(0, id)]), handles: vec![handle], ..Pending::default() }, completer)
    }

    fn compaction(deleted: &[(usize, u64)], added: &[(usize, u64)], sync_cancelled: &[u64]) -> (Pending, Completer) {
        let (handle, completer) = DurabilityHandle::pending();
        let sync_cancelled = sync_cancelled.iter().map(|id| TableId(*id)).collect();
        let edit = edit(deleted, added);
        (Pending { edit, handles: vec![handle], compaction: true, sync_cancelled, ..Pending::default() }, completer)
    }

    #[test]
    fn a_table_with_a_cancelled_sync_is_committed_in_one_record_with_its_consumer() {
        let mut queue = PendingQueue::default();
        let pendings = [
            compaction(&[(2, 1)], &[(3, 2)], &[]),
            flush(10),
            // This edit is queued between the flush of table 10 and the compaction that consumes
            // table 10. Both of these are committed in one manifest record, so this edit becomes
            // part of it too. Table 11, an output of this edit, is consumed in the same record.
            compaction(&[(1, 3)], &[(2, 11), (2, 12)], &[]),
            compaction(&[(0, 10), (2, 11)], &[(1, 13)], &[10]),
            flush(14),
        ];
        let mut completers = Vec::new();
        for (pending, completer) in pendings {
            queue.push(pending);
            completers.push(Some(completer));
        }
        let mut complete = |at: usize| completers[at].take().expect("once").keep();
        let committable = |queue: &mut PendingQueue| queue.committable().expect("nothing fails");
        complete(1);
        assert_eq!(committable(&mut queue), 0, "a bound flush overtakes nothing");
        complete(4);
        assert_eq!(committable(&mut queue), 0, "no flush overtakes another");
        complete(0);
        assert_eq!(committable(&mut queue), 1, "the edit of 10 is committed with that of 13");
        complete(2);
        assert_eq!(committable(&mut queue), 1);
        complete(3);
        assert_eq!(committable(&mut queue), 5);
        // The flush of table 14 has overtaken the compactions after the flush of table 10.
        let bound = edit(&[(1, 3)], &[(0, 14), (2, 12), (1, 13)]);
        let records = queue.records(5);
        assert_eq!((records.len(), &records[0]), (2, &edit(&[(2, 1)], &[(3, 2)])));
        assert_eq!((&records[1].deleted, &records[1].added), (&bound.deleted, &bound.added));
        let released = queue.take_committed(5);
        assert_eq!((released.len(), queue.len(), &released[1].edit), (2, 0, &records[1]));
        assert_eq!(released[1].transient, [10, 11].map(|id| ObjectId::Table(TableId(id))));
    }

    #[test]
    fn a_folded_edit_equals_its_edits_in_order() {
        let mut moved = edit(&[(1, 5)], &[(2, 5)]);
        (moved.log_number, moved.compact_pointers) = (Some(3), vec![(1, b"a".to_vec()), (2, b"b".to_vec())]);
        let mut consumer = edit(&[(2, 5), (0, 4)], &[(3, 6)]);
        (consumer.last_sequence, consumer.compact_pointers) =
            (Some(terrace_format::SeqNo(8)), vec![(1, b"c".to_vec())]);
        let CommittedRecord { edit: both, transient } = fold([edit(&[], &[(1, 5)]), moved, consumer]);
        assert_eq!((&both.deleted, &both.added), (&vec![(0, TableId(4))], &vec![(3, table(6))]));
        assert_eq!(
            (both.log_number, both.last_sequence, both.entries.len()),
            (Some(3), Some(terrace_format::SeqNo(8)), 1)
        );
        assert_eq!(both.compact_pointers, [(2, b"b".to_vec()), (1, b"c".to_vec())]);
        assert!(!transient.is_empty() && transient.iter().all(|object| *object == ObjectId::Table(TableId(5))));
    }
}
