//! Which entries of a merge no reader can see any more. Pure.
//!
//! A reader sees the newest entry of a key at or below its position, so an entry is hidden if no position lies between it and the next
//! newer entry of its key. Positions cut the sequences into stripes: of each key, each stripe keeps one entry.
use terrace_format::{KeyOrder, Kind, SeqNo, key::Parsed};

/// The positions at which anybody may read: snapshots, and whatever is visible from now on.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    /// Of snapshots, in order.
    snapshots: Vec<SeqNo>,
    /// What readers to come see at least.
    visible: SeqNo,
}

impl Readers {
    /// `snapshots`, in order, of which none is behind `visible`, and everyone who comes later.
    pub fn new(snapshots: Vec<SeqNo>, visible: SeqNo) -> Readers {
        debug_assert!(snapshots.is_sorted());
        Readers { snapshots, visible }
    }

    /// The lowest position.
    pub fn oldest(&self) -> SeqNo {
        self.first_from(SeqNo::ZERO)
    }

    /// The lowest position that sees `seq`; below `seq` if nobody sees it yet.
    pub fn first_from(&self, seq: SeqNo) -> SeqNo {
        let behind = self.snapshots.partition_point(|snapshot| *snapshot < seq);
        self.snapshots.get(behind).copied().unwrap_or(self.visible)
    }

    /// Whether whoever sees `older` sees `newer`, too.
    pub fn hide(&self, older: SeqNo, newer: SeqNo) -> bool {
        newer <= self.first_from(older)
    }
}

/// Fed a merge's entries in internal-key order; remembers the last user key.
#[derive(Clone, Debug)]
pub struct MayDrop {
    readers: Readers,
    last_user: Option<Vec<u8>>,
    last_seq: SeqNo,
    begins: bool,
}

impl MayDrop {
    /// For what `readers` can see.
    pub fn new(readers: Readers) -> MayDrop {
        MayDrop { readers, last_user: None, last_seq: SeqNo::MAX, begins: false }
    }

    /// The positions that it was made with.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Whether `entry` may be left out of the output. `is_bottom` tells whether anything older lies deeper than the
    /// output level.
    pub fn entry(&mut self, order: &KeyOrder, entry: &Parsed<'_>, is_bottom: impl FnOnce() -> bool) -> bool {
        self.begins = self.last_user.as_deref().is_none_or(|last| order.user(last, entry.user).is_ne());
        if self.begins {
            let last = self.last_user.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.user);
            self.last_seq = SeqNo::MAX;
        }
        let hidden = !self.begins && self.readers.hide(entry.seq, self.last_seq);
        // Every reader sees it, so what it hides here goes as well.
        let spent = entry.kind == Kind::Delete && entry.seq <= self.readers.oldest() && is_bottom();
        self.last_seq = entry.seq;
        hidden || spent
    }

    /// Where the rule stands, to go back there.
    pub fn place(&self) -> (Option<Vec<u8>>, SeqNo, bool) {
        (self.last_user.clone(), self.last_seq, self.begins)
    }

    /// Goes back to a `place`.
    pub fn go_back(&mut self, place: (Option<Vec<u8>>, SeqNo, bool)) {
        (self.last_user, self.last_seq, self.begins) = place;
    }

    /// Whether the entry fed last was the first of its user key. A later one that is kept does not begin a table: at worst a table
    /// ends a little later.
    pub fn begins_key(&self) -> bool {
        self.begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const ORDER: KeyOrder = KeyOrder::Bytewise;

    fn readers(snapshots: &[u64], visible: u64) -> Readers {
        Readers::new(snapshots.iter().copied().map(SeqNo).collect(), SeqNo(visible))
    }

    fn dropped(readers: &Readers, bottom: bool, entries: &[(&str, u64, Kind)]) -> Vec<bool> {
        let mut rule = MayDrop::new(readers.clone());
        let entry = |&(user, seq, kind): &(&str, u64, Kind)| {
            let entry = Parsed { user: user.as_bytes(), seq: SeqNo(seq), kind };
            rule.entry(&ORDER, &entry, || bottom)
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn keeps_what_some_reader_may_see() {
        use Kind::{Delete, Put};
        type Case<'a> = (&'a [u64], bool, &'a [(&'a str, u64, Kind)], &'a [bool]); // snapshots, bottom, entries, dropped?
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
            (&[3], false, &[("a", 11, Put), ("a", 10, Put), ("a", 8, Put)], &[false, false, true]), // 11 is to come
        ];
        for (snapshots, bottom, entries, want) in cases {
            let got = dropped(&readers(snapshots, 10), bottom, entries);
            assert_eq!(got, want, "snapshots {snapshots:?}, bottom {bottom}, {entries:?}");
        }
    }

    proptest! {
        /// By the definition: what each reader sees is what it saw.
        #[test]
        fn no_reader_notices(mut seqs in vec((1..30_u64, any::<bool>()), 1..12), mut held in vec(0..20_u64, 0..5), bottom: bool) {
            seqs.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
            seqs.dedup_by_key(|(seq, _)| *seq);
            held.sort_unstable();
            let entries: Vec<_> =
                seqs.iter().map(|(seq, put)| ("k", *seq, if *put { Kind::Put } else { Kind::Delete })).collect();
            let goes = dropped(&readers(&held, 20), bottom, &entries);
            let seen = |at: u64, all: bool| {
                let mut left = entries.iter().zip(&goes).filter(|(_, goes)| all || !**goes).map(|(entry, _)| entry);
                let newest = left.find(|(_, seq, _)| *seq <= at).map(|(_, seq, kind)| (*seq, *kind));
                newest.filter(|(_, kind)| !bottom || *kind == Kind::Put)
            };
            for at in held.iter().copied().chain(20..31) {
                prop_assert_eq!(seen(at, false), seen(at, true), "at {}, of {:?}, {:?} went", at, &entries, &goes);
            }
            let stripes = held.len() + 1 + entries.iter().filter(|(_, seq, _)| *seq > 20).count();
            prop_assert!(goes.iter().filter(|goes| !**goes).count() <= stripes);
        }
    }
}
