//! The point lookup in a block of internal keys: finds an entry without putting any key together.
//!
//! Keys are stored as differences, and so they can be compared. Of each key it is enough to know how many bytes it has
//! in common with the wanted user key, and the first byte behind those: an entry that takes over more bytes than these
//! from the key before it compares as that one did, any other shows the bytes that decide.
use super::{
    Block, BlockCursor, common_prefix,
    entry::{corrupt, sizes},
};
use crate::{Corrupt, KeyOrder, Kind, SeqNo, key};
use std::{cmp::Ordering, ops::Range, sync::Arc};

/// What a lookup comes to.
enum Search {
    /// The trailer of the newest entry that the lookup may see, and where in the block its value is.
    Found(u64, Range<usize>),
    Absent,
    /// The entry is there, but part of its trailer is stored with an older entry.
    Scattered,
}

impl Block {
    /// The newest entry for `lookup`'s user key at or below its sequence ([`key::lookup`]), in a block of internal keys
    /// that `order` sorts, and where its value is: see [`Block::part`] and [`Bytes::in_block`](super::Bytes::in_block).
    pub fn find(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Option<(SeqNo, Kind, Range<usize>)>, Corrupt> {
        let search = match order {
            KeyOrder::Bytewise => self.search(order, lookup)?,
            KeyOrder::Custom(_) => Search::Scattered,
        };
        match search {
            Search::Found(trailer, value) => {
                let kind = key::kind_of(trailer)?;
                Ok(Some((SeqNo(trailer >> 8), kind, value)))
            }
            Search::Absent => Ok(None),
            Search::Scattered => self.find_by_cursor(order, lookup),
        }
    }

    /// As [`Block::find`], by putting keys together.
    fn find_by_cursor(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Option<(SeqNo, Kind, Range<usize>)>, Corrupt> {
        let mut cursor = BlockCursor::new(Arc::new(self.clone()));
        cursor.seek(lookup, |a, b| order.internal(a, b))?;
        if !cursor.valid() {
            return Ok(None);
        }
        let found = key::parse(cursor.key())?;
        let same = order.user(found.user, key::user_key(lookup)).is_eq();
        Ok(same.then(|| (found.seq, found.kind, cursor.value_in_block())))
    }

    /// Bytewise order only.
    fn search(&self, order: &KeyOrder, lookup: &[u8]) -> Result<Search, Corrupt> {
        let (wanted, newest) = (key::user_key(lookup), key::trailer(lookup));
        let entries = &self.bytes.flat()[..self.entries_end];
        let mut at = self.start_for(order, lookup)?;
        let mut last_bytes = 0; // of the key before
        let mut common = 0; // bytes that it has in common with `wanted`
        let mut decided = Ordering::Equal; // how its byte behind those compares with the wanted one
        while at < entries.len() {
            let sizes = sizes(entries, at)?;
            let key_bytes = sizes.shared + sizes.unshared;
            if sizes.shared > last_bytes || key_bytes < key::TRAILER_BYTES {
                return Err(corrupt(at, "a key that cannot be"));
            }
            last_bytes = key_bytes;
            let value_at = sizes.key_at + sizes.unshared;
            let own = &entries[sizes.key_at..value_at];
            if sizes.shared <= common {
                let wanted = &wanted[sizes.shared..];
                let more = common_prefix(own, wanted);
                (common, decided) = (sizes.shared + more, own.get(more).cmp(&wanted.get(more)));
            }
            at = value_at + sizes.value;
            let user_bytes = key_bytes - key::TRAILER_BYTES;
            let order = if common < user_bytes { decided } else { user_bytes.cmp(&wanted.len()) };
            match order {
                Ordering::Less => {}
                Ordering::Greater => return Ok(Search::Absent),
                Ordering::Equal if sizes.shared > user_bytes => return Ok(Search::Scattered),
                Ordering::Equal => {
                    let trailer = key::trailer(own);
                    if trailer <= newest {
                        return Ok(Search::Found(trailer, value_at..at));
                    }
                }
            }
        }
        Ok(Search::Absent)
    }

    /// Where the entries begin among which the first at or after `lookup` is: at the last restart before it.
    fn start_for(&self, order: &KeyOrder, lookup: &[u8]) -> Result<usize, Corrupt> {
        if self.entries_end == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (0, self.restarts.saturating_sub(1));
        while low < high {
            let middle = (low + high).div_ceil(2);
            if order.internal(self.restart_key(middle)?, lookup).is_lt() { low = middle } else { high = middle - 1 }
        }
        let at = self.restart(low);
        if at < self.entries_end { Ok(at) } else { Err(corrupt(at, "a restart behind the last entry")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        /// Short keys over few bytes, so that keys are prefixes of each other, run into each other's trailers, and have
        /// many versions.
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
            }
        }

        #[test]
        fn takes_any_bytes(bytes in vec(any::<u8>(), 0..80), wanted in vec(0..4_u8, 8..12)) {
            if let Ok(block) = Block::of_internal_keys(bytes) {
                let _ = block.find(&KeyOrder::Bytewise, &wanted);
            }
        }

        /// As above, but framed so that the entries are looked at.
        #[test]
        fn takes_any_entries(mut bytes in vec(0..12_u8, 0..80), wanted in vec(0..4_u8, 8..12)) {
            bytes.extend_from_slice(b"\0\0\0\0\x01\0\0\0");
            let block = Block::of_internal_keys(bytes).unwrap();
            let _ = block.find(&KeyOrder::Bytewise, &wanted);
        }
    }
}
