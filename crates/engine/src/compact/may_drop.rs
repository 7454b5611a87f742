//! Which entries of a merge nobody can see any more. Pure.
use terrace_format::{KeyOrder, Kind, SeqNo, key::Parsed};

/// Fed a merge's entries in internal-key order; remembers the last user key.
#[derive(Clone, Debug)]
pub struct MayDrop {
    oldest_reader: SeqNo,
    last_user: Option<Vec<u8>>,
    last_seq: SeqNo,
    begins: bool,
}

impl MayDrop {
    /// Nobody reads at a position below `oldest_reader`.
    pub fn new(oldest_reader: SeqNo) -> MayDrop {
        MayDrop { oldest_reader, last_user: None, last_seq: SeqNo::MAX, begins: false }
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
        let hidden = self.last_seq <= self.oldest_reader; // every reader sees the newer entry of this key
        let spent = entry.kind == Kind::Delete && entry.seq <= self.oldest_reader && is_bottom();
        self.last_seq = entry.seq;
        hidden || spent
    }

    /// Whether the entry fed last was the first of its user key. An entry that is kept behind another one of its key
    /// comes behind one that was kept: what follows a dropped entry is older still, and hidden.
    pub fn begins_key(&self) -> bool {
        self.begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_some_reader_may_see() {
        use Kind::{Delete, Put};
        type Case<'a> = (u64, bool, &'a [(&'a str, u64, Kind)], &'a [bool]); // oldest reader, bottom, entries, dropped?
        let cases: [Case<'_>; 6] = [
            (9, false, &[("a", 5, Put), ("a", 3, Put), ("b", 4, Put)], &[false, true, false]),
            (4, false, &[("a", 5, Put), ("a", 3, Put), ("a", 2, Put)], &[false, false, true]),
            (9, true, &[("a", 5, Delete), ("a", 3, Put)], &[true, true]),
            (9, false, &[("a", 5, Delete), ("a", 3, Put)], &[false, true]),
            (4, true, &[("a", 5, Delete), ("a", 3, Put)], &[false, false]),
            (0, true, &[("", 1, Delete)], &[false]),
        ];
        for (reader, bottom, entries, want) in cases {
            let mut rule = MayDrop::new(SeqNo(reader));
            let got: Vec<bool> = entries
                .iter()
                .map(|&(user, seq, kind)| {
                    let entry = Parsed { user: user.as_bytes(), seq: SeqNo(seq), kind };
                    rule.entry(&KeyOrder::Bytewise, &entry, || bottom)
                })
                .collect();
            assert_eq!(got, want, "reader {reader}, bottom {bottom}, {entries:?}");
        }
    }
}
