//! Edits that are installed and that the manifest does not have yet, in the order in which it gets them.
//!
//! They are released from the front, while their tickets are mature. Two things depart from first-in first-out:
//!
//! - A flush into level 0 whose table is durable overtakes compactions whose tables are not: it adds the newest run of all, whatever
//!   has become of those below.
//! - A table that a compaction consumed before anything was done to make it durable never becomes so: it is *given up*, and its file
//!   goes at once. The manifest must not name it. So the edit that added it, the one that consumed it and all between them become
//!   one record of the manifest, which a power cut leaves whole or not at all.
use super::{meta_of, objects_of};
use crate::{Error, Result};
use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
};
use terrace_format::{
    TableId,
    edit::{AddedTable, Edit},
};
use terrace_storage::{DurabilityHandle, placement::ObjectId};

/// An installed edit.
#[derive(Debug, Default)]
pub struct Pending {
    /// What it says.
    pub edit: Edit,
    /// One for each build that made its tables.
    pub tickets: Vec<DurabilityHandle>,
    /// It is a compaction's, not a flush's.
    pub compaction: bool,
    /// Bytes that go when it is released: of logs if it is a flush, else of tables.
    pub retains: u64,
    /// Of those that it consumed, the tables that were given up.
    pub given_up: BTreeSet<TableId>,
    /// Its place among all that ever waited. The queue gives it.
    pub(super) serial: u64,
    /// The last edit that it has to be released with: the consumer of a table of its own that was given up.
    pub(super) bound_to: Option<u64>,
}

/// Edits that become one record of the manifest.
#[derive(Debug)]
pub struct Released {
    /// What the record says.
    pub edit: Edit,
    /// Tables that came and went between the first of them and the last, given up or not, and what these pointed into.
    pub passed: Vec<ObjectId>,
}

/// Bytes that are kept because what replaces them is not known to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Of logs whose memtables were flushed.
    pub log_bytes: u64,
    /// Of tables that a compaction replaced, and of segments that nothing points into since.
    pub shadow_bytes: u64,
}

impl Retained {
    fn of(&mut self, pending: &Pending) -> &mut u64 {
        if pending.compaction { &mut self.shadow_bytes } else { &mut self.log_bytes }
    }
}

impl Pending {
    /// It is released behind `flush`, which was installed later: what the manifest says of numbers never falls.
    fn let_pass(&mut self, flush: &Edit) {
        self.edit.last_sequence = self.edit.last_sequence.max(flush.last_sequence);
        self.edit.next_file_number = self.edit.next_file_number.max(flush.next_file_number);
    }

    fn is_durable(&self) -> Result<bool> {
        let mut durable = true;
        for ticket in &self.tickets {
            durable &= ticket.is_durable().map_err(|error| Error::from(error).lasting())?;
        }
        Ok(durable)
    }
}

/// The queue of all of them.
#[derive(Debug, Default)]
pub struct Queue {
    edits: VecDeque<Pending>,
    /// Sums over `edits`.
    retained: Retained,
    /// How many were ever pushed.
    pushed: u64,
}

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether an edit of a compaction waits.
    pub fn has_compaction(&self) -> bool {
        self.edits.iter().any(|pending| pending.compaction)
    }

    /// What is replaced but kept.
    pub fn retained(&self) -> Retained {
        self.retained
    }

    /// The tables that edits add which the manifest does not have yet: new ones, and those that were moved to another level.
    pub fn added(&self) -> BTreeSet<TableId> {
        self.edits.iter().flat_map(|pending| &pending.edit.added).map(|(_, added)| added.id).collect()
    }

    /// The last of all.
    pub fn push(&mut self, mut pending: Pending) {
        (pending.serial, self.pushed) = (self.pushed, self.pushed + 1);
        if !pending.given_up.is_empty() {
            let consumed =
                |waiting: &Pending| waiting.edit.added.iter().any(|(_, added)| pending.given_up.contains(&added.id));
            let adders = self.edits.iter_mut().filter(|waiting| consumed(waiting));
            adders.for_each(|adder| adder.bound_to = Some(pending.serial)); // the last that is pushed is the last there is
        }
        *self.retained.of(&pending) += pending.retains;
        self.edits.push_back(pending);
    }

    /// The manifest says `next_file` before it says any of these.
    pub fn not_below(&mut self, next_file: u64) {
        for Pending { edit, .. } in &mut self.edits {
            edit.next_file_number = edit.next_file_number.max(Some(next_file));
        }
    }

    /// How many edits at the front may be released now; the error if one of them, or of those behind, never can.
    pub fn releasable(&mut self) -> Result<usize> {
        let durable = self.let_flushes_overtake()?;
        Ok(self.groups(durable).last().map_or(0, |group| group.end))
    }

    /// The first `count` edits, which were [`releasable`](Queue::releasable), as the records that they become.
    pub fn records(&self, count: usize) -> Vec<Edit> {
        let of_group = |group| fold(self.edits.range::<Range<usize>>(group).map(|pending| pending.edit.clone())).edit;
        self.groups(count).into_iter().map(of_group).collect()
    }

    /// Takes out the first `count` edits, which were [`releasable`](Queue::releasable).
    pub fn release(&mut self, count: usize) -> Vec<Released> {
        let mut released = Vec::new();
        for group in self.groups(count) {
            let edits: Vec<_> = self.edits.drain(..group.len()).collect();
            edits.iter().for_each(|pending| *self.retained.of(pending) -= pending.retains);
            released.push(fold(edits.into_iter().map(|pending| pending.edit)));
        }
        released
    }

    /// Moves flushes whose tables are durable before compactions whose tables are not; no flush passes another one, or what it is
    /// bound to. One that was installed while a compaction waits went into level 0 (`DbInner::flush_level`). How many durable edits are
    /// at the front now.
    fn let_flushes_overtake(&mut self) -> Result<usize> {
        let mut front = 0;
        for at in 0..self.edits.len() {
            let pending = &self.edits[at]; // what has been moved up was behind neither this one nor the others to come
            let (durable, bound) = (pending.is_durable()?, pending.bound_to.is_some());
            if durable && at == front {
                front += 1;
            } else if durable && !bound && !pending.compaction {
                let flush = self.edits.remove(at).expect("it was just looked at");
                self.edits.range_mut(front..at).for_each(|waiting| waiting.let_pass(&flush.edit));
                self.edits.insert(front, flush);
                front += 1;
            } else if !pending.compaction {
                break;
            }
        }
        Ok(front)
    }

    /// The stretches among the first `count` edits that are released together each, as far as they are whole. Costs what `count` is:
    /// it is asked every few milliseconds, however long the queue.
    fn groups(&self, count: usize) -> Vec<Range<usize>> {
        let (mut groups, mut from, mut last) = (Vec::new(), 0, None);
        for (at, pending) in self.edits.range(..count).enumerate() {
            last = last.max(pending.bound_to);
            if last.is_none_or(|last| last == pending.serial) {
                groups.push(from..at + 1); // consumers are never moved, so behind the last there are no others
                (from, last) = (at + 1, None);
            }
        }
        groups
    }
}

/// What all of `edits`, each behind the one before, come to.
fn fold(edits: impl IntoIterator<Item = Edit>) -> Released {
    let (mut sum, mut passed) = (None, Vec::new());
    for edit in edits {
        sum = Some(match sum {
            None => edit,
            Some(sum) => then(sum, edit, &mut passed),
        });
    }
    let passed = passed.iter().flat_map(|table| objects_of(&meta_of(table, 0)).collect::<Vec<_>>()).collect();
    Released { edit: sum.unwrap_or_default(), passed }
}

/// What `first` and then `second` come to. What the one added and the other deleted is in neither list, but `passed`.
fn then(mut first: Edit, second: Edit, passed: &mut Vec<AddedTable>) -> Edit {
    for (level, table) in second.deleted {
        match first.added.iter().position(|(at, added)| (*at, added.id) == (level, table)) {
            Some(at) => passed.push(first.added.remove(at).1),
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
        AddedTable { id: TableId(id), bytes: 9, within: None, smallest: vec![], largest: vec![], refs: vec![] }
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
        let (ticket, maturity) = DurabilityHandle::pending();
        (Pending { edit: edit(&[], &[(0, id)]), tickets: vec![ticket], ..Pending::default() }, maturity)
    }

    fn compaction(deleted: &[(usize, u64)], added: &[(usize, u64)], given_up: &[u64]) -> (Pending, Completer) {
        let (ticket, maturity) = DurabilityHandle::pending();
        let given_up = given_up.iter().map(|id| TableId(*id)).collect();
        let edit = edit(deleted, added);
        (Pending { edit, tickets: vec![ticket], compaction: true, given_up, ..Pending::default() }, maturity)
    }

    #[test]
    fn what_was_given_up_is_released_with_its_consumer_in_one_record() {
        let mut queue = Queue::default();
        let pendings = [
            compaction(&[(2, 1)], &[(3, 2)], &[]),
            flush(10),
            compaction(&[(1, 3)], &[(2, 11), (2, 12)], &[]), // between the two, and 11 goes with the last
            compaction(&[(0, 10), (2, 11)], &[(1, 13)], &[10]),
            flush(14),
        ];
        let mut maturities = Vec::new();
        for (pending, maturity) in pendings {
            queue.push(pending);
            maturities.push(Some(maturity));
        }
        let mut keep = |at: usize| maturities[at].take().expect("once").keep();
        let ready = |queue: &mut Queue| queue.releasable().expect("nothing fails");
        keep(1);
        assert_eq!(ready(&mut queue), 0, "a bound flush overtakes nothing");
        keep(4);
        assert_eq!(ready(&mut queue), 0, "no flush overtakes another");
        keep(0);
        assert_eq!(ready(&mut queue), 1, "10 is in no record without 13");
        keep(2);
        assert_eq!(ready(&mut queue), 1);
        keep(3);
        assert_eq!(ready(&mut queue), 5);
        let bound = edit(&[(1, 3)], &[(0, 14), (2, 12), (1, 13)]); // 14 has overtaken the compactions behind 10
        let records = queue.records(5);
        assert_eq!((records.len(), &records[0]), (2, &edit(&[(2, 1)], &[(3, 2)])));
        assert_eq!((&records[1].deleted, &records[1].added), (&bound.deleted, &bound.added));
        let released = queue.release(5);
        assert_eq!((released.len(), queue.len(), &released[1].edit), (2, 0, &records[1]));
        assert_eq!(released[1].passed, [10, 11].map(|id| ObjectId::Table(TableId(id))));
    }

    #[test]
    fn edits_come_to_what_they_do_one_after_the_other() {
        let mut moved = edit(&[(1, 5)], &[(2, 5)]);
        (moved.log_number, moved.compact_pointers) = (Some(3), vec![(1, b"a".to_vec()), (2, b"b".to_vec())]);
        let mut gone = edit(&[(2, 5), (0, 4)], &[(3, 6)]);
        (gone.last_sequence, gone.compact_pointers) = (Some(terrace_format::SeqNo(8)), vec![(1, b"c".to_vec())]);
        let Released { edit: both, passed } = fold([edit(&[], &[(1, 5)]), moved, gone]);
        assert_eq!((&both.deleted, &both.added), (&vec![(0, TableId(4))], &vec![(3, table(6))]));
        assert_eq!(
            (both.log_number, both.last_sequence, both.entries.len()),
            (Some(3), Some(terrace_format::SeqNo(8)), 1)
        );
        assert_eq!(both.compact_pointers, [(2, b"b".to_vec()), (1, b"c".to_vec())]);
        assert!(!passed.is_empty() && passed.iter().all(|object| *object == ObjectId::Table(TableId(5))));
    }
}
