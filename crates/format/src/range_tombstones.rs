//! Range tombstones, split into fragments that can be searched.
//!
//! Overlapping ranges are split into *fragments* that do not overlap. A fragment has the sequence
//! numbers of all range tombstones that cover it, newest first. SSTables store fragments in meta
//! block [`META_NAME`]:
//!
//! ```text
//! a block with one entry for each sequence number of each fragment, in this order
//!     key    internal key (start of the range, sequence number, kind 0)
//!     value  end of the range, a user key, exclusive
//! ```
//! This format is an addition of Terrace that readers must know: feature flag `range-deletes`.
//! Spec: docs/format/table.md.
use crate::{
    Corrupt, KeyOrder, Kind, SeqNo,
    block::{Block, BlockBuilder, BlockCursor, Bytes},
    key,
};
use std::sync::Arc;

/// Key of the meta block in the metaindex.
pub const META_NAME: &str = "terrace.range_deletes";
/// Feature flag of stores with range tombstones.
pub const FEATURE: &str = "range-deletes";
const RESTART_INTERVAL: usize = 16;

/// A range of user keys, [`from`, `to`), and the tombstones that cover it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First key of the range.
    pub from: Vec<u8>,
    /// End of the range, exclusive.
    pub to: Vec<u8>,
    /// Sequence numbers of the tombstones, newest first; at least one.
    pub sequences: Vec<SeqNo>,
}

impl Fragment {
    /// Returns the sequence number of the newest tombstone that a reader at `at` sees; zero if
    /// there is none.
    pub fn newest(&self, at: SeqNo) -> SeqNo {
        let seen = self.sequences.partition_point(|seq| *seq > at);
        self.sequences.get(seen).copied().unwrap_or(SeqNo::ZERO)
    }

    fn byte_len(&self) -> usize {
        size_of::<Fragment>() + self.from.len() + self.to.len() + size_of_val(&*self.sequences)
    }
}

/// The largest range around a user key with one property: for a given reader, every key of the
/// range has the same newest range tombstone, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// First key of the range; `None` is unbounded.
    pub from: Option<&'a [u8]>,
    /// End of the range, exclusive; `None` is unbounded.
    pub to: Option<&'a [u8]>,
    /// Sequence number of the newest visible tombstone of the range; zero if there is none.
    pub newest: SeqNo,
}

/// Fragments sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

impl RangeTombstones {
    /// Returns whether there are no tombstones.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Returns the fragments sorted by key.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// Adds a range tombstone for [`from`, `to`) at `seq`. An empty range has no effect. Returns
    /// approximately how many bytes of memory were added. The new range may split existing
    /// fragments, which copies their sequence numbers, so this memory counts too.
    pub fn insert(&mut self, order: &KeyOrder, from: &[u8], to: &[u8], seq: SeqNo) -> usize {
        self.insert_within(order, from, to, seq, seq)
    }

    /// Adds a range tombstone as [`RangeTombstones::insert`] does, for one of several operations
    /// that become visible together. `first` is the sequence number of the first of these
    /// operations. If several of these operations delete a key, only the newest range tombstone is
    /// kept, because no reader can see the others.
    pub fn insert_within(&mut self, order: &KeyOrder, from: &[u8], to: &[u8], seq: SeqNo, first: SeqNo) -> usize {
        if order.user(from, to).is_ge() {
            return 0;
        }
        let mut grown = self.cut(order, from) + self.cut(order, to);
        let (mut at, mut from) = (self.begin(order, from), from.to_vec());
        while order.user(&from, to).is_lt() {
            let begins = self.fragments.get(at).map(|next| &next.from).filter(|next| order.user(next, to).is_lt());
            if begins.is_some_and(|begins| order.user(begins, &from).is_eq()) {
                let sequences = &mut self.fragments[at].sequences;
                let newer = sequences.partition_point(|other| *other > seq);
                match sequences.get_mut(newer) {
                    Some(older) if *older >= first => *older = seq,
                    _ => {
                        sequences.insert(newer, seq);
                        grown += size_of::<SeqNo>();
                    }
                }
            } else {
                let end = begins.map_or(to, Vec::as_slice).to_vec();
                let gap = Fragment { from, to: end, sequences: vec![seq] };
                grown += gap.byte_len();
                self.fragments.insert(at, gap);
            }
            from = self.fragments[at].to.clone();
            at += 1;
        }
        grown
    }

    /// Adds all tombstones of `other`.
    pub fn extend(&mut self, order: &KeyOrder, other: &RangeTombstones) {
        for fragment in &other.fragments {
            for seq in &fragment.sequences {
                self.insert(order, &fragment.from, &fragment.to, *seq);
            }
        }
    }

    /// Splits the fragment that contains `at`. Returns the memory added, in bytes.
    fn cut(&mut self, order: &KeyOrder, at: &[u8]) -> usize {
        let number = self.begin(order, at);
        let Some(before) = number.checked_sub(1).map(|number| &mut self.fragments[number]) else { return 0 };
        if order.user(&before.to, at).is_le() {
            return 0;
        }
        let rest = Fragment { from: at.to_vec(), to: before.to.clone(), sequences: before.sequences.clone() };
        let grown = rest.byte_len();
        before.to = at.to_vec();
        self.fragments.insert(number, rest);
        grown
    }

    /// Returns the index of the first fragment that starts at or after `user`.
    fn begin(&self, order: &KeyOrder, user: &[u8]) -> usize {
        self.fragments.partition_point(|fragment| order.user(&fragment.from, user).is_lt())
    }

    /// Returns the sequence number of the newest tombstone for `user` that a reader at `at` sees;
    /// zero if there is none.
    pub fn newest(&self, order: &KeyOrder, user: &[u8], at: SeqNo) -> SeqNo {
        if self.is_empty() { SeqNo::ZERO } else { self.stretch(order, user, at).newest }
    }

    /// Returns the largest range around `user` in which a reader at `at` sees the same newest
    /// tombstone.
    pub fn stretch(&self, order: &KeyOrder, user: &[u8], at: SeqNo) -> Stretch<'_> {
        let next = self.fragments.partition_point(|fragment| order.user(&fragment.from, user).is_le());
        let to = self.fragments.get(next).map(|fragment| &*fragment.from);
        let Some(fragment) = next.checked_sub(1).map(|at| &self.fragments[at]) else {
            return Stretch { from: None, to, newest: SeqNo::ZERO };
        };
        if order.user(user, &fragment.to).is_lt() {
            let newest = fragment.newest(at);
            return Stretch { from: Some(&fragment.from), to: Some(&fragment.to), newest };
        }
        Stretch { from: Some(&fragment.to), to, newest: SeqNo::ZERO }
    }

    /// Returns the fragments within [`from`, `to`). Fragments that cross an end of this range are
    /// cut there.
    pub fn within(&self, order: &KeyOrder, from: Option<&[u8]>, to: Option<&[u8]>) -> RangeTombstones {
        let mut part = self.clone();
        if let Some(from) = from {
            part.cut(order, from);
            part.fragments.drain(..part.begin(order, from));
        }
        if let Some(to) = to {
            part.cut(order, to);
            part.fragments.truncate(part.begin(order, to));
        }
        part
    }

    /// Replaces the sequence numbers of each fragment by the result of `keep` for this fragment.
    pub fn keep(&mut self, mut keep: impl FnMut(&Fragment) -> Vec<SeqNo>) {
        for fragment in &mut self.fragments {
            fragment.sequences = keep(fragment);
        }
        self.fragments.retain(|fragment| !fragment.sequences.is_empty());
    }

    /// Returns the smallest and the largest internal key that bound the ranges, or `None` if there
    /// are no ranges. The largest key consists of the exclusive end of the last range and the
    /// largest sequence number, so it precedes every entry of that end key.
    pub fn bounds(&self) -> Option<[Vec<u8>; 2]> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        let newest = *first.sequences.first()?;
        Some([key::encode(&first.from, newest, Kind::Put), key::encode(&last.to, SeqNo::MAX, Kind::Put)])
    }

    /// Encodes the meta block.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = BlockBuilder::new(RESTART_INTERVAL);
        for fragment in &self.fragments {
            for seq in &fragment.sequences {
                block.add(&key::encode(&fragment.from, *seq, Kind::Delete), &fragment.to);
            }
        }
        block.finish().to_vec()
    }

    /// Decodes the meta block. Overlapping or unsorted fragments are corruption.
    pub fn decode(order: &KeyOrder, bytes: impl Into<Bytes>) -> Result<RangeTombstones, Corrupt> {
        let bad = |detail| Corrupt::new("range deletes", 0, detail);
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(bytes)?));
        let mut fragments: Vec<Fragment> = Vec::new();
        cursor.seek_first()?;
        while cursor.valid() {
            let (begin, to) = (key::parse(cursor.key())?, cursor.value());
            match fragments.last_mut() {
                Some(last) if order.user(&last.from, begin.user).is_eq() => {
                    if last.to != to || last.sequences.last().is_some_and(|newer| *newer <= begin.seq) {
                        return Err(bad("deletes of one range differ"));
                    }
                    last.sequences.push(begin.seq);
                }
                last => {
                    let apart = last.is_none_or(|last| order.user(&last.to, begin.user).is_le());
                    if !apart || order.user(begin.user, to).is_ge() {
                        return Err(bad("a range overlaps the one before it, or ends before it begins"));
                    }
                    let sequences = vec![begin.seq];
                    fragments.push(Fragment { from: begin.user.to_vec(), to: to.to_vec(), sequences });
                }
            }
            cursor.next()?;
        }
        Ok(RangeTombstones { fragments })
    }

    /// Returns the approximate memory used, in bytes.
    pub fn byte_len(&self) -> usize {
        self.fragments.iter().map(Fragment::byte_len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const ORDER: KeyOrder = KeyOrder::Bytewise;

    fn any_deletes() -> impl Strategy<Value = Vec<(u8, u8, u64)>> {
        vec((0..12_u8, 0..12_u8, 1..40_u64), 0..12)
    }

    fn made(deletes: &[(u8, u8, u64)]) -> RangeTombstones {
        let mut made = RangeTombstones::default();
        for (from, to, seq) in deletes {
            let (before, grown) = (made.byte_len(), made.insert(&ORDER, &[*from], &[*to], SeqNo(*seq)));
            assert_eq!(made.byte_len() - before, grown, "keys are as long as each other here");
        }
        made
    }

    /// The definition with which the tests compare the results: the newest tombstone whose range
    /// contains `user`.
    fn newest(deletes: &[(u8, u8, u64)], user: u8, at: u64) -> u64 {
        let seen = deletes.iter().filter(|(from, to, seq)| (from..to).contains(&&user) && *seq <= at);
        seen.map(|(_, _, seq)| *seq).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn every_key_has_its_newest_delete(deletes in any_deletes(), at in 0..45_u64, cuts in (0..13_u8, 0..13_u8)) {
            let all = made(&deletes);
            let part = all.within(&ORDER, Some(&[cuts.0]), Some(&[cuts.1]));
            for user in 0..13_u8 {
                let want = newest(&deletes, user, at);
                let stretch = all.stretch(&ORDER, &[user], SeqNo(at));
                prop_assert_eq!(stretch.newest, SeqNo(want));
                for other in 0..13_u8 {
                    let inside = stretch.from.is_none_or(|from| from <= &[other][..]) && stretch.to.is_none_or(|to| to > &[other][..]);
                    prop_assert!(!inside || newest(&deletes, other, at) == want, "{:?} holds {}", stretch, other);
                }
                let inside = (cuts.0..cuts.1).contains(&user);
                prop_assert_eq!(part.newest(&ORDER, &[user], SeqNo(at)).0, if inside { want } else { 0 });
            }
            prop_assert_eq!(RangeTombstones::decode(&ORDER, all.encode()), Ok(all.clone()));
            let mut twice = part;
            twice.extend(&ORDER, &all);
            prop_assert_eq!(made(&deletes).is_empty(), all.is_empty());
            for user in 0..13_u8 {
                prop_assert_eq!(twice.newest(&ORDER, &[user], SeqNo(at)), all.newest(&ORDER, &[user], SeqNo(at)));
            }
        }

        #[test]
        fn takes_any_entries(mut bytes in vec(0..12_u8, 0..80)) {
            bytes.extend_from_slice(b"\0\0\0\0\x01\0\0\0");
            let _ = RangeTombstones::decode(&ORDER, bytes);
        }
    }

    #[test]
    fn bytes_are_as_specified() {
        let all = made(&[(2, 6, 7), (4, 8, 9)]);
        let from: Vec<_> = all.fragments().iter().map(|f| (f.from[0], f.to[0], f.sequences.len())).collect();
        assert_eq!(from, [(2, 4, 1), (4, 6, 2), (6, 8, 1)]);
        let want = b"\x00\x09\x01\x02\x00\x07\0\0\0\0\0\0\x04\x00\x09\x01\x04\x00\x09\0\0\0\0\0\0\x06";
        assert_eq!(all.encode()[..want.len()], want[..]);
        assert_eq!(
            all.bounds(),
            Some([key::encode(&[2], SeqNo(7), Kind::Put), key::encode(&[8], SeqNo::MAX, Kind::Put)])
        );
        let mut damaged = BlockBuilder::new(16);
        damaged.add(&key::encode(&[2], SeqNo(7), Kind::Delete), &[5]);
        damaged.add(&key::encode(&[4], SeqNo(7), Kind::Delete), &[6]);
        assert!(RangeTombstones::decode(&ORDER, damaged.finish().to_vec()).is_err(), "they overlap");
    }
}
