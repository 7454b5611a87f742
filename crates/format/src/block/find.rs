//! Point search in a block of internal keys, without reassembling whole keys.
//!
//! The search compares prefix-compressed keys as they are stored. For each entry it records two
//! values: how many bytes the entry's key has in common with the wanted user key, and whether the
//! first byte that differs is smaller or larger. Then there are two cases for the next entry. If
//! the next entry shares more bytes with the current entry than the current entry has in common
//! with the wanted key, both entries differ from the wanted key in the same byte. So they compare
//! with the wanted key in the same way. Otherwise the next entry stores the deciding bytes itself.
//! So when the search stops, the shared prefix of the found entry is known to equal a prefix of
//! the wanted key.
use super::{Block, BlockCursor, bytes::Contents, common_prefix, entry::corrupt};
use crate::{Corrupt, KeyOrder, Kind, SeqNo, key};
use std::{cmp::Ordering, ops::Range, sync::Arc};

/// The result of a search.
pub(super) enum Search<'a> {
    /// The first entry at or after the lookup key.
    At(Hit<'a>),
    /// All entries precede the lookup key.
    End,
    /// The search cannot decide, because it would need the shared prefix of the entry, which must
    /// be reassembled from earlier entries.
    Scattered,
}

/// An entry found by a search.
pub(super) struct Hit<'a> {
    /// Offset of the entry.
    pub begin: usize,
    /// The first `shared` bytes of the entry's key equal the first bytes of the wanted user key.
    pub shared: usize,
    /// The rest of the entry's key, as it is stored.
    pub own: &'a [u8],
    /// Range of the value within the block.
    pub value: Range<usize>,
    /// Whether the entry's user key is the wanted one. Then `own` contains the whole trailer.
    pub is_wanted: bool,
}

/// The entry that a reader sees: its sequence number, its kind, and the range of its value within
/// the block.
type Visible = (SeqNo, Kind, Range<usize>);

impl Block {
    /// Returns the sequence number, kind and value range of the entry that a reader sees. `lookup`
    /// has the user key and the reader's sequence number (see [`key::lookup`]). [`Block::part`] and
    /// [`Bytes::in_block`](super::Bytes::in_block) return the value for this range. The keys of the
    /// block must be internal keys sorted by `order`.
    pub fn find(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Option<Visible>, Corrupt> {
        match self.find_in_place(order, lookup)? {
            Some(found) => Ok(found),
            None => self.find_by_cursor(order, lookup),
        }
    }

    /// Finds an entry as [`Block::find`] does, but by reassembling keys.
    fn find_by_cursor(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Option<Visible>, Corrupt> {
        let mut cursor = BlockCursor::new(Arc::new(self.clone()));
        cursor.seek(lookup, |a, b| order.internal(a, b))?;
        if !cursor.valid() {
            return Ok(None);
        }
        let found = key::parse(cursor.key())?;
        let same = order.user(found.user, key::user_key(lookup)).is_eq();
        Ok(same.then(|| (found.seq, found.kind, cursor.value_in_block())))
    }
}

impl<B: Contents> Block<B> {
    /// Works like [`Block::find`], but returns `None` if the search would have to reassemble keys.
    pub fn find_in_place(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Option<Option<Visible>>, Corrupt> {
        match self.search(order, lookup)? {
            Search::At(hit) if hit.is_wanted => {
                let trailer = key::trailer(hit.own);
                Ok(Some(Some((SeqNo(trailer >> 8), key::kind_of(trailer)?, hit.value))))
            }
            Search::At(_) | Search::End => Ok(Some(None)),
            Search::Scattered => Ok(None),
        }
    }

    /// Returns the first entry at or after `lookup` in a block of internal keys sorted by `order`.
    /// In a custom order the result is always [`Search::Scattered`].
    #[inline(always)] // the result is large and would be copied otherwise
    pub(super) fn search(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Search<'_>, Corrupt> {
        if !order.is_bytewise() {
            return Ok(Search::Scattered);
        }
        let (wanted, newest) = (key::user_key(lookup), key::trailer(lookup));
        let entries = self.entries();
        let mut left = &entries.bytes[self.restart_before(|key| order.internal(key, lookup).is_lt())?..];
        let mut last_bytes = 0; // length of the previous key
        let mut common = 0; // number of bytes that the previous key has in common with `wanted`
        let mut decided = Ordering::Equal; // result of comparing the first differing byte
        while !left.is_empty() {
            let entry = entries.first_of(left)?;
            let (shared, own, key_bytes) = (entry.shared, entry.own, entry.key_bytes());
            if shared > last_bytes || key_bytes < key::TRAILER_BYTES {
                return Err(corrupt(entries.begin(left), "an invalid key"));
            }
            last_bytes = key_bytes;
            let begins_so = shared <= common;
            if begins_so {
                let wanted = &wanted[shared..];
                (common, decided) = (shared, own.first().cmp(&wanted.first())); // decides most keys
                if decided.is_eq() {
                    let more = common_prefix(own, wanted);
                    (common, decided) = (shared + more, own.get(more).cmp(&wanted.get(more)));
                }
            }
            let user_bytes = key_bytes - key::TRAILER_BYTES;
            let order = if common < user_bytes { decided } else { user_bytes.cmp(&wanted.len()) };
            if order.is_ge() {
                if !begins_so || order.is_eq() && shared > user_bytes {
                    return Ok(Search::Scattered);
                }
                if order.is_gt() || key::trailer(own) <= newest {
                    let end = entries.begin(entry.behind);
                    let (begin, value) = (entries.begin(left), end - entry.value.len()..end);
                    return Ok(Search::At(Hit { begin, shared, own, value, is_wanted: order.is_eq() }));
                }
            }
            left = entry.behind;
        }
        Ok(Search::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use proptest::{collection::vec, prelude::*};

    /// Tests a cursor that has copied the entry at or after `lookup` from `block`: it must have the
    /// same entry as `whole`, which has the block, and after `attach` move as `whole` does.
    fn check_copied_entry(block: &Block, lookup: &[u8], mut whole: BlockCursor) -> Result<(), TestCaseError> {
        let borrowed = Block::of_borrowed_keys(block.bytes.flat()).unwrap();
        let mut copied = BlockCursor::default();
        let is_copied = copied.copy_entry(&borrowed, lookup, &KeyOrder::Bytewise, 1).unwrap();
        prop_assert_eq!(is_copied, copied.valid());
        if !is_copied {
            return Ok(()); // no such entry, a longer value, or a search that cannot decide
        }
        prop_assert_eq!((copied.key(), copied.value()), (whole.key(), whole.value()));
        prop_assert_eq!((copied.is_first(), copied.entry_bytes()), (whole.is_first(), whole.entry_bytes()));
        prop_assert!(!copied.step_forward() && !copied.step_back());
        copied.attach(Arc::new(block.clone())).unwrap();
        let forward = lookup.len().is_multiple_of(2);
        for _ in 0..4 {
            for cursor in [&mut copied, &mut whole] {
                if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
            }
            prop_assert_eq!(copied.valid(), whole.valid());
            if !copied.valid() {
                break;
            }
            prop_assert_eq!((copied.key(), copied.value()), (whole.key(), whole.value()));
        }
        let other = Arc::new(Block::new(vec![0; 4]).unwrap());
        copied.copy_entry(&borrowed, lookup, &KeyOrder::Bytewise, 1).unwrap();
        prop_assert!(copied.attach(other).is_err() && !copied.valid(), "it is another block");
        Ok(())
    }

    proptest! {
        /// Tests that the search of a block finds the same entry as a cursor. The keys are short
        /// and have few different bytes. Some are prefixes of others or extend into their trailers,
        /// and some have many versions.
        #[test]
        fn finds_what_a_cursor_finds(
            mut entries in vec((vec(0..3_u8, 0..6), 0..600_u64, any::<bool>()), 1..60),
            restart_interval in 1..20_usize,
            wanted in vec((vec(0..3_u8, 0..6), 0..600_u64), 1..20),
        ) {
            let order = KeyOrder::Bytewise;
            entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
            let mut builder = BlockBuilder::new(restart_interval);
            for (i, (user, seq, put)) in entries.iter().enumerate() {
                let kind = if *put { Kind::Put } else { Kind::Delete };
                builder.add(&key::encode(user, SeqNo(*seq), kind), i.to_string().as_bytes());
            }
            let block = Block::of_internal_keys(builder.finish().to_vec()).unwrap();
            let there = entries.iter().map(|(user, seq, _)| (user.clone(), *seq));
            for (user, seq) in wanted.into_iter().chain(there) {
                let lookup = key::lookup(&user, SeqNo(seq));
                prop_assert_eq!(block.find(&order, &lookup), block.find_by_cursor(&order, &lookup), "{:?}", lookup);
                let [mut searched, mut compared] = [(); 2].map(|()| BlockCursor::new(Arc::new(block.clone())));
                searched.seek_internal(&lookup, &order).unwrap();
                compared.seek(&lookup, |a, b| order.internal(a, b)).unwrap();
                let shown = |cursor: &BlockCursor| {
                    cursor.valid().then(|| (cursor.key().to_vec(), cursor.value_in_block()))
                };
                prop_assert_eq!(shown(&searched), shown(&compared), "{:?}", lookup);
                check_copied_entry(&block, &lookup, searched)?;
            }
        }

        #[test]
        fn takes_any_bytes(bytes in vec(any::<u8>(), 0..80), wanted in vec(0..4_u8, 8..12)) {
            if let Ok(block) = Block::of_internal_keys(bytes) {
                let _ = block.find(&KeyOrder::Bytewise, &wanted);
                let _ = BlockCursor::new(Arc::new(block)).seek_internal(&wanted, &KeyOrder::Bytewise);
            }
        }

        /// Tests a block of arbitrary bytes with valid restart offsets after them, so that the
        /// search decodes the bytes as entries. The search must return a result or an error and
        /// must not panic.
        #[test]
        fn takes_any_entries(mut bytes in vec(0..12_u8, 0..80), wanted in vec(0..4_u8, 8..12)) {
            bytes.extend_from_slice(b"\0\0\0\0\x01\0\0\0");
            let block = Block::of_internal_keys(bytes).unwrap();
            let _ = block.find(&KeyOrder::Bytewise, &wanted);
            let _ = BlockCursor::new(Arc::new(block)).seek_internal(&wanted, &KeyOrder::Bytewise);
        }
    }
}
