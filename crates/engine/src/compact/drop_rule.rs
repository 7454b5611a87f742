//! The drop rule decides which entries a compaction may drop: those that no reader can see any
//! more. This module does no I/O.
//!
//! A reader at a snapshot sees the newest entry of a key at or below the snapshot's sequence
//! number. The snapshots divide the sequence numbers into stripes: a stripe contains the numbers
//! above one snapshot, up to and including the next. Within one stripe the newest entry of a key
//! shadows all older entries of the key, so a compaction keeps only one entry per key and stripe.
use terrace_format::{KeyOrder, Kind, SeqNo, key::Parsed};

/// The sequence numbers at which readers may read now or later: the sequence numbers of the
/// existing snapshots, and every sequence number from `visible` on. They divide the history into
/// snapshot stripes.
#[derive(Clone, Debug, Default)]
pub struct SnapshotStripes {
    /// Sequence numbers of existing snapshots, ascending.
    snapshots: Vec<SeqNo>,
    /// The lowest sequence number at which a future reader may read.
    visible: SeqNo,
}

impl SnapshotStripes {
    /// Makes the snapshot stripes for `snapshots`, sequence numbers that must be ascending and at
    /// most `visible`.
    pub fn new(snapshots: Vec<SeqNo>, visible: SeqNo) -> SnapshotStripes {
        debug_assert!(snapshots.is_sorted());
        SnapshotStripes { snapshots, visible }
    }

    /// Returns the lowest sequence number that any reader uses.
    pub fn oldest(&self) -> SeqNo {
        self.stripe_end(SeqNo::ZERO)
    }

    /// Returns the upper end of the stripe of `seq`: the lowest sequence number at which a reader
    /// sees `seq`. If no reader sees `seq` yet, the result is below `seq`.
    pub fn stripe_end(&self, seq: SeqNo) -> SeqNo {
        let at = self.snapshots.partition_point(|snapshot| *snapshot < seq);
        self.snapshots.get(at).copied().unwrap_or(self.visible)
    }

    /// Returns whether every reader that sees `older` sees `newer` too. This is the case if both
    /// sequence numbers are in one stripe.
    pub fn same_stripe(&self, older: SeqNo, newer: SeqNo) -> bool {
        newer <= self.stripe_end(older)
    }
}

/// Applies the drop rule to the entries of one compaction, which must pass them in internal-key
/// order. The rule stores the user key and the sequence number of the previous entry.
#[derive(Clone, Debug)]
pub struct DropRule {
    readers: SnapshotStripes,
    last_user: Option<Vec<u8>>,
    last_seq: SeqNo,
    begins: bool,
}

impl DropRule {
    /// Makes a rule that keeps every entry that a reader in `readers` may see.
    pub fn new(readers: SnapshotStripes) -> DropRule {
        DropRule { readers, last_user: None, last_seq: SeqNo::MAX, begins: false }
    }

    /// Returns the snapshot stripes that the rule uses.
    pub fn readers(&self) -> &SnapshotStripes {
        &self.readers
    }

    /// Returns whether the compaction may drop `entry`. The callback `is_bottom` returns true if no
    /// older sorted run outside the compaction can contain an entry of the key.
    pub fn entry(&mut self, order: &KeyOrder, entry: &Parsed<'_>, is_bottom: impl FnOnce() -> bool) -> bool {
        self.begins = self.last_user.as_deref().is_none_or(|last| order.user(last, entry.user).is_ne());
        if self.begins {
            let last = self.last_user.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.user);
            self.last_seq = SeqNo::MAX;
        }
        let shadowed = !self.begins && self.readers.same_stripe(entry.seq, self.last_seq);
        // A tombstone may be dropped if every reader sees it and all older entries of its key are
        // inputs of this compaction. The rule drops these older entries too, because they are in
        // the same snapshot stripe as the tombstone.
        let obsolete_tombstone = entry.kind == Kind::Delete && entry.seq <= self.readers.oldest() && is_bottom();
        self.last_seq = entry.seq;
        shadowed || obsolete_tombstone
    }

    /// Returns a copy of the rule's state, which [`rewind`](DropRule::rewind) can restore.
    pub fn place(&self) -> (Option<Vec<u8>>, SeqNo, bool) {
        (self.last_user.clone(), self.last_seq, self.begins)
    }

    /// Restores a state that [`place`](DropRule::place) returned.
    pub fn rewind(&mut self, place: (Option<Vec<u8>>, SeqNo, bool)) {
        (self.last_user, self.last_seq, self.begins) = place;
    }

    /// Returns whether the entry that was checked last is the first entry of its user key in the
    /// compaction. Suppose the rule drops the first entry of a key and keeps a later one: for the
    /// later entry the method returns false. The only effect is that an output table may end a
    /// little later.
    pub fn begins_key(&self) -> bool {
        self.begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const ORDER: KeyOrder = KeyOrder::Bytewise;

    fn readers(snapshots: &[u64], visible: u64) -> SnapshotStripes {
        SnapshotStripes::new(snapshots.iter().copied().map(SeqNo).collect(), SeqNo(visible))
    }

    fn dropped(readers: &SnapshotStripes, bottom: bool, entries: &[(&str, u64, Kind)]) -> Vec<bool> {
        let mut rule = DropRule::new(readers.clone());
        let entry = |&(user, seq, kind): &(&str, u64, Kind)| {
            let entry = Parsed { user: user.as_bytes(), seq: SeqNo(seq), kind };
            rule.entry(&ORDER, &entry, || bottom)
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn keeps_every_entry_that_a_reader_may_see() {
        use Kind::{Delete, Put};
        // One test case: the snapshots, the result of `is_bottom`, the entries, and for each entry
        // whether the rule must drop it.
        type Case<'a> = (&'a [u64], bool, &'a [(&'a str, u64, Kind)], &'a [bool]);
        let cases: [Case<'_>; 10] = [
            (&[], false, &[("a", 5, Put), ("a", 3, Put), ("b", 4, Put)], &[false, true, false]),
            (&[4], false, &[("a", 5, Put), ("a", 3, Put), ("a", 2, Put)], &[false, false, true]),
            (&[], true, &[("a", 5, Delete), ("a", 3, Put)], &[true, true]),
            (&[], false, &[("a", 5, Delete), ("a", 3, Put)], &[false, true]),
            (&[4], true, &[("a", 5, Delete), ("a", 3, Put)], &[false, false]),
            (&[0], true, &[("", 1, Delete)], &[false]),
            (&[1], false, &[("a", 8, Put), ("a", 5, Put), ("a", 3, Put), ("a", 1, Put)], &[false, true, true, false]),
            (
                &[3, 7],
                false,
                &[("a", 8, Put), ("a", 5, Put), ("a", 4, Put), ("a", 3, Put)],
                &[false, false, true, false],
            ),
            (&[3], true, &[("a", 8, Delete), ("a", 5, Delete), ("a", 3, Put)], &[false, true, false]),
            // The sequence number 11 is above `visible`: the entry is a write that no reader sees
            // yet.
            (&[3], false, &[("a", 11, Put), ("a", 10, Put), ("a", 8, Put)], &[false, false, true]),
        ];
        for (snapshots, bottom, entries, want) in cases {
            let got = dropped(&readers(snapshots, 10), bottom, entries);
            assert_eq!(got, want, "snapshots {snapshots:?}, bottom {bottom}, {entries:?}");
        }
    }

    proptest! {
        /// Tests the definition of the drop rule: each reader sees the same entries before and
        /// after a compaction.
        #[test]
        fn every_reader_sees_the_same_as_before(mut seqs in vec((1..30_u64, any::<bool>()), 1..12), mut snapshots in vec(0..20_u64, 0..5), bottom: bool) {
            seqs.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
            seqs.dedup_by_key(|(seq, _)| *seq);
            snapshots.sort_unstable();
            let entries: Vec<_> =
                seqs.iter().map(|(seq, put)| ("k", *seq, if *put { Kind::Put } else { Kind::Delete })).collect();
            let dropped_entries = dropped(&readers(&snapshots, 20), bottom, &entries);
            let seen = |at: u64, all: bool| {
                let mut left = entries.iter().zip(&dropped_entries).filter(|(_, is_dropped)| all || !**is_dropped).map(|(entry, _)| entry);
                let newest = left.find(|(_, seq, _)| *seq <= at).map(|(_, seq, kind)| (*seq, *kind));
                newest.filter(|(_, kind)| !bottom || *kind == Kind::Put)
            };
            for at in snapshots.iter().copied().chain(20..31) {
                prop_assert_eq!(seen(at, false), seen(at, true), "at {}, of {:?}, dropped {:?}", at, &entries, &dropped_entries);
            }
            let stripes = snapshots.len() + 1 + entries.iter().filter(|(_, seq, _)| *seq > 20).count();
            prop_assert!(dropped_entries.iter().filter(|is_dropped| !**is_dropped).count() <= stripes);
        }
    }
}
