//! Selects the valid entries of a block that has a valid checksum but keys out of order. Such a
//! block is written if a memory error changes a key before the checksum is computed.
//!
//! The selection assumes that most keys are right. It drops the smallest number of entries such
//! that the keys of the remaining entries are in order. It does not check values.
use crate::tables::Loss;
use std::{cmp::Ordering, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockBuilder, BlockCursor, Bytes},
    footer::Handle,
    key::{self, TRAILER_BYTES},
};

/// The maximum size of the decoded keys, as a multiple of the size of the block. Keys share
/// prefixes, so a small corrupt block could decode to very long keys. A block that exceeds this
/// factor is rejected.
const EXPANSION_MAX: usize = 64;
/// Maximum number of losses in one block that are reported one by one.
const LISTED_MAX: usize = 16;
const RESTART_INTERVAL: usize = 16;

/// Finds a longest subsequence of `items` that ascends by `less`. Returns for each item whether it
/// is in the subsequence.
pub(super) fn ascending<T>(items: &[T], less: impl Fn(&T, &T) -> bool) -> Vec<bool> {
    // The element for a length is the index of an item: of all ascending subsequences with this
    // length, the smallest last item.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let length = tails.partition_point(|tail| less(&items[*tail], item));
        before.push(length.checked_sub(1).map(|length| tails[length]));
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let (mut kept, mut next) = (vec![false; items.len()], tails.last().copied());
    while let Some(at) = next {
        kept[at] = true;
        next = before[at];
    }
    kept
}

/// The bounds for the keys of a block. Its keys must be greater than `last`, the last key before
/// the block, and at most `listed`, the block's upper bound. An empty key is no bound.
pub(super) struct Between<'a> {
    pub order: &'a KeyOrder,
    pub last: &'a [u8],
    pub listed: &'a [u8],
    /// The table's bounds according to the manifest.
    pub bounds: &'a [Vec<u8>; 2],
}

/// The valid entries of a block, and the losses.
pub(super) struct Sifted {
    /// A cursor on the first kept entry; `None` if none was kept.
    pub block: Option<BlockCursor>,
    /// The key of the last kept entry.
    pub last: Vec<u8>,
    pub lost: Vec<Loss>,
    pub kept: usize,
    pub left_out: usize,
}

/// A decoded entry.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    /// The reason why the entry is impossible; `None` if it is possible.
    wrong: Option<String>,
}

/// Removes the impossible entries from the block at `handle`.
pub(super) fn sift(between: &Between<'_>, handle: Handle, contents: Bytes) -> Result<Sifted, Corrupt> {
    let mut entries = decode(contents)?;
    for entry in &mut entries {
        entry.wrong = between.wrong(&entry.key);
    }
    let sound: Vec<usize> = (0..entries.len()).filter(|at| entries[*at].wrong.is_none()).collect();
    let kept = ascending(&sound, |a, b| between.order.internal(&entries[*a].key, &entries[*b].key).is_lt());
    for (&at, _) in sound.iter().zip(kept).filter(|(_, kept)| !kept) {
        entries[at].wrong = Some("its key is out of order".into());
    }
    reject_duplicates(between.order, &mut entries);
    let lost = losses(between, handle, &entries);
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let (mut last, mut count) = (Vec::new(), 0);
    for entry in entries.iter().filter(|entry| entry.wrong.is_none()) {
        builder.add(&entry.key, &entry.value);
        last.clone_from(&entry.key);
        count += 1;
    }
    let mut block = None;
    if count > 0 {
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(builder.finish().to_vec())?));
        cursor.seek_first()?;
        block = Some(cursor);
    }
    Ok(Sifted { block, last, lost, kept: count, left_out: entries.len() - count })
}

/// Rejects both of two entries that have the same key and different values.
fn reject_duplicates(order: &KeyOrder, entries: &mut [Entry]) {
    let (left_out, kept): (Vec<usize>, Vec<usize>) = (0..entries.len()).partition(|at| entries[*at].wrong.is_some());
    for at in left_out {
        let Entry { key, value, .. } = &entries[at];
        if key.len() < TRAILER_BYTES {
            continue;
        }
        let Ok(found) = kept.binary_search_by(|kept| order.internal(&entries[*kept].key, key)) else { continue };
        let found = kept[found];
        if entries[found].value != *value {
            entries[found].wrong = Some("another entry has the same key and another value".into());
        }
    }
}

/// Decodes all entries of a block without checking their keys.
fn decode(contents: Bytes) -> Result<Vec<Entry>, Corrupt> {
    let key_bytes_max = contents.len().saturating_mul(EXPANSION_MAX);
    let mut cursor = BlockCursor::new(Arc::new(Block::new(contents)?));
    let (mut entries, mut key_bytes) = (Vec::new(), 0);
    cursor.seek_first()?;
    while cursor.valid() {
        key_bytes += cursor.key().len();
        if key_bytes > key_bytes_max {
            return Err(Corrupt::new("block", 0, format!("its keys take more than {key_bytes_max} bytes")));
        }
        entries.push(Entry { key: cursor.key().to_vec(), value: cursor.value().to_vec(), wrong: None });
        cursor.next()?;
    }
    Ok(entries)
}

impl Between<'_> {
    /// Returns the reason why `key` is impossible in this block: it is malformed or not within the
    /// block's bounds. Returns `None` if it is possible.
    fn wrong(&self, key: &[u8]) -> Option<String> {
        if let Err(found) = key::parse(key) {
            return Some(found.detail);
        }
        let is = |bound: &[u8], how: Ordering| !bound.is_empty() && self.order.internal(key, bound) == how;
        if is(self.last, Ordering::Less) || is(self.last, Ordering::Equal) {
            return Some("its key is not greater than the keys of the previous blocks".into());
        }
        if is(&self.bounds[0], Ordering::Less) || is(&self.bounds[1], Ordering::Greater) {
            return Some("its key is outside the table's bounds in the manifest".into());
        }
        is(self.listed, Ordering::Greater).then(|| "its key is greater than the block's index key".into())
    }
}

/// Describes each dropped entry with a key range. The correct key of the entry, which a memory
/// error has changed, must have been in this range.
fn losses(between: &Between<'_>, handle: Handle, entries: &[Entry]) -> Vec<Loss> {
    let user = |key: &[u8]| (key.len() >= TRAILER_BYTES).then(|| key::user_key(key).to_vec());
    let wrong = || entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry, entry.wrong.as_ref()?)));
    let is_kept = |entry: &&Entry| entry.wrong.is_none();
    let loss = |at: usize, bytes: usize, reason: String| {
        let before = entries[..at].iter().rev().find(is_kept).map_or(between.last, |entry| &entry.key);
        let after = entries[at..].iter().find(is_kept).map_or(between.listed, |entry| &entry.key);
        Loss { offset: handle.offset, bytes: bytes as u64, reason, from: user(before), to: user(after) }
    };
    let bytes = |entry: &Entry| entry.key.len() + entry.value.len();
    if wrong().count() <= LISTED_MAX {
        let one = |(at, entry, why): (usize, &Entry, &String)| {
            let shown = user(&entry.key).unwrap_or_else(|| entry.key.clone());
            let reason = format!("entry {at} of the block, key '{}': {why}", shown.escape_ascii());
            loss(at, bytes(entry), reason)
        };
        return wrong().map(one).collect();
    }
    let (first, last) = (wrong().next().map_or(0, |(at, ..)| at), wrong().next_back().map_or(0, |(at, ..)| at));
    let all = wrong().map(|(_, entry, _)| bytes(entry)).sum();
    let reason = format!("{} entries of the block are out of order or malformed", wrong().count());
    vec![Loss { to: loss(last, 0, String::new()).to, ..loss(first, all, reason) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_items_are_dropped() {
        for (items, want) in [
            (&[][..], &[][..]),
            (&[1], &[1]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 9, 2, 3], &[1, 2, 3]),
            (&[9, 1, 2, 3], &[1, 2, 3]),
            (&[1, 2, 0, 3], &[1, 2, 3]),
            (&[1, 2, 2, 3], &[1, 2, 3]),
            (&[5, 6, 1, 7, 2, 8], &[5, 6, 7, 8]),
        ] {
            let kept = ascending(items, |a, b| a < b);
            let left: Vec<i32> = items.iter().zip(kept).filter(|(_, kept)| *kept).map(|(item, _)| *item).collect();
            assert_eq!(left, want, "{items:?}");
        }
    }
}
